//! From JSON to the types of `k8s-openapi` and back, for kinds whose rules are written on types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_api::errors::{self, FieldErrors};
use service_api::object::complete;

/// The object as a type.
///
/// # Errors
/// A fault that says why it is none; decoding should have refused it before.
pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, FieldErrors> {
    T::deserialize(object).map_err(|error| vec![errors::internal("", error.to_string())])
}

/// Changes the object through its type. What is no such object stays as it is; validation will say so.
pub(super) fn edit<T: DeserializeOwned + Serialize>(object: &mut Value, change: impl FnOnce(&mut T)) {
    let Ok(mut typed) = T::deserialize(&*object) else { return };
    change(&mut typed);
    write(object, &typed);
}

/// Changes an update through the types of both versions.
pub(super) fn edit_update<T: DeserializeOwned + Serialize>(
    new: &mut Value,
    old: &Value,
    change: impl FnOnce(&mut T, &T),
) {
    let (Ok(mut typed), Ok(before)) = (T::deserialize(&*new), T::deserialize(old)) else { return };
    change(&mut typed, &before);
    write(new, &typed);
}

/// Puts the typed object in the place of the JSON, printed as Go would print it.
pub(super) fn write<T: Serialize>(object: &mut Value, typed: &T) {
    let Ok(mut value) = serde_json::to_value(typed) else { return };
    for field in ["apiVersion", "kind"] {
        if let (Some(known), Some(out)) = (object.get(field), value.as_object_mut()) {
            out.insert(field.to_owned(), known.clone());
        }
    }
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    complete(&kind, &mut value);
    *object = value;
}

/// Judges a new object through its type.
pub(super) fn judge<T: DeserializeOwned>(
    object: &Value,
    rules: impl FnOnce(&T) -> FieldErrors,
) -> FieldErrors {
    read(object).map_or_else(|faults| faults, |typed| rules(&typed))
}

/// Judges an update through the types of both versions.
pub(super) fn judge_update<T: DeserializeOwned>(
    new: &Value,
    old: &Value,
    rules: impl FnOnce(&T, &T) -> FieldErrors,
) -> FieldErrors {
    match (read(new), read(old)) {
        (Ok(new), Ok(old)) => rules(&new, &old),
        (Err(faults), _) | (_, Err(faults)) => faults,
    }
}

/// The warnings of a create or an update.
pub(super) fn warn<T: DeserializeOwned>(
    new: &Value,
    old: Option<&Value>,
    rules: impl FnOnce(&T, Option<&T>) -> Vec<String>,
) -> Vec<String> {
    match (read(new), old.map(read).transpose()) {
        (Ok(new), Ok(old)) => rules(&new, old.as_ref()),
        _ => Vec::new(),
    }
}
