//! Whether the process is ready: a set of named checks, and what of it is still pending.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The checks; shared by everyone who reports or asks.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<String, State>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Done,
}

/// Something the process waits for; dropping it says that it is there.
#[derive(Debug)]
#[must_use = "dropping it at once makes the process ready"]
pub struct Pending {
    name: String,
    readiness: Readiness,
}

impl Readiness {
    /// Adds something to wait for. If there are several of a name, the first that is there counts.
    pub fn wait_for(&self, name: impl Into<String>) -> Pending {
        let name = name.into();
        self.0.lock().insert(name.clone(), State::Pending);
        Pending { name, readiness: self.clone() }
    }

    /// What is still pending.
    pub fn pending(&self) -> Vec<String> {
        let checks = self.0.lock();
        checks.iter().filter(|(_, state)| **state == State::Pending).map(|(name, _)| name.clone()).collect()
    }

    /// All checks in a line each, as Kubernetes' components write them.
    #[must_use]
    pub fn verbose(&self) -> String {
        let checks = self.0.lock();
        let line = |(name, state): (&String, &State)| match state {
            State::Done => format!("[+]{name} ok\n"),
            State::Pending => format!("[-]{name} failed: its first list is not complete\n"),
        };
        checks.iter().map(line).collect()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.readiness.0.lock().insert(std::mem::take(&mut self.name), State::Done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_pending() {
        let readiness = Readiness::default();
        let pods = readiness.wait_for("pods");
        let nodes = readiness.wait_for("nodes");
        assert_eq!(readiness.pending(), ["nodes", "pods"]);
        drop(pods);
        assert_eq!(readiness.pending(), ["nodes"]);
        assert_eq!(readiness.verbose(), "[-]nodes failed: its first list is not complete\n[+]pods ok\n");
        drop(nodes);
        assert!(readiness.pending().is_empty());
    }
}
