//! JSON patches (RFC 6902).

use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use super::{go_kind, not_applicable};
use crate::decode::{bad_request, failure, scan};

/// Upstream refuses longer patches.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a patch to a copy of `live`, all of it or nothing.
///
/// # Errors
/// 400 for what is no list of operations, 413 for too many, 422 for one that does not apply.
pub(super) fn apply(live: &Value, body: &[u8]) -> Result<Value, Box<Status>> {
    scan::check(body).map_err(|e| bad_request(e.to_string()))?;
    let patch: Value = serde_json::from_slice(body).map_err(|e| bad_request(e.to_string()))?;
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(unreadable(&other, "Patch")),
    };
    if let Some(other) = operations.iter().find(|o| !o.is_object() && !o.is_null()) {
        return Err(unreadable(other, "Operation"));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(failure(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let operations: Vec<PatchOperation> = operations
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .map_err(|_| not_applicable())?;
    let mut patched = live.clone();
    json_patch::patch(&mut patched, &operations).map_err(|_| not_applicable())?;
    Ok(patched)
}

fn unreadable(value: &Value, go: &str) -> Box<Status> {
    bad_request(format!("json: cannot unmarshal {} into Go value of type jsonpatch.{go}", go_kind(value)))
}
