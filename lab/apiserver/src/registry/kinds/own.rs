//! The rules of our own kinds, which decoding does not know as well as Kubernetes': a word that is none of a fixed set
//! comes as far as this.

use serde::de::DeserializeOwned;
use serde_json::Value;
use service_api::errors::{BadValue, FieldErrors, invalid};

use super::typed;

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
    match (read(new), typed::read(old)) {
        (Ok(new), Ok(old)) => rules(&new, &old),
        (Err(faults), _) | (_, Err(faults)) => faults,
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<T, FieldErrors> {
    T::deserialize(object).map_err(|error| {
        let spec = object.get("spec").map_or(BadValue::Null, BadValue::json);
        invalid("spec", spec, error.to_string()).into()
    })
}
