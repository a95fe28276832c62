//! The Endpoints controller: the legacy object that lists a Service's pods by their ports.
//!
//! `reconcile` is its table of contents. `state` says what is out of date and takes in answers, `plan` decides, and `apply` sends what was
//! decided.

mod apply;
pub(crate) mod plan;
pub(crate) mod reconcile;
pub mod state;
