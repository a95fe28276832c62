//! The store below the API: objects by resource, one revision counter, a bounded event log, atomic transactions.
//!
//! It owns ordering (every write gets its own revision), atomicity (a transaction's puts and deletes become visible,
//! durable and watchable together or not at all) and gapless watches. It knows nothing of HTTP, of kinds or of
//! validation; what an object means is the registry's business.
//!
//! ```text
//! Store::write -> Tx (sees its own puts) -> disk batch -> State (tables, index, event logs) -> wake watches
//! Store::read  -> View                                    State
//! Watch::next_batch                                       event log of one resource
//! ```

mod backend;
mod disk;
mod engine;
mod error;
mod inner;
mod intern;
mod list_watch;
mod log;
mod options;
mod partial;
mod pending;

mod state;
mod table;
mod text;
mod trouble;
mod tx;
mod types;
mod watch;

#[cfg(test)]
mod contract;

pub use engine::Store;
pub use error::{Gone, ObjectError, StoreError, WriteError};
pub use list_watch::{ListWatch, Update};
pub use log::Event;
pub use options::{History, StoreOptions, Sync};
pub use state::{ResourceStats, View};
pub use tx::Tx;
pub use types::{EventType, Index, ObjectChange, ResourceId, Stored};
pub use watch::Watch;
