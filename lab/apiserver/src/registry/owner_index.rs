//! Which objects name which owners in `metadata.ownerReferences`; by uid, for garbage collection.
//!
//! It knows what was written, not whether the owner exists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::store::{ObjectChange, ResourceId};

/// The place of an object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Which resource it is of.
    pub resource: ResourceId,
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Owners and dependents.
#[derive(Debug, Default)]
pub struct OwnerIndex {
    dependents: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
    owners: BTreeMap<ObjectKey, Vec<Arc<str>>>,
}

impl OwnerIndex {
    /// The objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Has the object with this uid dependents?
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// All uids that some object names as an owner, with one of those objects' keys each.
    pub fn owner_uids(&self) -> impl Iterator<Item = (&str, &BTreeSet<ObjectKey>)> {
        self.dependents.iter().map(|(uid, keys)| (&**uid, keys))
    }

    pub(super) fn apply(&mut self, change: &ObjectChange<'_>) {
        let owners = change.new.map_or_else(Vec::new, owner_uids);
        if owners.is_empty() && self.owners.is_empty() {
            return;
        }
        let Some(key) = key_of(change) else { return };
        let before = self.owners.get(&key).map_or(&[][..], Vec::as_slice);
        if *before == owners[..] {
            return;
        }
        for uid in before {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&key);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in &owners {
            self.dependents.entry(Arc::clone(uid)).or_default().insert(key.clone());
        }
        if owners.is_empty() {
            self.owners.remove(&key);
        } else {
            self.owners.insert(key, owners);
        }
    }
}

fn key_of(change: &ObjectChange<'_>) -> Option<ObjectKey> {
    if let Some(old) = change.old {
        let (namespace, name) = (Arc::clone(&old.namespace), Arc::clone(&old.name));
        return Some(ObjectKey { resource: change.resource, namespace, name });
    }
    let metadata = change.new?.get("metadata")?;
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().into();
    Some(ObjectKey { resource: change.resource, namespace: text("namespace"), name: text("name") })
}

fn owner_uids(object: &Value) -> Vec<Arc<str>> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference.get("uid")?.as_str().map(Into::into))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn created(index: &mut OwnerIndex, object: &Value) {
        index.apply(&ObjectChange { resource: ResourceId(0), old: None, new: Some(object) });
    }

    #[test]
    fn dependents_are_found_by_their_owner() {
        let mut index = OwnerIndex::default();
        let owned = |name: &str, uids: &[&str]| {
            let references: Vec<Value> = uids.iter().map(|uid| json!({"uid": uid})).collect();
            json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": references}})
        };
        created(&mut index, &owned("a", &["1", "2"]));
        created(&mut index, &owned("b", &["2"]));
        created(&mut index, &owned("c", &[]));
        let names = |uid: &str| index.dependents(uid).map(|key| key.name.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (names("1"), names("2"), names("3")),
            (vec!["a".into()], vec!["a".into(), "b".into()], vec![])
        );
        created(&mut index, &owned("a", &["3"]));
        assert!(!index.has_dependents("1"));
        assert!(index.has_dependents("3"));
    }
}
