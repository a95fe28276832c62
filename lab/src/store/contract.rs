//! What every store must do, in memory or on disk: one suite, instantiated for both.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::*;

const PODS: ResourceId = ResourceId(0);
const NODES: ResourceId = ResourceId(1);

/// Derived state to check the index protocol with: the revision of each object, as told.
#[derive(Default)]
struct Told {
    objects: BTreeMap<(u16, String, String), u64>,
}

fn identity(resource: ResourceId, object: &Value) -> (u16, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (resource.0, text("namespace"), text("name"))
}

impl Index for Told {
    fn apply(&mut self, change: &Change<'_>) {
        match (change.old, change.new) {
            (old, Some(new)) => {
                let key = identity(change.resource, new);
                let revision = new["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
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

fn pod(namespace: &str, name: &str, n: u64) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": "a"}}, "n": n})
}

fn memory() -> Store<Told> {
    Store::open(&StoreOptions::in_memory(["pods", "nodes"]), Told::default()).unwrap()
}

fn names(objects: &[Arc<Stored>]) -> Vec<String> {
    objects.iter().map(|stored| format!("{}/{}", stored.namespace, stored.name)).collect()
}

#[test]
fn lists_in_key_order_and_pages() {
    let store = memory();
    for (namespace, name) in [("kube", "b"), ("kube-system", "a"), ("a", "z"), ("kube", "a"), ("kube", "a-b")]
    {
        store.write(|tx| tx.put(PODS, pod(namespace, name, 0))).unwrap();
    }
    let all = ["a/z", "kube-system/a", "kube/a", "kube/a-b", "kube/b"];
    let list = |namespace: Option<&str>, after: Option<(&str, &str)>| {
        store.read(|view| names(&view.list(PODS, namespace, after).cloned().collect::<Vec<_>>()))
    };
    assert_eq!(list(None, None), all);
    for (at, key) in all.iter().enumerate() {
        assert_eq!(list(None, key.split_once('/')), all[at + 1..]);
    }
    assert_eq!(list(None, Some(("b", "x"))), all[1..]);
    assert_eq!(list(Some("kube"), None), all[2..]);
    assert_eq!(list(Some("kube"), Some(("kube", "a"))), all[3..]);
    assert_eq!(list(Some("kube"), Some(("a", "a"))), all[2..]);
    assert_eq!(list(Some("a"), Some(("kube", "a"))), [""; 0]);
    assert_eq!(list(Some("none"), None), [""; 0]);
    assert_eq!(
        store.read(|view| (view.count(PODS), view.count_in(PODS, "kube"), view.count(NODES))),
        (5, 3, 0)
    );
}

#[tokio::test]
async fn a_watch_sees_what_follows_its_list() {
    let store = memory();
    store.write(|tx| tx.put(PODS, pod("d", "one", 1))).unwrap();
    let (objects, revision, mut watch) = store.list_and_watch(PODS, None);
    assert_eq!((names(&objects), revision), (vec!["d/one".to_owned()], 2));
    store
        .write(|tx| {
            tx.put(PODS, pod("d", "two", 1))?;
            tx.put(PODS, pod("d", "one", 2))?;
            tx.delete(PODS, "d", "two", pod("d", "two", 1))
        })
        .unwrap();
    let events = watch.next_batch().await.unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.ty, event.revision, &*event.object.name)).collect();
    assert_eq!(
        seen,
        [(EventType::Added, 3, "two"), (EventType::Modified, 4, "one"), (EventType::Deleted, 5, "two")]
    );
    assert_eq!(events[1].previous.as_ref().unwrap().revision, 2);
    store.write(|tx| tx.put(NODES, json!({"metadata": {"name": "n"}}))).unwrap();
    assert_eq!(watch.progress(), 6);
}
