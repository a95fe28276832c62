//! The EndpointSlice controller: pods of a Service become endpoints in slices (KEP-752).
//!
//! `inputs` says what a plan is made from, `plan` decides, `apply` turns the decision into requests.

mod answers;
pub mod apply;
mod events;
pub mod explain;
pub mod inputs;
pub mod plan;
pub mod state;
mod told;
