//! What people and dashboards get to see: the log of failures, Events and metrics.

pub mod cause;
pub mod events;
pub mod failures;
pub mod log;
pub mod metrics;
pub mod note;
pub mod reconcile;
