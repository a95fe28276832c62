//! The one seam below the store: something that takes a transaction whole or refuses it.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    error::StoreError,
    pending::Pending,
    types::{ResourceId, Stored},
};

/// Keeps transactions. Called by the one writer, in order.
pub(super) trait Backend: Send {
    /// Takes all of a transaction, which ends at `revision`, or nothing.
    fn commit(&mut self, changes: &[Pending], revision: u64) -> Result<(), StoreError>;

    /// After a failure: goes on with exactly these objects, of that revision. Until this succeeds every commit fails.
    fn mend(&mut self, objects: &[Arc<Stored>], revision: u64) -> Result<(), StoreError>;

    /// Makes everything proof against power loss and lets go of the files. Later commits are refused.
    fn close(&mut self) -> Result<(), StoreError>;
}

/// An object as it was found on disk.
pub(super) struct Loaded {
    pub(super) resource: ResourceId,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) revision: u64,
    pub(super) created_revision: u64,
    pub(super) body: Bytes,
}
