//! What the Service API's objects mean: defaulting, validation, update rules and the errors that
//! clients of Kubernetes v1.36 know.
//!
//! Everything here is a pure function of API objects. This crate never does I/O, never reads a
//! clock, never makes a random choice, and does not choose addresses or ports: it only says
//! whether an object is right and what a request means.
//!
//! A create is `default`, then `prepare_create`, then (elsewhere) allocation, then
//! `validate_create`. An update is `default`, `prepare_update`, allocation, `validate_update`.

pub mod address;
pub mod bad_value;
#[allow(unreachable_pub, reason = "the derived schemas make private copies of the types")]
#[allow(clippy::duplicated_attributes, reason = "each column has a type")]
pub mod crds;
pub mod cut;
pub mod endpoints;
pub mod endpointslice;
pub mod errors;
pub mod fields;
pub mod ipaddress;
pub mod labels;
pub mod meta;
pub mod names;
pub mod object;
pub mod path;
pub mod service;
pub mod servicecidr;
pub mod status;
