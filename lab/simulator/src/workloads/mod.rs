//! A small stand-in for the Deployment and ReplicaSet controllers: enough for `kubectl apply`, `scale`, `rollout` and
//! `patch` of a Deployment on the lab's simulated nodes.
//!
//! It is not upstream's controller. It knows rolling updates and recreation, revisions, rollback and clean-up of old
//! ReplicaSets; it knows no pausing of half-done rollouts by hand, no adoption of pods it did not make, no hash collisions
//! and no proportional scaling. The decisions are pure ([`rollout`], [`replicas`]); this module carries them out.

pub mod replicas;
pub mod rollout;
mod runner;
mod template;

pub use runner::run;
