//! The audit controllers: Services against IPAddresses and ServiceCIDRs, and against NodePorts and their ranges.
//!
//! Something is said only of what lasts and what a fresh read confirms: an API server makes the entry of a value before it
//! stores the Service and frees it after that, so for a moment the two never agree. What is repaired is what no living
//! object can lose by.

pub(crate) mod plan;
pub(crate) mod reconcile;
mod words;
