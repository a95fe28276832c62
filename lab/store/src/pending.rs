//! A change that waits for the commit: what a transaction hands to the disk, the tables and the watches.

use serde_json::Value;

use super::{log::Event, types::ObjectChange};

/// One put or delete that waits for the commit.
pub(super) struct Pending {
    pub(super) event: Event,
    /// The new object, parsed; `None` for a delete.
    pub(super) value: Option<Value>,
    /// A later change of the same transaction is to the same object.
    pub(super) superseded: bool,
}

impl Pending {
    /// What the index is told.
    pub(super) fn change(&self) -> ObjectChange<'_> {
        ObjectChange {
            resource: self.event.object.resource,
            old: self.event.previous.as_ref(),
            new: self.value.as_ref(),
        }
    }
}
