//! Sharing of the strings and label sets that many objects have in common. It never decides what an object means.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

/// A label set as stored: sorted as in the object, shared between equal sets.
pub(super) type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// A set is swept of what nobody uses any more when it has doubled since the last sweep, but not below this size.
const SWEEP_FLOOR: usize = 1024;

/// The strings (namespaces, label keys and values) and label sets in use.
#[derive(Default)]
pub(super) struct Interner {
    strings: HashSet<Arc<str>>,
    labels: HashSet<Labels>,
    sweep_at: usize,
}

impl Interner {
    /// The shared copy of `text`.
    pub(super) fn string(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.strings.get(text) {
            return Arc::clone(known);
        }
        self.sweep();
        let new: Arc<str> = text.into();
        self.strings.insert(Arc::clone(&new));
        new
    }

    /// The shared copy of the `metadata.labels` of an object; what is not a string is left out.
    pub(super) fn labels(&mut self, labels: Option<&Value>) -> Labels {
        let pairs: Vec<(Arc<str>, Arc<str>)> = labels
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((self.string(key), self.string(value.as_str()?))))
            .collect();
        if let Some(known) = self.labels.get(pairs.as_slice()) {
            return Arc::clone(known);
        }
        let new: Labels = pairs.into();
        self.labels.insert(Arc::clone(&new));
        new
    }

    fn sweep(&mut self) {
        if self.strings.len() < self.sweep_at.max(SWEEP_FLOOR) {
            return;
        }
        self.labels.retain(|set| Arc::strong_count(set) > 1);
        self.strings.retain(|text| Arc::strong_count(text) > 1);
        self.sweep_at = self.strings.len() * 2;
    }
}
