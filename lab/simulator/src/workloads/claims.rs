//! Who owns what: which objects a controller keeps, takes and lets go, by their labels. Pure.
//!
//! Source: "How a ReplicaSet works" in the Kubernetes documentation. An owner holds what it controls and its selector
//! chooses, takes what nobody controls, and lets go what it controls and its selector no longer chooses.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::registry::kinds::workload;
use crate::registry::object::meta;

/// Namespace and name of an object.
pub(super) type Key = (String, String);

/// What an owner does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is its own.
    Keep,
    /// It becomes its own: nobody controls it.
    Take,
    /// It is no longer its own.
    Release,
    /// It is none of its business.
    Leave,
}

/// What `owner` (with a `spec.selector`) does with `object`.
pub(super) fn claim(owner: &Value, object: &Value) -> Claim {
    let chosen = chooses(selector(owner), object);
    let deleted = |object: &Value| !meta(object, "deletionTimestamp").is_empty();
    match controller(object) {
        Some(uid) if uid != meta(owner, "uid") => Claim::Leave,
        Some(_) if chosen => Claim::Keep,
        // What is deleted with its owner must be found by the garbage collector.
        Some(_) if deleted(owner) => Claim::Leave,
        Some(_) => Claim::Release,
        None if chosen && !deleted(owner) && !deleted(object) => Claim::Take,
        None => Claim::Leave,
    }
}

/// The uid of an object's controlling owner.
pub(super) fn controller(object: &Value) -> Option<&str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    references.iter().find(|reference| reference["controller"] == true)?["uid"].as_str()
}

/// Makes `reference` one of the object's owners.
pub(super) fn add_owner(object: &mut Value, reference: Value) {
    let references = &mut object["metadata"]["ownerReferences"];
    match references.as_array_mut() {
        Some(list) => list.push(reference),
        None => *references = Value::Array(vec![reference]),
    }
}

/// Takes the owner with this uid off the object.
pub(super) fn remove_owner(object: &mut Value, uid: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    list.retain(|reference| reference["uid"] != uid);
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

fn selector(owner: &Value) -> &Value {
    owner.pointer("/spec/selector").unwrap_or(&Value::Null)
}

/// Does the selector choose the object? An empty one chooses nothing.
fn chooses(selector: &Value, object: &Value) -> bool {
    let empty = |field: &str| {
        selector.get(field).is_none_or(|part| {
            part.as_object().is_none_or(serde_json::Map::is_empty)
                && part.as_array().is_none_or(Vec::is_empty)
        })
    };
    let says_nothing = empty("matchLabels") && empty("matchExpressions");
    !says_nothing && workload::matches(selector, object.pointer("/metadata/labels"))
}

/// Objects of a kind that nobody controls, and the owners of another kind that might take them.
#[derive(Debug, Default)]
pub(super) struct Loose {
    objects: BTreeMap<Key, Value>,
    owners: BTreeMap<Key, Value>,
}

impl Loose {
    /// Notes an object as it is now (`None`: it is gone); gives the owners that might take it.
    pub(super) fn see(&mut self, key: &Key, object: Option<&Value>) -> Vec<Key> {
        let Some(object) = object.filter(|object| controller(object).is_none()) else {
            self.objects.remove(key);
            return Vec::new();
        };
        let labels = object.pointer("/metadata/labels").cloned().unwrap_or_default();
        self.objects.insert(key.clone(), labels);
        let near = within(&self.owners, &key.0);
        near.filter(|(_, selector)| chooses(selector, object)).map(|(key, _)| key.clone()).collect()
    }

    /// Notes an owner as it is now (`None`: it is gone).
    pub(super) fn see_owner(&mut self, key: &Key, owner: Option<&Value>) {
        match owner {
            Some(owner) => self.owners.insert(key.clone(), selector(owner).clone()),
            None => self.owners.remove(key),
        };
    }

    /// The names of what the owner might take.
    pub(super) fn chosen_by(&self, owner: &Value) -> Vec<String> {
        let wanted =
            |labels: &Value| chooses(selector(owner), &serde_json::json!({"metadata": {"labels": labels}}));
        let near = within(&self.objects, meta(owner, "namespace"));
        near.filter(|(_, labels)| wanted(labels)).map(|(key, _)| key.1.clone()).collect()
    }
}

/// The entries of one namespace.
fn within<'a>(
    map: &'a BTreeMap<Key, Value>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    map.range((namespace.to_owned(), String::new())..).take_while(move |(key, _)| key.0 == namespace)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(deleted: bool) -> Value {
        let mut set = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "rs"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}
        });
        if deleted {
            set["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        set
    }

    fn pod(app: &str, owner: Option<&str>) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"app": app}}});
        if let Some(owner) = owner {
            add_owner(&mut pod, json!({"uid": owner, "controller": true}));
        }
        pod
    }

    #[rstest]
    #[case::own(false, pod("web", Some("rs")), Claim::Keep)]
    #[case::relabelled(false, pod("debug", Some("rs")), Claim::Release)]
    #[case::relabelled_of_a_deleted_owner(true, pod("debug", Some("rs")), Claim::Leave)]
    #[case::of_another(false, pod("web", Some("other")), Claim::Leave)]
    #[case::of_nobody(false, pod("web", None), Claim::Take)]
    #[case::of_nobody_and_other_labels(false, pod("debug", None), Claim::Leave)]
    #[case::a_deleted_owner_takes_nothing(true, pod("web", None), Claim::Leave)]
    fn claims(#[case] deleted: bool, #[case] object: Value, #[case] claimed: Claim) {
        assert_eq!(claim(&set(deleted), &object), claimed);
    }

    #[test]
    fn owners_are_added_and_removed() {
        let mut object = pod("web", Some("rs"));
        add_owner(&mut object, json!({"uid": "other"}));
        remove_owner(&mut object, "rs");
        assert_eq!(object["metadata"]["ownerReferences"], json!([{"uid": "other"}]));
        remove_owner(&mut object, "other");
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }

    #[test]
    fn loose_objects_find_owners_and_owners_loose_objects() {
        let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        let mut loose = Loose::default();
        loose.see_owner(&key("default", "web"), Some(&set(false)));
        loose.see_owner(&key("other", "web"), Some(&set(false)));
        assert_eq!(loose.see(&key("default", "p"), Some(&pod("web", None))), [key("default", "web")]);
        assert_eq!(loose.see(&key("default", "q"), Some(&pod("debug", None))), []);
        assert_eq!(loose.see(&key("default", "r"), Some(&pod("web", Some("rs")))), []);
        assert_eq!(loose.chosen_by(&set(false)), ["p"]);
        loose.see(&key("default", "p"), None);
        assert!(loose.chosen_by(&set(false)).is_empty());
    }
}
