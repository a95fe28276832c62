//! Following a resource for good: a look at it, then its events, and a new look whenever the reader fell behind.

use std::sync::Arc;

use super::{
    engine::Store,
    log::Event,
    state::View,
    types::{Index, ResourceId},
    watch::Watch,
};

/// What a follower of a resource learns next.
#[derive(Debug)]
pub enum Update<T> {
    /// What a look at the store has shown, at first and after events were missed: all that was known before is void.
    Listed(T),
    /// What happened since, oldest first, never nothing.
    Events(Vec<Arc<Event>>),
}

/// A resource that is listed, watched, and listed again when the event log no longer has the next event.
pub struct ListWatch<I, T, L> {
    store: Store<I>,
    resource: ResourceId,
    look: L,
    /// What was listed and not handed out yet.
    listed: Option<T>,
    watch: Watch<I>,
}

impl<I: Index, T, L: Fn(&View<'_, I>) -> T> ListWatch<I, T, L> {
    /// Follows `resource` from now on; `look` is what listing means to the caller.
    pub fn new(store: &Store<I>, resource: ResourceId, look: L) -> Self {
        let (seen, watch) = store.read_and_watch(resource, &look);
        Self { store: store.clone(), resource, look, listed: Some(seen), watch }
    }

    /// The first list, or what came after the last update; waits for it. Safe to drop while it waits: nothing is lost.
    pub async fn next(&mut self) -> Update<T> {
        if let Some(seen) = self.listed.take() {
            return Update::Listed(seen);
        }
        if let Ok(events) = self.watch.next_batch().await {
            return Update::Events(events);
        }
        let (seen, watch) = self.store.read_and_watch(self.resource, &self.look);
        self.watch = watch;
        Update::Listed(seen)
    }
}
