//! What of a Service is out of date for one controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cache::Pod;
use crate::index::effect::Effect;
use crate::index::pods::PodChange;
use crate::report::trigger::{Event, Trigger};
use crate::text::Text;

/// What of a Service is out of date for one controller.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    due: bool,
    all: bool,
    pods: BTreeSet<Text>,
    trigger: Trigger,
}

impl Dirty {
    /// Everything may be wrong since an event of the object of this name; with `due` it is put right now, otherwise at the
    /// next occasion.
    pub(crate) fn all(&mut self, due: bool, event: Event, object: Option<&Text>) {
        self.trigger.note(event, object);
        self.doubt(due);
    }

    /// What this called for failed: everything may be wrong.
    pub(crate) fn again(&mut self, failed: Trigger) {
        self.trigger.again(failed);
        self.doubt(true);
    }

    fn doubt(&mut self, due: bool) {
        self.all = true;
        self.due |= due;
        self.pods.clear();
    }

    /// One pod may be wrong.
    pub(crate) fn pod(&mut self, name: &Text, due: bool) {
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
            Effect::In | Effect::Out => {
                self.trigger.note(Event::of_pod(change), Some(name));
                self.pod(name, true);
            }
            Effect::Look => {
                let timed = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|p| p.ready_since.is_some());
                let due = timed(&change.new) || self.is_pending();
                if timed(&change.new) || timed(&change.old) {
                    self.pod(name, due);
                } else {
                    self.due |= due;
                }
                if due {
                    self.trigger.note(Event::of_pod(change), Some(name));
                }
                return due;
            }
        }
        effect != Effect::Times
    }

    /// The Service was written; gives whether there is anything to do.
    pub(crate) fn touch(&mut self, changed: bool, event: Event) -> bool {
        if changed {
            self.all(true, event, None);
        } else if self.is_pending() {
            self.trigger.note(event, None);
            self.due = true;
        }
        self.due
    }

    /// Whether there is something for the next look.
    fn is_pending(&self) -> bool {
        self.all || !self.pods.is_empty()
    }

    /// Whether something has to be done now.
    #[must_use]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether all pods have to be looked at.
    #[must_use]
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// The pods to look at, unless it is all.
    pub(crate) fn pods(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.pods.iter()
    }

    /// All has been looked at; gives what called for it.
    pub(crate) fn clear(&mut self) -> Trigger {
        std::mem::take(self).trigger
    }
}
