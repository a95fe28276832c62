//! What people and dashboards get to see: the log of failures, Events and metrics.

pub(crate) mod cause;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod log;
pub mod metrics;
pub mod note;
pub(crate) mod reconcile;
