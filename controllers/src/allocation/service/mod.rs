//! service-allocation-controller: Services that their API server gave no values get them.
//!
//! The entry of a value is made first: making it *is* the allocation, and of two who try one fails. Then the Service is
//! patched, if it is still the one that was decided on. A process that ends in between leaves an entry that bears the
//! Service's uid; whoever comes next uses it for that Service, or frees it when no Service has that uid any more.

pub(crate) mod plan;
pub(crate) mod reconcile;
