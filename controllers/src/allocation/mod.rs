//! The controllers of Services' addresses and node ports, on the ledger that they share.
//!
//! ```text
//!   ledger --> changes --> queues --> service/   gives values, and frees them     service-allocation-controller
//!                                     audit/     compares, tells and repairs      the two audit controllers
//!                                     ranges/    conditions of ranges and pools   the controllers of those
//! ```
//!
//! Owns start and end of these controllers. They know what happens whether or not this replica leads, and write only
//! while it does.

mod audit;
mod draft;
mod gauges;
mod ranges;
mod run;
mod sent;
mod service;
mod trend;
mod triggers;
mod writes;

pub use audit::reconcile::Repair;
pub use gauges::Gauges;
pub use run::{Settings, start};
