//! What people and dashboards get to see: Events and metrics.

pub mod events;
pub mod metrics;
