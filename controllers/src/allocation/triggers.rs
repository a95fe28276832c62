//! What called for the looks to come, by their keys.

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::controller::Key;
use crate::report::trigger::{Event, Trigger};
use crate::text::Text;

/// The triggers of the looks to come.
#[derive(Debug, Default)]
pub(super) struct Triggers(Mutex<HashMap<Key, Trigger>>);

impl Triggers {
    /// Something calls for a look.
    pub(super) fn note(&self, key: &Key, event: Event, name: Option<&Text>) {
        self.0.lock().entry(key.clone()).or_default().note(event, name);
    }

    /// A look begins: gives what called for it, which is the time that the last one named if nothing did.
    pub(super) fn take(&self, key: &Key) -> Trigger {
        self.0.lock().remove(key).unwrap_or_else(|| Trigger::of(Event::Time))
    }

    /// What that called for failed, and is tried again.
    pub(super) fn again(&self, key: &Key, failed: Trigger) {
        self.0.lock().entry(key.clone()).or_default().again(failed);
    }
}
