//! Reconcilers that keep EndpointSlices, Endpoints and mirrors true.
//!
//! The one shape is `watch → cache → key → plan → apply → report`: watches fill caches of small
//! structs and their indexes, events name the Services to look at, a pure plan says what to write,
//! and a thin layer sends it. This crate never serves an API and never decides on addresses.

pub mod allocation;
pub mod api;
mod backoff;
mod bounded;
pub mod cache;
mod client;
mod concurrency;
pub mod controller;
mod deadline;
pub mod differences;
pub mod endpoints;
pub mod endpointslice;
pub mod error;
pub mod explain;
pub mod feed;
pub mod index;
pub mod keys;
pub mod leadership;
pub mod lease;
pub mod ledger;
pub mod mirroring;
pub mod objects;
pub mod readiness;
pub mod reconcile;
pub mod report;
pub mod requests;
pub mod runtime;
pub mod servicecidr;
pub mod simulate;
mod subsets;
mod target_ports;
pub mod text;
pub mod verdict;
pub mod watch;
pub mod webhook;
