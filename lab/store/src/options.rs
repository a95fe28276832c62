//! How a store is opened.

use std::path::PathBuf;

/// What a store holds and where it keeps it.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The stable on-disk name of each resource, such as `services`; `ResourceId(n)` is the n-th.
    pub resource_names: Vec<String>,
    /// Where to keep everything; `None` is memory only.
    pub data_dir: Option<PathBuf>,
    /// How many past events a watch can go back.
    pub history: History,
    /// When the disk is told to make writes proof against power loss; of no meaning in memory.
    pub sync: Sync,
}

impl StoreOptions {
    /// A store in memory for the named resources, with the usual history.
    pub fn in_memory<N: Into<String>>(resource_names: impl IntoIterator<Item = N>) -> Self {
        Self {
            resource_names: resource_names.into_iter().map(Into::into).collect(),
            data_dir: None,
            history: History::default(),
            sync: Sync::Background,
        }
    }

    /// The same, kept in `data_dir`.
    #[must_use]
    pub fn with_data_dir(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(data_dir.into());
        self
    }
}

/// Bounds of the event log of one resource. The oldest events go first; a watch that still needs them gets `Gone`.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Most events that are kept.
    pub max_events: usize,
    /// Most bytes of object versions that only the log keeps alive.
    pub max_bytes: usize,
    /// Events that are kept whatever their bytes.
    pub min_events: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { max_events: 8192, max_bytes: 8 << 20, min_events: 256 }
    }
}

/// When a write is proof against power loss. Against the death of the process it always is, once answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// The journal is synced about every second and on close: a power cut loses at most the last second.
    #[default]
    Background,
    /// Every transaction is synced before it is answered.
    Always,
}
