//! The values that pass between the store and its callers.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

/// Position of a resource in the registry's table; dense and fixed for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub u16);

/// One stored version of an object. Immutable; shared by the object table, the event log and answers under way.
#[derive(Debug)]
pub struct Stored {
    /// Which resource it is of.
    pub resource: ResourceId,
    /// Empty for cluster-scoped resources.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The revision of the write that made this version; equals `metadata.resourceVersion` in `body`.
    pub revision: u64,
    /// The revision of the write that created the object.
    pub created_revision: u64,
    /// `metadata.labels`, interned: equal sets share one allocation.
    pub labels: Arc<[(Arc<str>, Arc<str>)]>,
    /// The whole object as compact JSON, `metadata.resourceVersion` included; `kind` and `apiVersion` stand
    /// first, in this order, so that a list can cut them off.
    pub body: Bytes,
}

/// What happened to an object in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It did not exist before.
    Added,
    /// It existed and has a new version.
    Modified,
    /// It is gone; the event carries its last state under the revision of the delete.
    Deleted,
}

/// One object's change inside a transaction that is about to become visible.
#[derive(Debug)]
pub struct Change<'a> {
    /// Which resource it is of.
    pub resource: ResourceId,
    /// The version before, if there was one.
    pub old: Option<&'a Arc<Stored>>,
    /// The version after, parsed; `None` for a delete.
    pub new: Option<&'a Value>,
}

/// State that is derived from the objects and kept up inside the write transaction (allocations, owners, counts).
///
/// Called once per object at load, then once per change in commit order, under the store's write lock; must not fail
/// and must not block.
pub trait Index: Send + Sync {
    /// Takes over one change.
    fn apply(&mut self, change: &Change<'_>);
}
