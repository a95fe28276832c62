//! From JSON to the types of `k8s-openapi` and back, for kinds whose rules are written on types.
//!
//! A condition without a transition time is printed with `null`, which the types do not take. Go holds it as the first
//! instant of year 1, and so do they meanwhile.

use std::borrow::Cow;
use std::convert::Infallible;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_api::errors::{self, FieldErrors};
use service_api::object::complete;

use crate::registry::object::{carry_meta, carry_system_fields};
use crate::registry::strategy::Findings;

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

/// Prepares a new object, then judges it; it is read and written once for both.
pub(super) fn check_create<T: DeserializeOwned + Serialize>(
    object: &mut Value,
    prepare: impl FnOnce(&mut T),
    judge: impl FnOnce(&T) -> Findings,
) -> Findings {
    let prepare = |new: &mut T| {
        prepare(new);
        Ok::<(), Infallible>(())
    };
    match allocate_create(object, prepare, judge) {
        Ok(findings) => findings,
        Err(never) => match never {},
    }
}

/// [`check_create`], with a preparation that can be refused.
///
/// # Errors
/// Those of `allocate`.
pub(super) fn allocate_create<T: DeserializeOwned + Serialize, E>(
    object: &mut Value,
    allocate: impl FnOnce(&mut T) -> Result<(), E>,
    judge: impl FnOnce(&T) -> Findings,
) -> Result<Findings, E> {
    let mut typed = match read(object) {
        Ok(typed) => typed,
        Err(faults) => return Ok(Findings { faults, warnings: Vec::new() }),
    };
    allocate(&mut typed)?;
    write(object, &typed);
    Ok(judge(&typed))
}

/// Carries over what no update changes, prepares the update, then judges it; both versions are read once, the new one is
/// written once.
pub(super) fn check_update<T: DeserializeOwned + Serialize>(
    new: &mut Value,
    old: &Value,
    prepare: impl FnOnce(&mut T, &T),
    judge: impl FnOnce(&T, &T) -> Findings,
) -> Findings {
    let prepare = |new: &mut T, old: &T| {
        prepare(new, old);
        Ok::<(), Infallible>(())
    };
    match allocate_update(new, old, prepare, judge) {
        Ok(findings) => findings,
        Err(never) => match never {},
    }
}

/// [`check_update`], with a preparation that can be refused.
///
/// # Errors
/// Those of `allocate`.
pub(super) fn allocate_update<T: DeserializeOwned + Serialize, E>(
    new: &mut Value,
    old: &Value,
    allocate: impl FnOnce(&mut T, &T) -> Result<(), E>,
    judge: impl FnOnce(&T, &T) -> Findings,
) -> Result<Findings, E> {
    carry_meta(new, old, "generation");
    carry_system_fields(new, old);
    let (mut typed, before) = match (read(new), read(old)) {
        (Ok(typed), Ok(before)) => (typed, before),
        (Err(faults), _) | (_, Err(faults)) => return Ok(Findings { faults, warnings: Vec::new() }),
    };
    allocate(&mut typed, &before)?;
    write(new, &typed);
    Ok(judge(&typed, &before))
}

/// Judges an object through its type.
pub(super) fn judge<T: DeserializeOwned>(
    object: &Value,
    rules: impl FnOnce(&T) -> FieldErrors,
) -> FieldErrors {
    read(object).map_or_else(|faults| faults, |typed| rules(&typed))
}
