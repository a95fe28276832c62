//! What a write changes: the fields of an old and a new object that differ, as sets of paths.

use std::collections::HashMap;

use serde_json::{Map, Value};
use smallvec::{SmallVec, smallvec};

use super::set::{FieldSet, Node};
use crate::schema::{Field, KindSchema, ListKind, ListType, Omit, StructType, Type};

/// The difference of two objects.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Fields that are new or have another value.
    pub(crate) changed: FieldSet,
    /// Fields that are gone.
    pub(crate) removed: FieldSet,
}

impl Changes {
    /// Nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Fields that the server decides and nobody owns.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "clusterName",
];

/// Is this field of `metadata` one that nobody owns?
pub(crate) fn is_unowned(name: &str) -> bool {
    UNOWNED.contains(&name)
}

/// Paths that a write through `subresource` resets before it is stored, and that its manager hence does not own.
pub(crate) fn reset_paths(
    kind: &KindSchema,
    subresource: Option<&str>,
) -> &'static [&'static [&'static str]] {
    match (subresource, kind.kind) {
        (None, _) => &[&["f:status"]],
        (Some("status"), "Pod") => {
            &[&["f:spec"], &["f:metadata", "f:deletionTimestamp"], &["f:metadata", "f:ownerReferences"]]
        }
        (Some("status"), "Deployment") => &[&["f:spec"], &["f:metadata", "f:labels"]],
        (Some("status"), _) => &[&["f:spec"]],
        _ => &[],
    }
}

/// Compares two objects of a kind; `kind`, `apiVersion`, what nobody owns and what is reset are left out.
pub(crate) fn compare(
    kind: &'static KindSchema,
    old: &Value,
    new: &Value,
    subresource: Option<&str>,
) -> Changes {
    let mut changes = Changes::default();
    let root = kind.root();
    let resets = reset_paths(kind, subresource);
    for field in &root.fields {
        if matches!(field.name, "apiVersion" | "kind") {
            continue;
        }
        // Resets of whole top-level fields need no look at them.
        if resets.iter().any(|path| matches!(path, [one] if one.strip_prefix("f:") == Some(field.name))) {
            continue;
        }
        if field.name == "metadata" {
            metadata(field, old.get("metadata"), new.get("metadata"), &mut changes);
        } else {
            let pair = (old.get(field.name), new.get(field.name));
            member(&field.ty, pair, Element::Field(field.name), &mut changes);
        }
    }
    for path in resets.iter().filter(|path| path.len() > 1) {
        super::set::remove_below(&mut changes.changed, path);
        super::set::remove_below(&mut changes.removed, path);
    }
    changes
}

fn metadata(field: &Field, old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
    let Some(strukt) = field.ty.as_struct() else { return };
    let mut inner = Changes::default();
    for field in strukt.fields.iter().filter(|f| !is_unowned(f.name)) {
        let pair = (old.and_then(|o| o.get(field.name)), new.and_then(|n| n.get(field.name)));
        member(&field.ty, pair, Element::Field(field.name), &mut inner);
    }
    Node { member: false, children: inner.changed }.put(&mut changes.changed, "f:metadata");
    Node { member: false, children: inner.removed }.put(&mut changes.removed, "f:metadata");
}

/// A path element that is only written out when something below it differs.
#[derive(Clone, Copy)]
enum Element<'a> {
    /// A field's or a map key's name.
    Field(&'a str),
    /// The element of a list item.
    Item(&'a str),
}

impl Element<'_> {
    fn text(self) -> String {
        match self {
            Element::Field(name) => ["f:", name].concat(),
            Element::Item(element) => element.to_owned(),
        }
    }
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

/// Compares one member of a struct, map or list and files the difference under its path element.
fn member(ty: &Type, pair: Pair<'_>, element: Element<'_>, out: &mut Changes) {
    if let (None, None) = pair {
        return;
    }
    if let (Some(old), Some(new)) = pair
        && (std::ptr::eq(old, new) || old == new)
    {
        return;
    }
    let (changed, removed) = walk(ty, pair);
    if !changed.is_empty() {
        changed.put(&mut out.changed, element.text());
    }
    if !removed.is_empty() {
        removed.put(&mut out.removed, element.text());
    }
}

fn leaf(pair: Pair<'_>) -> (Node, Node) {
    match pair {
        (Some(_), None) => (Node::default(), Node::leaf()),
        // Equal pairs never come here.
        _ => (Node::leaf(), Node::default()),
    }
}

fn walk(ty: &Type, pair: Pair<'_>) -> (Node, Node) {
    let mut inner = Changes::default();
    match ty {
        Type::Scalar(..) => return leaf(pair),
        Type::Struct(_) => {
            let Some(strukt) = ty.as_struct() else { return leaf(pair) };
            let (old, new) = maps(pair);
            if strukt.atomic || (is_void(old) && is_void(new)) {
                return leaf(pair);
            }
            fields(strukt, old, new, &mut inner);
        }
        Type::Map(map) => {
            let (old, new) = maps(pair);
            if map.atomic || (is_void(old) && is_void(new)) {
                return leaf(pair);
            }
            let empty = Map::new();
            let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
            for (key, value) in new {
                member(&map.value, (old.get(key), Some(value)), Element::Field(key), &mut inner);
            }
            for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
                member(&map.value, (Some(value), None), Element::Field(key), &mut inner);
            }
        }
        Type::List(list) => {
            let (old, new) = (items(pair.0), items(pair.1));
            if list.kind == ListKind::Atomic || (old.is_empty() && new.is_empty()) {
                return leaf(pair);
            }
            lists(list, old, new, &mut inner);
        }
    }
    (
        Node { member: pair.0.is_none(), children: inner.changed },
        Node { member: pair.1.is_none(), children: inner.removed },
    )
}

type Members<'a> = Option<&'a Map<String, Value>>;

fn maps(pair: Pair<'_>) -> (Members<'_>, Members<'_>) {
    (pair.0.and_then(Value::as_object), pair.1.and_then(Value::as_object))
}

fn is_void(map: Option<&Map<String, Value>>) -> bool {
    map.is_none_or(Map::is_empty)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields(
    strukt: &'static StructType,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    out: &mut Changes,
) {
    for field in &strukt.fields {
        let pair = (old.and_then(|o| o.get(field.name)), new.and_then(|n| n.get(field.name)));
        if let (None, None) = pair {
            continue;
        }
        member(&field.ty, pair, Element::Field(field.name), out);
    }
}

fn lists(list: &ListType, old: &[Value], new: &[Value], out: &mut Changes) {
    let (old, new) = (Keyed::of(list, old), Keyed::of(list, new));
    for (key, theirs) in &new.items {
        match (old.get(key), theirs.as_slice()) {
            ([], [one]) => member(&list.item, (None, Some(one)), Element::Item(key), out),
            ([old], [new]) => member(&list.item, (Some(old), Some(new)), Element::Item(key), out),
            // Items that cannot be told apart are compared together.
            (ours, theirs) if ours != theirs => Node::leaf().put(&mut out.changed, key.as_str()),
            _ => {}
        }
    }
    for (key, ours) in old.items.iter().filter(|(key, _)| new.get(key).is_empty()) {
        match ours.as_slice() {
            [one] => member(&list.item, (Some(one), None), Element::Item(key), out),
            _ => Node::leaf().put(&mut out.removed, key.as_str()),
        }
    }
}

/// The items of a list by their path elements, in the order of first sight.
#[derive(Debug)]
pub(crate) struct Keyed<'a> {
    /// Path element and the items that have it.
    pub(crate) items: Vec<(String, SmallVec<[&'a Value; 1]>)>,
    /// Where an element stands; only kept for lists that are too long to look through.
    index: HashMap<String, usize>,
}

impl<'a> Keyed<'a> {
    const SHORT: usize = 16;

    /// Files the items of a list.
    pub(crate) fn of(list: &ListType, items: &'a [Value]) -> Self {
        let mut keyed = Keyed { items: Vec::with_capacity(items.len()), index: HashMap::new() };
        for item in items {
            let key = item_element(list, item);
            let known = keyed.position(&key);
            if let Some((_, same)) = known.and_then(|at| keyed.items.get_mut(at)) {
                same.push(item);
                continue;
            }
            if items.len() > Self::SHORT {
                keyed.index.insert(key.clone(), keyed.items.len());
            }
            keyed.items.push((key, smallvec![item]));
        }
        keyed
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.index.is_empty() {
            self.items.iter().position(|(k, _)| k == key)
        } else {
            self.index.get(key).copied()
        }
    }

    /// The items with that path element.
    pub(crate) fn get(&self, key: &str) -> &[&'a Value] {
        self.position(key).and_then(|at| self.items.get(at)).map_or(&[], |(_, items)| items.as_slice())
    }
}

/// The path element of a list item. A key that the item lacks counts as its default.
pub(crate) fn item_element(list: &ListType, item: &Value) -> String {
    use std::fmt::Write as _;
    let ListKind::Map(keys) = &list.kind else { return format!("v:{item}") };
    let strukt = list.item.as_struct();
    let mut element = String::with_capacity(40);
    element.push_str("k:{");
    for key in keys {
        let default;
        let value = if let Some(value) = item.get(key) {
            value
        } else {
            default = strukt.and_then(|s| key_default(s, key)).unwrap_or(Value::Null);
            &default
        };
        if element.len() > 3 {
            element.push(',');
        }
        // Writing to a String cannot fail.
        let _ = write!(element, "\"{key}\":{value}");
    }
    element.push('}');
    element
}

/// What stands for a key that a list item lacks; `None` if nothing does.
pub(crate) fn key_default(strukt: &StructType, key: &str) -> Option<Value> {
    let (_, field) = strukt.field(key)?;
    match (field.key_default, &field.ty) {
        (Some(text), _) => Some(Value::from(text)),
        (None, Type::Scalar(scalar, _)) if field.omit == Omit::Never => Some(scalar.zero()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::schema;

    #[rstest]
    #[case::created(
        json!({}),
        json!({"metadata": {"name": "a", "labels": {"x": "y"}},
               "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"a": "b"},
                        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}, "type": "ClusterIP"},
               "status": {"loadBalancer": {}}}),
        json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}},
               "f:spec": {"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
                          "f:selector": {}, "f:type": {},
                          "f:sessionAffinityConfig": {".": {}, "f:clientIP": {".": {}, "f:timeoutSeconds": {}}}}}),
        json!({}))]
    #[case::port_changed(
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 80, "protocol": "UDP"}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 81}]}}),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:targetPort": {}}}}}),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}}}))]
    #[case::atomic_map(
        json!({"spec": {"selector": {"a": "1", "b": "2"}}}), json!({"spec": {"selector": {"a": "1"}}}),
        json!({"f:spec": {"f:selector": {}}}), json!({}))]
    #[case::granular_map_and_set(
        json!({"metadata": {"annotations": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}}),
        json!({"metadata": {"annotations": {"a": "2"}, "finalizers": ["y", "z"]}}),
        json!({"f:metadata": {"f:annotations": {"f:a": {}}, "f:finalizers": {"v:\"z\"": {}}}}),
        json!({"f:metadata": {"f:annotations": {"f:b": {}}, "f:finalizers": {"v:\"x\"": {}}}}))]
    #[case::last_label_removed(
        json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {}}),
        json!({}), json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}))]
    fn differences(
        #[case] mut old: Value,
        #[case] new: Value,
        #[case] changed: Value,
        #[case] removed: Value,
    ) {
        let kind = schema::find("", "v1", "Service").unwrap();
        if old == json!({}) {
            old = kind.zero().clone();
        }
        let changes = compare(kind, &old, &new, None);
        assert_eq!(Value::Object(changes.changed), changed);
        assert_eq!(Value::Object(changes.removed), removed);
    }

    #[test]
    fn a_status_write_owns_the_status_alone() {
        let kind = schema::find("", "v1", "Service").unwrap();
        let new = json!({"spec": {"type": "NodePort"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
        let status = compare(kind, kind.zero(), &new, Some("status")).changed;
        assert_eq!(Value::Object(status), json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}}));
        let main = compare(kind, kind.zero(), &new, None).changed;
        assert_eq!(Value::Object(main), json!({"f:spec": {"f:type": {}}}));
    }
}
