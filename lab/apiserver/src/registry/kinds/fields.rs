//! Reading and setting fields of objects that are kept as JSON.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a JSON pointer; empty when there is none.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The list below a field, to change its entries; empty when there is none.
pub(crate) fn each_mut<'a>(object: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Is the field absent, null, or Go's zero for a text, list or map?
pub(crate) fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

/// The object at a path of field names, made where it is missing; `None` if something else is in the way.
pub(crate) fn object_at<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut here = object;
    for field in path {
        let map = here.as_object_mut()?;
        let next = map.entry(*field).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        here = next;
    }
    here.as_object_mut()
}

/// Sets fields that are absent or null.
pub(crate) fn default_fields<'a>(object: &mut Value, fields: impl IntoIterator<Item = (&'a str, Value)>) {
    let Some(map) = object.as_object_mut() else { return };
    for (field, value) in fields {
        let here = map.entry(field).or_insert(Value::Null);
        if here.is_null() {
            *here = value;
        }
    }
}

/// Sets fields that are absent, null or the empty text.
pub(crate) fn default_texts<const N: usize>(object: &mut Value, fields: [(&str, &str); N]) {
    let Some(map) = object.as_object_mut() else { return };
    for (field, value) in fields {
        if is_unset(map.get(field)) {
            map.insert(field.to_owned(), Value::String(value.to_owned()));
        }
    }
}

/// Makes the top-level field what it is in `old`, absent if it is absent there.
pub(crate) fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Makes one field of `metadata` what it is in `old`.
pub(crate) fn keep_metadata(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = object_at(new, &["metadata"]) else { return };
    match old.get("metadata").and_then(|metadata| metadata.get(field)) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Sets `metadata.generation`.
pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object_at(object, &["metadata"]) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// The generation after an update: one more than before if `changed`.
pub(crate) fn bump_generation(new: &mut Value, old: &Value, changed: bool) {
    let before = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    set_generation(new, before + i64::from(changed));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_do_not_overwrite() {
        let mut object = json!({"a": 0, "b": null, "c": ""});
        default_fields(&mut object, [("a", json!(1)), ("b", json!(2)), ("d", json!(3))]);
        default_texts(&mut object, [("c", "x")]);
        assert_eq!(object, json!({"a": 0, "b": 2, "c": "x", "d": 3}));
    }

    #[test]
    fn a_field_is_kept_also_when_it_was_absent() {
        let mut new = json!({"status": {"x": 1}, "spec": {}});
        keep(&mut new, &json!({"spec": {"y": 1}}), "status");
        keep(&mut new, &json!({"spec": {"y": 1}}), "spec");
        assert_eq!(new, json!({"spec": {"y": 1}}));
    }

    #[test]
    fn paths_are_made_but_never_over_other_values() {
        let mut object = json!({"a": null, "t": "text"});
        assert!(object_at(&mut object, &["a", "b"]).is_some());
        assert!(object_at(&mut object, &["t", "b"]).is_none());
        assert_eq!(object, json!({"a": {"b": {}}, "t": "text"}));
    }
}
