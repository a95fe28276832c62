//! An entry of the ledger before it is made.
//!
//! Owns its form only; whether it is made is decided by the plans.

use service_allocators::ServiceKey;
use service_allocators::pools::Seconds;
use service_api::crds::NodePortSpec;

use crate::ledger::{Entry, EntryKind};
use crate::text::Uid;

/// An entry that shall be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draft {
    /// Its kind.
    pub(crate) kind: EntryKind,
    /// Its name.
    pub(crate) name: Box<str>,
    /// The Service that it is for.
    pub(crate) parent: ServiceKey,
    /// The uid of that Service.
    pub(crate) parent_uid: Uid,
    /// What a NodePort says beyond its holder.
    pub(crate) port: Option<Box<NodePortSpec>>,
}

impl Draft {
    /// The entry before the server has answered.
    #[must_use]
    pub(crate) fn expected(&self, now: Seconds) -> Entry {
        Entry {
            kind: self.kind,
            name: self.name.clone(),
            uid: Uid::Absent,
            version: 0,
            parent: Some(self.parent.clone()),
            parent_uid: Some(self.parent_uid.clone()),
            managed: true,
            created: now,
            going: false,
            guarded: false,
            port: self.port.clone(),
        }
    }
}
