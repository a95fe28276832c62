//! What people and dashboards get to see: the log of failures, Events and metrics.

pub(crate) mod cause;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod lines;
pub(crate) mod log;
pub mod look;
pub mod metrics;
pub mod note;
pub mod reconcile;
pub mod trigger;
pub(crate) mod words;
mod written;
