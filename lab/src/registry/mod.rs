//! The table of kinds and the verbs that work on all of them.
//!
//! Owns what a request means for stored objects: which steps a create, update, patch or delete takes, in which order,
//! inside which transaction. It never sees a header, a media type or a connection, and knows no kind by name but through
//! its [`entry::Entry`] (kinds are in [`kinds`]).

pub mod entry;
pub mod error;
pub mod kinds;
pub mod ledger_index;
pub mod owner_index;
pub mod strategy;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::HashMap;

use crate::store::ResourceId;
use entry::Entry;
pub use ledger_index::LabIndex;

/// A write transaction of the lab's store: `get`, `put`, `delete`, `index`.
pub type Tx<'a> = crate::store::Tx<'a, LabIndex>;

/// All kinds. A kind's position is its [`ResourceId`].
pub struct Registry {
    entries: Vec<Entry>,
    by_path: HashMap<(&'static str, &'static str), ResourceId>,
}

impl Registry {
    /// A table of these kinds.
    pub fn new(entries: Vec<Entry>) -> Self {
        let by_path = (0..).zip(&entries).map(|(at, e)| ((e.group, e.resource), ResourceId(at))).collect();
        Self { entries, by_path }
    }

    /// All kinds, in table order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The kind at that position, which must come from this table.
    pub fn entry(&self, id: ResourceId) -> &Entry {
        &self.entries[usize::from(id.0)]
    }

    /// Where the resource of that group and plural is.
    pub fn id(&self, group: &str, resource: &str) -> Option<ResourceId> {
        self.by_path.get(&(group, resource)).copied()
    }
}
