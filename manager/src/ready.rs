//! Whether the process is ready: a set of named things it still waits for.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// What is still pending; shared by everyone who reports or asks.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<&'static str>>>);

/// Something the process waits for; dropping it says that it is there.
#[derive(Debug)]
#[must_use = "dropping it at once makes the process ready"]
pub struct Pending {
    name: &'static str,
    readiness: Readiness,
}

impl Readiness {
    /// Adds something to wait for.
    pub fn wait_for(&self, name: &'static str) -> Pending {
        self.with(|pending| pending.insert(name));
        Pending { name, readiness: self.clone() }
    }

    /// What is still pending.
    pub fn pending(&self) -> Vec<&'static str> {
        self.with(|pending| pending.iter().copied().collect())
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeSet<&'static str>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let left = self.readiness.with(|pending| {
            pending.remove(self.name);
            pending.len()
        });
        tracing::debug!(done = self.name, left, "readiness");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_pending() {
        let readiness = Readiness::default();
        let caches = readiness.wait_for("caches");
        let lease = readiness.wait_for("lease");
        assert_eq!(readiness.pending(), ["caches", "lease"]);
        drop(caches);
        assert_eq!(readiness.pending(), ["lease"]);
        drop(lease);
        assert!(readiness.pending().is_empty());
    }
}
