//! The embedded API server: a Kubernetes API for Services and what surrounds them, on loopback.
//!
//! Owns the store (revision log, watches, one transaction for a Service and its allocation), the verbs, patches,
//! discovery and the simulated nodes. It never talks to another API server and runs no controller of the Service
//! control plane itself: those meet it over HTTP.
//!
//! ```text
//! http (router, auth, params, encode) -> registry (entry, strategy, verbs) -> store (view, tx, log, watch)
//!                                             |                                  |
//!                                   decode, patch, managed_fields          allocators::Ledger (an index of the store)
//! ```

pub mod bootstrap;
pub mod decode;
pub mod demo;
pub mod discovery;
pub mod event_ttl;
pub mod events;
pub mod gc;
pub mod http;
pub mod kubeconfig;
pub mod local;
pub mod managed_fields;
pub mod metrics;
pub mod namespace_lifecycle;
pub mod nodes;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod registry;
pub mod repair;
pub mod schema;
pub mod server;
pub mod store;
pub mod tls;
pub mod workloads;
