//! The values that pass between the store and its callers.

use std::{
    io::{self, Write},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::Value;

use super::text::KindFirst;

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

impl Stored {
    /// The object, parsed. The store wrote `body` itself, so an error means memory that is not to be trusted.
    pub fn parse(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.body)
    }

    /// Whether putting `candidate` would change nothing but the version. Sets `metadata.resourceVersion` of `candidate`
    /// to this version's, which a put would replace anyway. Compares while it writes: nothing is kept or allocated.
    pub fn is_same_but_version(&self, candidate: &mut Value) -> bool {
        let Some(metadata) = candidate.get_mut("metadata").and_then(Value::as_object_mut) else {
            return false;
        };
        metadata.insert("resourceVersion".to_owned(), Value::String(self.revision.to_string()));
        let mut rest = Expected(&self.body);
        serde_json::to_writer(&mut rest, &KindFirst(candidate)).is_ok() && rest.0.is_empty()
    }
}

/// Takes exactly the bytes that it expects.
struct Expected<'a>(&'a [u8]);

impl Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
pub struct ObjectChange<'a> {
    /// Which resource it is of.
    pub resource: ResourceId,
    /// The version before, if there was one.
    pub old: Option<&'a Arc<Stored>>,
    /// The version after, parsed; `None` for a delete. At load `metadata.managedFields` is left out.
    pub new: Option<&'a Value>,
}

/// State that is derived from the objects and kept up inside the write transaction (allocations, owners, counts).
///
/// Called once per object at load, then once per change in commit order, under the store's write lock; must not fail
/// and must not block.
pub trait Index: Send + Sync + 'static {
    /// Takes over one change.
    fn apply(&mut self, change: &ObjectChange<'_>);
}
