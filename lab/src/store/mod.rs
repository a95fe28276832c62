//! The store below the API: objects by resource, one revision counter, a bounded event log, atomic transactions.
//!
//! It owns ordering (every write gets its own revision), atomicity (a transaction's puts and deletes become visible,
//! durable and watchable together or not at all) and gapless watches. It knows nothing of HTTP, of kinds or of
//! validation; what an object means is the registry's business.

mod types;

pub use types::{Change, EventType, Index, ResourceId, Stored};
