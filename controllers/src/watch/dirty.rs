//! What of a Service is out of date, and what a pod's change means to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cache::Pod;
use super::index::PodChange;
use crate::text::Text;

/// What a pod's change means to a Service that selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Only the times of its readiness changed.
    Times,
    /// No endpoint changes, but the Service is looked at: that takes note of times.
    Look,
    /// Its endpoint changes in place.
    State,
    /// An endpoint comes or goes.
    Member,
}

impl Effect {
    pub(crate) fn of(change: &PodChange) -> Self {
        match (&change.old, &change.new) {
            (None, None) => Self::None,
            (Some(old), Some(new)) if old == new && !change.services.iter().any(|(_, moved)| *moved) => {
                Self::None
            }
            (Some(old), Some(new)) => Self::between(old, new),
            (old, new) => Self::of_one(old.as_ref().or(new.as_ref())),
        }
    }

    /// The pod joined or left the Service.
    pub(crate) fn of_moving(change: &PodChange) -> Self {
        Self::of_one(change.new.as_ref().or(change.old.as_ref()))
    }

    fn of_one(pod: Option<&Arc<Pod>>) -> Self {
        if pod.is_some_and(|p| p.is_listed()) { Self::Member } else { Self::Look }
    }

    fn between(old: &Pod, new: &Pod) -> Self {
        let moved = old.terminating != new.terminating || old.ips != new.ips;
        // Whatever is written of a terminating pod counts as a change of it.
        let times = if new.terminating { Self::Look } else { Self::Times };
        if !old.is_listed() && !new.is_listed() {
            return if moved || old.ready != new.ready { Self::Look } else { times };
        }
        if old.is_listed() != new.is_listed() || moved {
            return Self::Member;
        }
        let times_only = Pod { ready_since: old.ready_since, ..new.clone() } == *old;
        if times_only { times } else { Self::State }
    }
}

/// What of a Service is out of date for one controller.
#[derive(Debug, Default)]
pub struct Dirty {
    due: bool,
    all: bool,
    pods: BTreeSet<Text>,
}

impl Dirty {
    /// Everything may be wrong; with `due` it is put right now, otherwise at the next occasion.
    pub fn all(&mut self, due: bool) {
        self.all = true;
        self.due |= due;
        self.pods.clear();
    }

    /// One pod may be wrong.
    pub fn pod(&mut self, name: &Text, due: bool) {
        if !self.all {
            self.pods.insert(Arc::clone(name));
        }
        self.due |= due;
    }

    /// A pod changed; gives whether there is anything to do.
    pub(crate) fn pod_changed(&mut self, name: &Text, effect: Effect, change: &PodChange) -> bool {
        match effect {
            Effect::None => return false,
            Effect::Times => self.pod(name, false),
            Effect::State | Effect::Member => self.pod(name, true),
            Effect::Look => {
                let timed = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|p| p.ready_since.is_some());
                let due = timed(&change.new) || self.is_pending();
                if timed(&change.new) || timed(&change.old) {
                    self.pod(name, due);
                } else {
                    self.due |= due;
                }
                return due;
            }
        }
        effect != Effect::Times
    }

    /// The Service was written; gives whether there is anything to do.
    pub fn touch(&mut self, changed: bool) -> bool {
        if changed {
            self.all(true);
        } else {
            self.due |= self.is_pending();
        }
        self.due
    }

    /// Whether there is something for the next look.
    fn is_pending(&self) -> bool {
        self.all || !self.pods.is_empty()
    }

    /// Whether something has to be done now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether all pods have to be looked at.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// The pods to look at, unless it is all.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.pods.iter()
    }

    /// All has been looked at.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
