//! From JSON to the types of `k8s-openapi` and back, for kinds whose rules are written on types.
//!
//! A condition without a transition time is printed with `null`, which the types do not take. Go holds it as the first
//! instant of year 1, and so do they meanwhile.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_api::errors::{self, FieldErrors};
use service_api::object::complete;

const CONDITIONS: &str = "/status/conditions";
const TRANSITION: &str = "lastTransitionTime";
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Replaces one spelling of a missing transition time by the other.
fn respell(object: &mut Value, from: &Value, to: &Value) {
    let conditions = object.pointer_mut(CONDITIONS).and_then(Value::as_array_mut);
    for time in conditions.into_iter().flatten().filter_map(|condition| condition.get_mut(TRANSITION)) {
        if time == from {
            time.clone_from(to);
        }
    }
}

fn deserialize<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    let conditions = object.pointer(CONDITIONS).and_then(Value::as_array);
    let timeless = |condition: &Value| condition.get(TRANSITION).is_some_and(Value::is_null);
    let mut object = Cow::Borrowed(object);
    if conditions.is_some_and(|conditions| conditions.iter().any(timeless)) {
        respell(object.to_mut(), &Value::Null, &NO_TIME.into());
    }
    T::deserialize(&*object)
}

/// The object as a type.
///
/// # Errors
/// A fault that says why it is none; decoding should have refused it before.
pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, FieldErrors> {
    deserialize(object).map_err(|error| errors::internal("", error.to_string()).into())
}

/// Changes the object through its type. What is no such object stays as it is; validation will say so.
pub(super) fn edit<T: DeserializeOwned + Serialize>(object: &mut Value, change: impl FnOnce(&mut T)) {
    let Ok(mut typed) = deserialize(object) else { return };
    change(&mut typed);
    write(object, &typed);
}

/// Changes an update through the types of both versions.
pub(super) fn edit_update<T: DeserializeOwned + Serialize>(
    new: &mut Value,
    old: &Value,
    change: impl FnOnce(&mut T, &T),
) {
    let (Ok(mut typed), Ok(before)) = (deserialize(new), deserialize(old)) else { return };
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
    respell(&mut value, &NO_TIME.into(), &Value::Null);
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
