//! A small stand-in for the Deployment and ReplicaSet controllers: enough for `kubectl apply`, `scale`, `rollout` and
//! `patch` of a Deployment on the lab's simulated nodes.
//!
//! It is not upstream's controller. It knows rolling updates and recreation, revisions, rollback, clean-up of old
//! ReplicaSets, and whose a pod is by owner and by selector; it knows no pausing of half-done rollouts by hand and no
//! proportional scaling. The decisions are pure ([`rollout`], [`replicas`], `claims`); this module carries them out.

mod claims;
pub mod replicas;
pub mod rollout;
mod runner;
mod template;

pub use runner::run;
