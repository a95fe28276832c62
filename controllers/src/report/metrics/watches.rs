//! How watches fare, by kind.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{WatchLabel, Word};
use crate::objects::ObjectKind;

/// What is counted of watches.
#[derive(Clone, Debug, Default)]
pub struct WatchMetrics {
    lists: Family<WatchLabel, Counter>,
    errors: Family<WatchLabel, Counter>,
    unreadable: Family<WatchLabel, Counter>,
}

impl WatchMetrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        for (name, help, family) in [
            ("watch_lists", "Lists begun, by kind", &new.lists),
            ("watch_errors", "Watch errors, by kind", &new.errors),
            (
                "unreadable_objects",
                "Objects passed over because they cannot be read, by kind",
                &new.unreadable,
            ),
        ] {
            registry.register(format!("service_controller_{name}"), help, family.clone());
        }
        new
    }

    /// A list of a kind began.
    pub fn listed(&self, kind: ObjectKind) {
        self.lists.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }

    /// A watch of a kind failed.
    pub fn failed(&self, kind: ObjectKind) {
        self.errors.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }

    /// An object of a kind could not be read.
    pub fn unreadable(&self, kind: ObjectKind) {
        self.unreadable.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }
}
