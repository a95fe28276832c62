//! JSON patches (RFC 6902).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use super::{go_kind, not_applicable, operations};
use crate::decode::{self, FieldValidation, bad_request, failure, typed};

/// Upstream refuses longer patches.
const MAX_OPERATIONS: usize = 10_000;

/// The members of an operation.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Applies a patch to a copy of `live`, all of it or nothing; with it come unknown and duplicate members.
///
/// # Errors
/// 400 for what is no list of operations, 413 for too many, 422 for one that does not apply.
pub(super) fn apply(
    live: &Value,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Box<Status>> {
    let checked = validation != FieldValidation::Ignore;
    let unreadable = |e: &dyn std::fmt::Display| {
        bad_request(if checked { format!("error decoding patch: {e}") } else { e.to_string() })
    };
    let patch = decode::value(body).map_err(|e| unreadable(&e))?;
    let mistyped = |value: &Value, one: bool| {
        let go = match (checked, one) {
            (true, true) => "handlers.jsonPatchOp",
            (true, false) => "[]handlers.jsonPatchOp",
            (false, true) => "jsonpatch.Operation",
            (false, false) => "jsonpatch.Patch",
        };
        unreadable(&format_args!("json: cannot unmarshal {} into Go value of type {go}", go_kind(value)))
    };
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(mistyped(&other, false)),
    };
    for operation in operations.iter().filter(|operation| !operation.is_null()) {
        if !operation.is_object() {
            return Err(mistyped(operation, true));
        }
        for member in ["op", "path", "from"].into_iter().filter(|_| checked) {
            if let Some(value) = operation.get(member).filter(|value| !value.is_string() && !value.is_null())
            {
                return Err(unreadable(&format_args!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{member} of type string",
                    go_kind(value)
                )));
            }
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(failure(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let findings = if checked { findings(&operations, body) } else { Vec::new() };
    let mut patched = live.clone();
    operations::apply(&mut patched, &operations).map_err(|_| not_applicable())?;
    Ok((patched, findings))
}

fn findings(operations: &[Value], body: &[u8]) -> Vec<String> {
    let unknown = operations.iter().enumerate().flat_map(|(at, operation)| {
        let members = operation.as_object().into_iter().flatten().map(|(name, _)| name);
        members
            .filter(|name| !MEMBERS.contains(&name.as_str()))
            .map(move |name| format!("unknown field {:?}", format!("[{at}].{name}")))
    });
    unknown.chain(typed::duplicates(body)).map(|finding| format!("json patch {finding}")).collect()
}
