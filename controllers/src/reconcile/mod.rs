//! What all controllers share: when a key is looked at, what waits for answers, and what is out of date.
//!
//! Knows no controller of its own.

pub mod context;
pub(crate) mod dirty;
pub(crate) mod in_flight;
pub mod outbox;
pub mod pacing;
pub mod pending;
pub(crate) mod report;
pub mod runner;
pub(crate) mod slice_tracker;
pub mod slices;
pub mod step;
pub(crate) mod trigger_times;
