//! The Endpoints controller: the legacy object that lists a Service's pods by their ports.
//!
//! `plan` decides, `state` keeps what was seen and turns decisions into requests.

pub mod plan;
pub mod state;
