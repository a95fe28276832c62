//! A watch: a cursor into the event log of one resource. It has no queue of its own, so a slow reader costs nothing but
//! its own place.

use std::sync::Arc;

use tokio::sync::watch::Receiver;

use super::{
    error::Gone,
    inner::StoreInner,
    log::Event,
    types::{Index, ResourceId},
};

/// Most events that are handed out at once.
const BATCH: usize = 512;

/// Everything that happens to one resource after a revision, in order, nothing left out.
pub struct Watch<I> {
    inner: Arc<StoreInner<I>>,
    resource: ResourceId,
    position: u64,
    wake: Receiver<u64>,
}

impl<I: Index> Watch<I> {
    pub(super) fn new(inner: Arc<StoreInner<I>>, resource: ResourceId, position: u64) -> Self {
        let wake = inner.subscribe(resource);
        Self { inner, resource, position, wake }
    }

    /// Waits for events and returns them, oldest first, never none. `Gone` when this reader was so slow that the log no
    /// longer has its next event. Safe to drop while it waits: no event is lost.
    pub async fn next_batch(&mut self) -> Result<Vec<Arc<Event>>, Gone> {
        loop {
            // Marked as seen before the log is read: what is committed from here on wakes `changed` below.
            self.wake.borrow_and_update();
            let events = self.poll()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.wake.changed().await.is_err() {
                // Unreachable while `inner`, which owns the sender, is alive.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The events that are there now, perhaps none.
    pub fn poll(&mut self) -> Result<Vec<Arc<Event>>, Gone> {
        let events = self.inner.events_after(self.resource, self.position, BATCH)?;
        if let Some(last) = events.last() {
            self.position = last.revision;
        }
        Ok(events)
    }

    /// The revision up to which everything has been handed out: what a bookmark may say. It moves on with the store's
    /// revision, changes of other resources included, as long as no event waits.
    pub fn progress(&mut self) -> u64 {
        if let Some(revision) = self.inner.drained_at(self.resource, self.position) {
            self.position = revision;
        }
        self.position
    }

    /// Which resource is watched.
    pub fn resource(&self) -> ResourceId {
        self.resource
    }
}
