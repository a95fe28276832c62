//! What every store must do, in memory or on disk: one suite, instantiated for both.

mod faults;
mod model;
mod transactions;
mod watches;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const PODS: ResourceId = ResourceId(0);
const NODES: ResourceId = ResourceId(1);

/// Derived state to check the index protocol with: the revision of each object, as told.
#[derive(Default)]
struct Revisions {
    objects: BTreeMap<(u16, String, String), u64>,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

impl Index for Revisions {
    fn apply(&mut self, change: &ObjectChange<'_>) {
        match (change.old, change.new) {
            (old, Some(new)) => {
                let key =
                    (change.resource.0, text(new, "namespace").to_owned(), text(new, "name").to_owned());
                let revision = text(new, "resourceVersion").parse().unwrap();
                assert_eq!(self.objects.insert(key, revision), old.map(|old| old.revision));
            }
            (Some(old), None) => {
                let key = (old.resource.0, old.namespace.to_string(), old.name.to_string());
                assert_eq!(self.objects.remove(&key), Some(old.revision));
            }
            (None, None) => panic!("a change of nothing"),
        }
    }
}

/// Which store the suite is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    Memory,
    Disk,
}

/// A store and what it takes to start it again.
struct Fixture {
    directory: Option<TempDir>,
    options: StoreOptions,
    store: Store<Revisions>,
}

impl Fixture {
    fn new(backing: Backing) -> Self {
        Self::with_history(backing, History::default())
    }

    fn with_history(backing: Backing, history: History) -> Self {
        let directory = (backing == Backing::Disk).then(|| TempDir::new().unwrap());
        let mut options = StoreOptions::in_memory(["pods", "nodes"]);
        options.history = history;
        options.data_dir = directory.as_ref().map(|directory| directory.path().to_owned());
        let store = Store::open(&options, Revisions::default()).unwrap();
        Self { directory, options, store }
    }

    /// Ends the process and starts it again; in memory there is nothing to come back to.
    fn restart(&mut self) {
        if self.directory.is_some() {
            self.store.close().unwrap();
            self.store = Store::open(&self.options, Revisions::default()).unwrap();
        }
    }

    fn put(&self, resource: ResourceId, object: Value) -> Arc<Stored> {
        self.store.write(|tx| tx.put(resource, object)).unwrap()
    }
}

/// Everything that can be seen of a store: revision, every byte of every object, index, history.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    revision: u64,
    objects: Vec<(u16, String, u64, u64, String)>,
    told: BTreeMap<(u16, String, String), u64>,
    stats: Vec<ResourceStats>,
    oldest: Vec<u64>,
}

fn see(store: &Store<Revisions>) -> Seen {
    store.read(|view| Seen {
        revision: view.revision(),
        objects: [PODS, NODES]
            .into_iter()
            .flat_map(|resource| view.list(resource, None, None))
            .map(|stored| {
                let key = format!("{}/{}", stored.namespace, stored.name);
                let body = String::from_utf8(stored.body.to_vec()).unwrap();
                (stored.resource.0, key, stored.revision, stored.created_revision, body)
            })
            .collect(),
        told: view.index().objects.clone(),
        stats: vec![view.stats(PODS), view.stats(NODES)],
        oldest: vec![view.oldest_revision(PODS), view.oldest_revision(NODES)],
    })
}

fn pod(namespace: &str, name: &str, n: u64) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": "a"}}, "n": n})
}

fn node(name: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name}})
}

fn names(objects: &[Arc<Stored>]) -> Vec<String> {
    objects.iter().map(|stored| format!("{}/{}", stored.namespace, stored.name)).collect()
}
