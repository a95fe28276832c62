//! What answers to requests say, which come beside the watches and may be older than what those told.
//!
//! Owns what an answer counts for: it changes what is known, and never brings back what a watch saw go.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Service;
use service_allocators::ServiceKey;
use service_allocators::pools::Seconds;

use super::{EntryId, Known};
use crate::ledger::entry::{Entry, EntryKind};
use crate::text::Uid;

/// Uid and version of an object as it is known, to see later whether it is still known as that.
pub type Mark = Option<(Uid, u64)>;

/// Objects whose version counts for nothing.
#[derive(Debug, Default)]
pub(super) struct Doubted {
    pub(super) services: HashSet<ServiceKey>,
    entries: HashSet<EntryId>,
}

impl Doubted {
    /// Whether the version of an entry counts for nothing.
    pub(super) fn is_of(&self, kind: EntryKind, name: &str) -> bool {
        !self.entries.is_empty() && self.entries.contains(&(kind, name.into()))
    }

    /// From now on it counts; says whether it did not.
    pub(super) fn forget(&mut self, kind: EntryKind, name: &str) -> bool {
        !self.entries.is_empty() && self.entries.remove(&(kind, name.into()))
    }
}

impl Known {
    /// The answer to a request says that a Service is like this. Of one that is not known it says nothing: the watch told
    /// already that it is gone, or will tell of it. Says whether it is known.
    pub fn answer_service(&mut self, service: &Service, now: Seconds) -> bool {
        let meta = &service.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let is_known = self.services.contains_key(&ServiceKey::new(text(&meta.namespace), text(&meta.name)));
        if is_known {
            self.set_service(service, now);
        }
        is_known
    }

    /// What a Service is known as.
    pub fn mark_of_service(&self, key: &ServiceKey) -> Mark {
        self.services.get(key).map(|known| (known.uid.clone(), known.version))
    }

    /// A request found no Service of that name, when it was known as `mark`; what is known since then stays. Says whether none
    /// is known.
    pub fn service_not_found(&mut self, key: &ServiceKey, mark: &Mark, now: Seconds) -> bool {
        let is_as_before = self.mark_of_service(key) == *mark;
        if is_as_before {
            self.remove_service(key, now);
        }
        is_as_before
    }

    /// The server was put back: of the Services that are known any version may come.
    pub(in crate::ledger) fn doubt_services(&mut self) {
        self.doubted.services = self.services.keys().cloned().collect();
    }

    /// The answer to a request says that an entry is like this. Of one that is not known, nor expected, it says nothing: the
    /// watch told already that it is gone, or will tell of it. Says whether it is known.
    pub fn answer_entry(&mut self, entry: Entry, now: Seconds) -> bool {
        let is_known = self.entry(entry.kind, &entry.name).is_some();
        if is_known {
            self.set_entry(entry, now);
        }
        is_known
    }

    /// What an entry is known as.
    pub fn mark_of_entry(&self, kind: EntryKind, name: &str) -> Mark {
        self.entry(kind, name).map(|known| (known.uid.clone(), known.version))
    }

    /// A request found no entry of that name, or made it go, when it was known as `mark`; what is known since then stays. Says
    /// whether none is known.
    pub fn entry_not_found(&mut self, kind: EntryKind, name: &str, mark: &Mark, now: Seconds) -> bool {
        let is_as_before = self.mark_of_entry(kind, name) == *mark;
        if is_as_before {
            self.remove_entry(kind, name, now);
        }
        is_as_before
    }

    /// The server was put back: of the entries of a kind that are known any version may come.
    pub(in crate::ledger) fn doubt_entries(&mut self, kind: EntryKind) {
        let all = self.entries.iter().filter(|entry| entry.kind == kind);
        self.doubted.entries.extend(all.map(|entry| (kind, entry.name.clone())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use service_allocators::PortSharing;

    use super::*;
    use crate::ledger::{Changes, Ledger};
    use crate::report::trigger::Event;

    const NOW: Seconds = 1_000_000;

    fn ledger() -> Ledger {
        Ledger::new("30000-30009".parse().unwrap(), PortSharing::WithinService, |_: Changes| {})
    }

    fn service(version: u64) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "uid-a", "resourceVersion": version.to_string()},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"]}}))
        .unwrap()
    }

    fn entry(uid: &str, version: u64) -> Entry {
        let address = json!({"metadata": {"name": "10.96.0.5", "uid": uid, "resourceVersion": version.to_string()},
            "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": "a"}}});
        Entry::of_address(&serde_json::from_value(address).unwrap())
    }

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "a")
    }

    #[test]
    fn an_answer_does_not_bring_back_what_a_watch_saw_go() {
        ledger().with(|known| {
            known.set_service(&service(5), NOW);
            known.service_gone(&key(), Some(7), NOW);
            assert!(!known.answer_service(&service(6), NOW));
            assert!(known.service(&key()).is_none());
            known.set_entry(entry("e", 5), NOW);
            known.entry_gone(EntryKind::Address, "10.96.0.5", Some(7), NOW);
            assert!(!known.answer_entry(entry("e", 6), NOW));
            assert!(known.entry(EntryKind::Address, "10.96.0.5").is_none());
        });
    }

    #[test]
    fn what_was_made_since_a_request_began_is_not_forgotten_for_its_answer() {
        ledger().with(|known| {
            known.set_service(&service(5), NOW);
            let mark = known.mark_of_service(&key());
            known.set_service(&service(8), NOW);
            assert!(!known.service_not_found(&key(), &mark, NOW));
            let mark = known.mark_of_service(&key());
            assert!(known.service_not_found(&key(), &mark, NOW) && known.service(&key()).is_none());
            known.set_entry(entry("old", 5), NOW);
            let mark = known.mark_of_entry(EntryKind::Address, "10.96.0.5");
            known.entry_gone(EntryKind::Address, "10.96.0.5", Some(6), NOW);
            known.set_entry(entry("new", 9), NOW);
            assert!(!known.entry_not_found(EntryKind::Address, "10.96.0.5", &mark, NOW));
            assert!(known.entry(EntryKind::Address, "10.96.0.5").is_some());
        });
    }

    #[test]
    fn an_entry_that_is_being_made_stays_when_one_before_it_is_told_to_be_gone() {
        ledger().with(|known| {
            known.set_entry(entry("", 0), NOW);
            known.entry_gone(EntryKind::Address, "10.96.0.5", Some(6), NOW);
            known.entry_gone(EntryKind::Address, "10.96.0.5", None, NOW);
            assert!(known.answer_entry(entry("e", 9), NOW));
        });
    }

    #[test]
    fn of_what_is_doubted_any_version_counts() {
        ledger().with(|known| {
            known.set_service(&service(50), NOW);
            known.set_entry(entry("e", 50), NOW);
            known.set_service(&service(8), NOW);
            assert_eq!(known.service(&key()).map(|facts| facts.version), Some(50));
            known.doubt_services();
            known.doubt_entries(EntryKind::Address);
            known.set_service(&service(8), NOW);
            known.set_entry(entry("e", 7), NOW);
            let entry = known.entry(EntryKind::Address, "10.96.0.5");
            assert_eq!(
                (known.service(&key()).map(|f| f.version), entry.map(|e| e.version)),
                (Some(8), Some(7))
            );
            known.set_service(&service(3), NOW);
            assert_eq!(known.service(&key()).map(|facts| facts.version), Some(8), "once");
        });
    }

    #[test]
    fn what_is_known_already_calls_for_nothing_and_else_the_first_event_is_told() {
        ledger().with(|known| {
            known.set_service(&service(5), NOW);
            known.set_entry(entry("e", 6), NOW);
            let changes = known.take_changes();
            assert_eq!(changes.services[&key()], (Event::ServiceAdded, None));
            known.set_service(&service(5), NOW);
            known.set_entry(entry("e", 6), NOW);
            assert!(known.take_changes().is_empty());
            known.set_entry(entry("e", 7), NOW);
            known.set_service(&service(8), NOW);
            let changes = known.take_changes();
            assert_eq!(changes.services[&key()], (Event::AddressChanged, Some("10.96.0.5".into())));
            assert!(!changes.fill, "nothing was taken or given back");
        });
    }

    #[test]
    fn a_silent_ledger_knows_all_and_tells_only_of_what_comes_after_its_silence() {
        let told = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let heard = std::sync::Arc::clone(&told);
        let note = move |changes: Changes| heard.lock().extend(changes.services.into_keys());
        let ledger = Ledger::new("30000-30009".parse().unwrap(), PortSharing::WithinService, note).silent();
        ledger.with(|known| {
            known.set_service(&service(5), NOW);
            known.set_entry(entry("e", 6), NOW);
        });
        ledger.tell();
        ledger
            .with(|known| assert!(known.service(&key()).is_some() && known.entries_of(&key()).count() == 1));
        assert!(told.lock().is_empty());
        ledger.with(|known| known.remove_entry(EntryKind::Address, "10.96.0.5", NOW));
        assert_eq!(*told.lock(), [key()]);
    }
}
