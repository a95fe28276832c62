//! The embedded API server: a Kubernetes API for Services and what surrounds them, on loopback.
//!
//! Owns the kinds and their verbs (one transaction for a Service and its allocation), HTTP, discovery, and what an API
//! server's own process keeps up. It never talks to another API server and runs no controller of the Service control
//! plane itself: those meet it over HTTP, and so could the simulator, which asks by [`local`].
//!
//! ```text
//! http (router, auth, params, encode) -> registry (resources, strategy, verbs) -> store (view, tx, log, watch)
//!                                             |                                  |
//!                                         machinery                        allocators::Ledger (an index of the store)
//! ```

// The crates below, by the names that they are spoken of.
use service_lab_machinery::{decode, managed_fields, patch, protobuf, schema};
use service_lab_store as store;

mod address;
pub mod bootstrap;
pub mod discovery;
pub mod event_ttl;
mod follow;
pub mod gc;
pub mod http;
pub mod kubeconfig;
pub mod local;
pub mod metrics;
pub mod namespace_defaults;
pub mod namespace_lifecycle;
pub mod openapi;
pub mod registry;
pub mod repair;
pub mod server;
