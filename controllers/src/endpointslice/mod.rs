//! The EndpointSlice controller: pods of a Service become endpoints in slices (KEP-752).
//!
//! `reconcile` is its table of contents. `state` says what is out of date and takes in answers, `inputs` what a plan is made
//! from, `plan` decides, `apply` sends what was decided, and `events` says what a person is told of it.

mod apply;
mod events;
pub mod explain;
pub(crate) mod inputs;
pub(crate) mod plan;
pub(crate) mod reconcile;
pub mod state;
