//! What all handles and watches of a store share, and what a watch reads of it.

use std::sync::{Arc, atomic::AtomicBool};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::{
    backend::Backend,
    error::Gone,
    log::Event,
    state::State,
    trouble::Trouble,
    tx::Workspace,
    types::{Index, ResourceId},
};

/// What all handles and watches of a store share.
pub(super) struct StoreInner<I> {
    pub(super) state: RwLock<State<I>>,
    pub(super) writer: Mutex<Writer>,
    /// One per resource; carries the revision of its last change.
    pub(super) wake: Vec<watch::Sender<u64>>,
    pub(super) trouble: Arc<Trouble>,
    /// A transaction has waited in vain for the one before it.
    pub(super) slow: AtomicBool,
}

impl<I> Drop for StoreInner<I> {
    fn drop(&mut self) {
        self.trouble.close();
    }
}

/// What only the one writer touches.
pub(super) struct Writer {
    pub(super) workspace: Workspace,
    /// `None` in memory, and while it is mended.
    pub(super) backend: Option<Box<dyn Backend>>,
    pub(super) mending: bool,
    pub(super) closed: bool,
}

impl<I: Index> StoreInner<I> {
    pub(super) fn subscribe(&self, resource: ResourceId) -> watch::Receiver<u64> {
        match self.wake.get(usize::from(resource.0)) {
            Some(sender) => sender.subscribe(),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    pub(super) fn events_after(
        &self,
        resource: ResourceId,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Gone> {
        let state = self.state.read();
        state.logs.get(usize::from(resource.0)).map_or(Ok(Vec::new()), |log| log.after(revision, limit))
    }

    /// The store's revision if the resource has no event after `revision`.
    pub(super) fn drained_at(&self, resource: ResourceId, revision: u64) -> Option<u64> {
        let state = self.state.read();
        state.logs.get(usize::from(resource.0))?.drained(revision).then_some(state.revision)
    }
}
