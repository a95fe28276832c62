//! The one seam below the store: something that takes a transaction whole or refuses it.

use bytes::Bytes;

use super::{error::StoreError, tx::Pending, types::ResourceId};

/// Keeps transactions. Called by the one writer, in order.
pub(super) trait Backend: Send {
    /// Takes all of a transaction, which ends at `revision`, or nothing.
    fn commit(&mut self, changes: &[Pending], revision: u64) -> Result<(), StoreError>;

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
