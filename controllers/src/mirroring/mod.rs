//! The mirroring controller: custom `Endpoints` of Services without selector become slices.
//!
//! `reconcile` is its table of contents. `state` says what is out of date and takes in answers, `plan` decides; slices are
//! written as those made from pods.

pub(crate) mod plan;
pub(crate) mod reconcile;
pub mod state;
