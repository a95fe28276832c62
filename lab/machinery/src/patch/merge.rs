//! JSON merge patches (RFC 7386).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use super::go_kind;
use crate::decode::{self, FieldValidation, bad_request, typed};

/// What upstream says to a patch that is no object.
const NO_PATCH: &str = "Invalid JSON Patch";

/// Applies a patch to a copy of `live`; with it come the duplicate keys of the patch.
///
/// # Errors
/// 400 for what is no JSON object.
pub(super) fn apply(
    live: &Value,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Box<Status>> {
    let checked = validation != FieldValidation::Ignore;
    let unreadable = |e: &dyn std::fmt::Display| {
        bad_request(if checked { format!("error decoding patch: {e}") } else { NO_PATCH.to_owned() })
    };
    let patch = decode::value(body).map_err(|e| unreadable(&e))?;
    if patch.is_null() {
        return Err(bad_request(NO_PATCH));
    }
    if !patch.is_object() {
        return Err(unreadable(&format_args!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(&patch)
        )));
    }
    let mut patched = live.clone();
    json_patch::merge(&mut patched, &patch);
    let duplicates = if checked { typed::duplicates(body) } else { Vec::new() };
    Ok((patched, duplicates))
}
