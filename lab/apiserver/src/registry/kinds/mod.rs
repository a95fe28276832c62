//! The kinds of the lab: the rules of each, one file a kind, and the table of all.
//!
//! A kind's file never stores anything itself but through the transaction it is handed.

pub mod configmap;
mod deferred;
pub mod deployment;
pub mod endpoints;
pub mod endpointslice;
mod entries;
pub mod event;
mod event_rules;
mod fields;
pub mod ipaddress;
pub mod lease;
mod meta;
pub mod namespace;
pub mod node;
pub mod nodeport;
pub mod nodeportrange;
mod own;
pub mod pod;
mod pod_parts;
mod pod_spec;
mod pod_status;
mod pod_validate;
mod pod_warnings;
pub mod replicaset;
pub mod secret;
pub mod service;
#[cfg(test)]
mod service_histories;
mod service_size;
#[cfg(test)]
mod service_tests;
pub mod serviceaccount;
pub mod servicecidr;
pub mod servicepool;
pub(super) mod topology;
mod typed;
pub mod workload;

pub use entries::entries;
pub use event::{from_events_v1, to_events_v1};
