//! What a controller that keeps slices remembers of its own writes: which slices it wrote, which answers it awaits, and
//! what an event of one of them calls for.
//!
//! One for the EndpointSlice and the mirroring controller. What the server took of a write is in the index at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::in_flight::InFlight;
use super::step::SliceRead;
use crate::api::{Answer, Reply, RequestError};
use crate::cache::Slice;
use crate::index::events::SliceEvent;
use crate::index::slices::{SliceKept, SliceLeft};
use crate::index::{Home, Index};
use crate::objects::SliceWire;
use crate::requests::slices::SliceWrite;
use crate::text::{Text, Uid};

/// Slices that a controller wrote, each with the generation that its last write made.
#[derive(Debug, Default)]
struct OwnWrites(Vec<(Uid, i64)>);

impl OwnWrites {
    fn note(&mut self, uid: &Uid, generation: i64) {
        match self.0.iter_mut().find(|(known, _)| known == uid) {
            Some(known) => known.1 = generation,
            None => self.0.push((uid.clone(), generation)),
        }
    }

    /// The generation that the last write of the slice made; none if it was not written.
    fn generation(&self, uid: &Uid) -> Option<i64> {
        self.0.iter().find(|(known, _)| known == uid).map(|(_, generation)| *generation)
    }

    fn forget(&mut self, uid: &Uid) {
        self.0.retain(|(known, _)| known != uid);
    }
}

/// When a change of a slice by somebody else is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is not wrong.
    Never,
    /// With the next look at the Service: its owners changed.
    Later,
    /// It has to be read first: only its metadata came.
    Unread,
    /// Without waiting for anything else: endpoints, ports, labels or the deletion mark changed.
    Now,
}

impl Notice {
    /// What a change means to a slice of which our last write made the generation `written`. A slice
    /// that we did not write, or that somebody else changed since, is looked at whatever the change.
    fn of(written: Option<i64>, old: &Slice, new: &Slice) -> Self {
        let same = old.endpoints == new.endpoints
            && old.ports == new.ports
            && old.labels == new.labels
            && old.deleting == new.deleting;
        if !same || written.is_none_or(|written| new.generation > written) {
            Self::Now
        } else if old.owners != new.owners {
            Self::Later
        } else {
            Self::Never
        }
    }
}

/// What came of the writes of one Service's slices.
#[derive(Debug, Default)]
pub struct Applied {
    /// What the server refused last, if it refused something.
    pub failure: Option<RequestError>,
    /// When to try again, if something was refused.
    pub again: Option<Duration>,
    /// Events that waited for the answers.
    pub released: Vec<SliceEvent>,
}

/// A controller's own writes of one Service's slices.
#[derive(Debug, Default)]
pub struct SliceTracker {
    /// Requests that are under way.
    pub in_flight: InFlight<SliceEvent>,
    own: OwnWrites,
    /// Slices that somebody else wrote and of which only the metadata came.
    unread: BTreeSet<Text>,
}

impl SliceTracker {
    /// Somebody changed the labels by which a slice was this Service's: it is not to be written for it any more. What it
    /// held is put elsewhere: at the next occasion if we wrote it and somebody keeps it instead of us, otherwise at once.
    pub fn left(&mut self, change: &SliceLeft) -> Notice {
        let old = change.old.as_ref();
        let ours = old.is_some_and(|old| self.own.generation(&old.uid).is_some());
        if let Some(old) = old {
            self.forget(old);
        }
        if change.still_kept || !ours { Notice::Now } else { Notice::Later }
    }

    /// A slice of this Service is not what it was.
    pub fn kept(&mut self, change: &SliceKept) -> Notice {
        let Some(new) = &change.new else {
            self.unread.insert(Arc::clone(&change.name));
            return Notice::Unread;
        };
        self.unread.remove(&change.name);
        let written = self.own.generation(&new.uid);
        change.old.as_ref().map_or(Notice::Now, |old| Notice::of(written, old, new))
    }

    /// A slice of this Service is gone.
    pub fn gone(&mut self, old: Option<&Arc<Slice>>) {
        if let Some(old) = old {
            self.forget(old);
        }
    }

    fn forget(&mut self, slice: &Slice) {
        self.own.forget(&slice.uid);
        self.unread.remove(&slice.name);
    }

    /// What has to be read before the next plan, if something has.
    #[must_use]
    pub fn unknown(&self) -> Option<SliceRead> {
        let mut unread = self.unread.iter();
        match (unread.next(), unread.next()) {
            _ if self.in_flight.is_uncertain() => Some(SliceRead::All),
            (None, _) => None,
            (Some(slice), None) => Some(SliceRead::One(Arc::clone(slice))),
            // One request for all is less than one for each.
            (Some(_), Some(_)) => Some(SliceRead::All),
        }
    }

    /// A read ended, with or without finding out what is there; gives what has waited for it.
    #[must_use = "what waited has to be taken in"]
    pub fn end_read(&mut self, read: &SliceRead, found: bool) -> Vec<SliceEvent> {
        match read {
            SliceRead::All => {
                if found {
                    self.unread.clear();
                }
                self.in_flight.end_read(found)
            }
            SliceRead::One(slice) => {
                if found {
                    self.unread.remove(slice);
                }
                self.in_flight.end()
            }
        }
    }

    /// Takes in the answers to writes, in their order.
    pub fn apply(
        &mut self,
        index: &mut Index,
        namespace: &Text,
        home: &Home,
        writes: Vec<SliceWrite>,
        answers: Vec<Answer<Reply>>,
    ) -> Applied {
        let (mut failure, mut again) = (None, None);
        for (write, answer) in writes.into_iter().zip(answers) {
            if let Err(error) = self.answered(index, namespace, home, write, answer) {
                failure = Some(error);
            }
        }
        if let Some(error) = &failure {
            again = Some(self.in_flight.failed(error));
        } else {
            self.in_flight.succeeded();
            let (_, space) = index.open_namespace(namespace);
            space.set(home.0, &home.1).settle();
        }
        Applied { failure, again, released: self.in_flight.end() }
    }

    fn answered(
        &mut self,
        index: &mut Index,
        namespace: &Text,
        home: &Home,
        write: SliceWrite,
        answer: Answer<Reply>,
    ) -> Result<(), RequestError> {
        match (write, answer) {
            (SliceWrite::Create(new) | SliceWrite::Update { new, .. }, Ok(reply)) => {
                let meta = reply.metadata;
                let slice = Slice {
                    name: index.names("", &meta.name).1,
                    uid: meta.uid.as_str().into(),
                    version: meta.resource_version.parse().unwrap_or(0),
                    generation: meta.generation,
                    ..new
                };
                self.own.note(&slice.uid, slice.generation);
                index.slice_written(namespace, home, slice);
                Ok(())
            }
            (SliceWrite::Delete(old), Ok(_) | Err(RequestError::NotFound(_) | RequestError::Conflict(_))) => {
                self.own.forget(&old.uid);
                index.slice_deleted(namespace, home, &old);
                Ok(())
            }
            (SliceWrite::Update { old, .. }, Err(error @ RequestError::NotFound(_))) => {
                self.own.forget(&old.uid);
                index.slice_missing(namespace, home, &old);
                Err(error)
            }
            (SliceWrite::Create(_), Err(RequestError::NamespaceTerminating)) => Ok(()),
            (_, Err(error)) => {
                // Each that may have happened counts, not only the last.
                if error.is_uncertain() {
                    self.in_flight.doubt();
                }
                Err(error)
            }
        }
    }
}

/// What a read of a Service's slices found, as events: what is gone, and what is there. What is found counts whatever
/// version was known before.
pub(super) fn found_events(
    index: &mut Index,
    namespace: &Text,
    home: &Home,
    read: &SliceRead,
    found: Vec<SliceWire>,
) -> Vec<SliceEvent> {
    let none = found.is_empty();
    let found: Vec<SliceWire> =
        found.into_iter().filter(|wire| index.concerns_home(namespace, wire, home)).collect();
    index.slices_found(namespace, home, &found);
    let gone: Vec<Text> = match read {
        SliceRead::All => index.slices_beside(namespace, home, &found),
        SliceRead::One(slice) if none => vec![Arc::clone(slice)],
        SliceRead::One(_) => Vec::new(),
    };
    let gone = gone.into_iter().map(|name| SliceEvent::Missing { namespace: Arc::clone(namespace), name });
    gone.chain(found.into_iter().map(|wire| SliceEvent::Seen(Box::new(wire)))).collect()
}
