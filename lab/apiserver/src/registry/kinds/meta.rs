//! Faults of `metadata` for kinds that are kept as plain JSON.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use service_api::errors::{self, FieldErrors};
use service_api::meta::{
    Naming, validate_object_meta, validate_object_meta_update, validate_object_meta_update_common,
};

/// Faults of a new object's metadata.
pub(super) fn faults(object: &Value, naming: Naming) -> FieldErrors {
    match of(object) {
        Ok(metadata) => validate_object_meta(&metadata, naming),
        Err(faults) => faults,
    }
}

/// Faults of an update's metadata.
pub(super) fn update_faults(new: &Value, old: &Value) -> FieldErrors {
    match (of(new), of(old)) {
        (Ok(new), Ok(old)) => validate_object_meta_update(&new, &old),
        (Err(faults), _) | (_, Err(faults)) => faults,
    }
}

/// Faults of an update's metadata, for kinds that do not look at it themselves: each is told once.
pub(super) fn common_update_faults(new: &Value, old: &Value) -> FieldErrors {
    match (of(new), of(old)) {
        (Ok(new), Ok(old)) => validate_object_meta_update_common(&new, &old),
        (Err(faults), _) | (_, Err(faults)) => faults,
    }
}

fn of(object: &Value) -> Result<ObjectMeta, FieldErrors> {
    use serde::Deserialize;
    match object.get("metadata") {
        Some(metadata) => ObjectMeta::deserialize(metadata)
            .map_err(|error| errors::internal("metadata", error.to_string()).into()),
        None => Ok(ObjectMeta::default()),
    }
}
