//! Objects as server-side apply sees them: values with a schema that says what is one value and what is merged.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::managed_fields::compare::{is_unowned, item_element};
use crate::managed_fields::set::{self, FieldSet, Node};
use crate::schema::{KindSchema, ListKind, ListType, StructType, Type};

mod validate;

pub(super) use validate::{joined, validate};

/// The type of a member of a map or struct; `None` for a field that the schema does not have.
fn member_type<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match ty {
        Type::Struct(_) => ty.as_struct().and_then(|s| s.field(name)).map(|(_, field)| &field.ty),
        Type::Map(map) => Some(&map.value),
        _ => None,
    }
}

fn is_atomic(ty: &Type) -> bool {
    match ty {
        Type::Scalar(..) => true,
        Type::Struct(_) => ty.as_struct().is_some_and(|s| s.atomic),
        Type::Map(map) => map.atomic,
        Type::List(list) => list.kind == ListKind::Atomic,
    }
}

fn is_void(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// The fields below the root of a kind that a set may hold.
fn root_fields(strukt: &'static StructType) -> impl Iterator<Item = (&'static str, &'static Type)> {
    strukt.fields.iter().filter(|f| !matches!(f.name, "apiVersion" | "kind")).map(|f| (f.name, &f.ty))
}

/// Merges what is applied into a live object; neither is changed.
pub(super) fn merge(kind: &'static KindSchema, live: &Value, patch: &Value) -> Value {
    let mut out = live.clone();
    let Some(map) = out.as_object_mut() else { return patch.clone() };
    for (name, ty) in root_fields(kind.root()) {
        if let Some(theirs) = patch.get(name) {
            let merged = merge_value(ty, map.get(name), theirs);
            map.insert(name.to_owned(), merged);
        }
    }
    out
}

fn merge_value(ty: &Type, live: Option<&Value>, patch: &Value) -> Value {
    if is_atomic(ty) || (is_void(live) && is_void(Some(patch))) {
        return patch.clone();
    }
    match (ty, live, patch) {
        (Type::List(list), _, Value::Array(items)) => {
            Value::Array(merge_list(list, live.and_then(Value::as_array).map_or(&[], Vec::as_slice), items))
        }
        (Type::Struct(_) | Type::Map(_), _, Value::Object(theirs)) => {
            let mut out = live.and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, value) in theirs {
                let Some(ty) = member_type(ty, name) else { continue };
                let merged = merge_value(ty, out.get(name), value);
                out.insert(name.clone(), merged);
            }
            Value::Object(out)
        }
        // Null leaves what is there and is merged item by item.
        (_, Some(live), Value::Null) => live.clone(),
        _ => patch.clone(),
    }
}

/// Merges two lists whose items have keys. The applied order counts; live items keep their place between them.
fn merge_list(list: &ListType, live: &[Value], patch: &[Value]) -> Vec<Value> {
    let live_keys: Vec<String> = live.iter().map(|item| item_element(list, item)).collect();
    let patch_keys: Vec<String> = patch.iter().map(|item| item_element(list, item)).collect();
    let live_at: HashMap<&str, usize> = first_positions(&live_keys);
    let patch_at: HashMap<&str, usize> = first_positions(&patch_keys);
    let merged = |key: &str, item: &Value| {
        merge_value(&list.item, live_at.get(key).and_then(|at| live.get(*at)), item)
    };
    // The applied items that are live too, in the applied order: live items before the next of them go first.
    let mut shared = patch_keys.iter().filter(|key| live_at.contains_key(key.as_str())).peekable();
    let mut done: HashSet<&str> = HashSet::new();
    let mut out = Vec::with_capacity(live.len().max(patch.len()));
    let (mut l, mut p) = (0, 0);
    loop {
        let (ours, theirs) = (live_keys.get(l), patch_keys.get(p));
        match (ours, theirs) {
            (None, None) => return out,
            (Some(ours), Some(theirs)) if ours == theirs => {
                out.extend(patch.get(p).map(|item| merged(theirs, item)));
                done.insert(theirs);
                (l, p) = (l + 1, p + 1);
                shared.next();
                continue;
            }
            (Some(ours), Some(_))
                if patch_at.contains_key(ours.as_str())
                    && shared.peek().is_some_and(|next| *next != ours) =>
            {
                // Applied at another place.
                l += 1;
                continue;
            }
            _ => {}
        }
        if let Some(ours) = ours {
            if !patch_at.contains_key(ours.as_str()) {
                out.extend(live.get(l).cloned());
                l += 1;
                continue;
            }
            if done.contains(ours.as_str()) {
                l += 1;
            }
        }
        if let (Some(theirs), Some(item)) = (theirs, patch.get(p)) {
            out.push(merged(theirs, item));
            done.insert(theirs);
            p += 1;
            if shared.peek() == Some(&theirs) {
                shared.next();
            }
        }
    }
}

fn first_positions(keys: &[String]) -> HashMap<&str, usize> {
    let mut positions = HashMap::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        positions.entry(key.as_str()).or_insert(at);
    }
    positions
}

/// The fields that an object has, as an applier owns them.
pub(super) fn field_set(kind: &'static KindSchema, object: &Value) -> FieldSet {
    let mut out = FieldSet::new();
    for (name, ty) in root_fields(kind.root()) {
        if let Some(value) = object.get(name) {
            field_node(ty, value, true).put(&mut out, format!("f:{name}"));
        }
    }
    out
}

/// `named`: the value is a struct's field (rather than a map's key or a list's item).
fn field_node(ty: &Type, value: &Value, named: bool) -> Node {
    if is_atomic(ty) {
        return Node::leaf();
    }
    let mut node = Node { member: !named || matches!(value, Value::Null), children: FieldSet::new() };
    match (ty, value) {
        (Type::List(list), Value::Array(items)) => {
            for item in items {
                field_node(&list.item, item, false).put(&mut node.children, item_element(list, item));
            }
        }
        (_, Value::Object(map)) => {
            node.member |= map.is_empty();
            let named = matches!(ty, Type::Struct(_));
            for (name, value) in map {
                if let Some(ty) = member_type(ty, name) {
                    field_node(ty, value, named).put(&mut node.children, format!("f:{name}"));
                }
            }
        }
        _ => {}
    }
    node
}

/// The set with the structs' fields that have something below them as members.
pub(super) fn with_named_fields(kind: &'static KindSchema, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::new();
    let root = kind.root();
    for (element, value) in set {
        let ty = element.strip_prefix("f:").and_then(|name| root.field(name)).map(|(_, f)| &f.ty);
        with_named(ty, value, ty.is_some()).put(&mut out, element.as_str());
    }
    out
}

fn with_named(ty: Option<&Type>, value: &Value, named: bool) -> Node {
    let mut node = Node { member: named || set::is_member(value), children: FieldSet::new() };
    for (element, value) in set::children(value) {
        let (inner, named) = match (ty, element.strip_prefix("f:")) {
            (Some(ty), Some(name)) => (member_type(ty, name), matches!(ty, Type::Struct(_))),
            (Some(Type::List(list)), None) => (Some(&list.item), false),
            _ => (None, false),
        };
        with_named(inner, value, named && inner.is_some()).put(&mut node.children, element.as_str());
    }
    node
}

/// The object without the members of `set` and all that is below them.
pub(super) fn without(kind: &'static KindSchema, object: &Value, set: &FieldSet) -> Value {
    let mut out = object.clone();
    let Some(map) = out.as_object_mut() else { return out };
    for (name, ty) in root_fields(kind.root()) {
        let Some(remove) = set.get(&format!("f:{name}")) else { continue };
        if set::is_member(remove) {
            map.remove(name);
        } else if let Some(value) = map.get_mut(name) {
            remove_below(ty, value, remove);
        }
    }
    out
}

fn remove_below(ty: &Type, value: &mut Value, set: &Value) {
    let Value::Object(set) = set else { return };
    if is_atomic(ty) {
        return;
    }
    let emptied = match (ty, &mut *value) {
        (Type::List(list), Value::Array(items)) => {
            items.retain_mut(|item| match set.get(&item_element(list, item)) {
                Some(remove) if set::is_member(remove) => false,
                Some(remove) => {
                    remove_below(&list.item, item, remove);
                    true
                }
                None => true,
            });
            items.is_empty()
        }
        (_, Value::Object(map)) => {
            let before = map.len();
            for (element, remove) in set {
                let Some(name) = element.strip_prefix("f:") else { continue };
                if set::is_member(remove) {
                    map.remove(name);
                } else if let (Some(value), Some(ty)) = (map.get_mut(name), member_type(ty, name)) {
                    remove_below(ty, value, remove);
                }
            }
            before > 0 && map.is_empty()
        }
        _ => false,
    };
    if emptied {
        *value = Value::Null;
    }
}

/// Takes what nobody can own out of the set of an applier.
pub(super) fn strip_unowned(set: &mut FieldSet) {
    if let Some(Value::Object(metadata)) = set.get_mut("f:metadata") {
        metadata.retain(|element, _| !element.strip_prefix("f:").is_some_and(is_unowned));
        if metadata.is_empty() || (metadata.len() == 1 && metadata.contains_key(".")) {
            set.remove("f:metadata");
        }
    }
}

/// The name and namespace of an object, empty where it has none.
pub(super) fn name_of(object: &Map<String, Value>) -> (&str, &str) {
    let text = |field: &str| object.get("metadata").and_then(|m| m[field].as_str()).unwrap_or_default();
    (text("name"), text("namespace"))
}
