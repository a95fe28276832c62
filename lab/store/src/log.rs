//! The bounded event log of one resource: what happened last, oldest first. No locking, no waking.

use std::{collections::VecDeque, sync::Arc};

use super::{
    error::Gone,
    options::History,
    types::{EventType, Stored},
};

/// One change of one object, as a watch sees it.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub ty: EventType,
    /// The revision of the change; equals `object.revision`.
    pub revision: u64,
    /// The version after, or the last state under the revision of the delete.
    pub object: Arc<Stored>,
    /// The version before, if there was one: an object can enter or leave a selector.
    pub previous: Option<Arc<Stored>>,
}

impl Event {
    /// Bytes that are in memory because of the log alone: the version before, and the last state of a deleted object.
    fn cost(&self) -> usize {
        let gone = if self.ty == EventType::Deleted { self.object.body.len() } else { 0 };
        size_of::<Self>() + gone + self.previous.as_ref().map_or(0, |previous| previous.body.len())
    }
}

/// Events in the order of their revisions.
pub(super) struct Log {
    events: VecDeque<Arc<Event>>,
    limits: History,
    bytes: usize,
    oldest: u64,
}

impl Log {
    /// An empty log of a store that is at `revision`.
    pub(super) fn new(limits: History, revision: u64) -> Self {
        Self { events: VecDeque::new(), limits, bytes: 0, oldest: revision }
    }

    /// The oldest revision whose successors are all here.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Events and the bytes that only they keep.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.events.len(), self.bytes)
    }

    /// Takes an event, and lets go of the oldest ones beyond the limits.
    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.cost();
        self.events.push_back(event);
        while self.events.len() > self.limits.max_events
            || (self.bytes > self.limits.max_bytes && self.events.len() > self.limits.min_events)
        {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= event.cost();
            self.oldest = event.revision;
        }
    }

    /// Up to `limit` events after `revision`, oldest first.
    pub(super) fn after(&self, revision: u64, limit: usize) -> Result<Vec<Arc<Event>>, Gone> {
        self.check(revision)?;
        let from = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(from..).take(limit).cloned().collect())
    }

    /// Whether nothing has happened after `revision`.
    pub(super) fn drained(&self, revision: u64) -> bool {
        self.events.back().is_none_or(|event| event.revision <= revision)
    }

    /// Whether all that happened after `revision` is known.
    pub(super) fn check(&self, revision: u64) -> Result<(), Gone> {
        if revision < self.oldest {
            return Err(Gone { requested: revision, oldest: self.oldest });
        }
        Ok(())
    }
}
