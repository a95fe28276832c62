//! The entries that are known, by their names and by the Services that have them.
//!
//! Owns where an entry is kept, so that neither its name nor itself is there twice; what an entry means is decided by others.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use service_allocators::ServiceKey;
use smallvec::SmallVec;

use crate::ledger::entry::{Entry, EntryKind};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_name: HashTable<Arc<Entry>>,
    by_parent: HashMap<ServiceKey, SmallVec<[Arc<Entry>; 2]>>,
    hasher: RandomState,
}

fn is_of(kind: EntryKind, name: &str) -> impl Fn(&Arc<Entry>) -> bool {
    move |entry| entry.kind == kind && *entry.name == *name
}

impl Entries {
    fn hash(hasher: &RandomState, kind: EntryKind, name: &str) -> u64 {
        hasher.hash_one((kind, name))
    }

    /// The entry of a value.
    pub(super) fn get(&self, kind: EntryKind, name: &str) -> Option<&Entry> {
        let hash = Self::hash(&self.hasher, kind, name);
        self.by_name.find(hash, is_of(kind, name)).map(|entry| &**entry)
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.iter().map(|entry| &**entry)
    }

    /// The entries whose parent is this Service.
    pub(super) fn of(&self, parent: &ServiceKey) -> impl Iterator<Item = &Entry> {
        self.by_parent.get(parent).into_iter().flatten().map(|entry| &**entry)
    }

    /// The key of a Service as the entries share it, if they name that Service.
    pub(super) fn shared_key(&self, parent: &ServiceKey) -> Option<&ServiceKey> {
        self.by_parent.get_key_value(parent).map(|(key, _)| key)
    }

    /// Puts an entry in the place of the one of its name.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.remove(entry.kind, &entry.name);
        let entry = Arc::new(entry);
        if let Some(parent) = &entry.parent {
            self.by_parent.entry(parent.clone()).or_default().push(Arc::clone(&entry));
        }
        let hasher = &self.hasher;
        let hash = |entry: &Arc<Entry>| Self::hash(hasher, entry.kind, &entry.name);
        self.by_name.insert_unique(hash(&entry), entry, hash);
    }

    /// Takes the entry of a value out.
    pub(super) fn remove(&mut self, kind: EntryKind, name: &str) -> Option<Arc<Entry>> {
        let hash = Self::hash(&self.hasher, kind, name);
        let found = self.by_name.find_entry(hash, is_of(kind, name)).ok()?;
        let (entry, _) = found.remove();
        if let Some(parent) = &entry.parent
            && let Some(own) = self.by_parent.get_mut(parent)
        {
            own.retain(|other| !Arc::ptr_eq(other, &entry));
            if own.is_empty() {
                self.by_parent.remove(parent);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::IPAddress;
    use serde_json::json;

    use super::*;

    fn entry(name: &str, parent: &str) -> Entry {
        let object = json!({"metadata": {"name": name},
            "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": parent}}});
        Entry::of_address(&serde_json::from_value::<IPAddress>(object).unwrap())
    }

    #[test]
    fn an_entry_is_found_by_its_name_and_by_its_service_only_as_long_as_it_is_there() {
        let mut entries = Entries::default();
        let names = |entries: &Entries, parent: &str| {
            let parent = ServiceKey::new("shop", parent);
            entries.of(&parent).map(|entry| entry.name.to_string()).collect::<Vec<_>>()
        };
        for name in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            entries.insert(entry(name, "a"));
        }
        entries.insert(entry("10.0.0.2", "b"));
        assert_eq!(
            (names(&entries, "a"), names(&entries, "b")),
            (vec!["10.0.0.1".to_owned(), "10.0.0.3".to_owned()], vec!["10.0.0.2".to_owned()])
        );
        assert_eq!(entries.iter().count(), 3);
        assert!(entries.get(EntryKind::Address, "10.0.0.2").is_some());
        assert!(entries.get(EntryKind::Port, "10.0.0.2").is_none());
        assert!(entries.remove(EntryKind::Address, "10.0.0.2").is_some());
        assert!(entries.remove(EntryKind::Address, "10.0.0.2").is_none());
        assert_eq!(names(&entries, "b"), Vec::<String>::new());
        assert!(entries.shared_key(&ServiceKey::new("shop", "b")).is_none());
    }
}
