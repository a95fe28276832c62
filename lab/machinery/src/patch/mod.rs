//! The four kinds of patch, each a pure function from the live object and the patch to the new object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde_json::Value;
use service_api::cut::cut_to;

use crate::decode::{self, Decoded, FieldValidation, failure, typed};
use crate::managed_fields::clone_unmanaged;
use crate::schema::KindSchema;

pub mod apply;
mod directive;
mod displaced;
mod go;
mod json;
mod merge;
mod operations;
mod ports;
mod strategic;
mod structured;

/// How a patch that is not an apply patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchForm {
    /// `application/json-patch+json` (RFC 6902).
    Json,
    /// `application/merge-patch+json` (RFC 7386).
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
}

/// Applies a patch to `live` and decodes the outcome as the kind.
///
/// The result is in its printed form but not defaulted; its `managedFields` are those of `live`, unless patched.
///
/// # Errors
/// The `Status` that the API server answers: 400 for a patch that cannot be read, 422 for one that cannot be applied or
/// whose outcome is no object of the kind.
pub fn patch(
    kind: &'static KindSchema,
    live: &Value,
    form: PatchForm,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Box<Status>> {
    // The managers may be the larger part of the object; a patch that does not name them cannot change them.
    let named = body.windows(MANAGED.len()).any(|window| window == MANAGED.as_bytes());
    if named {
        return patch_whole(kind, live, form, body, validation);
    }
    let mut decoded = patch_whole(kind, &clone_unmanaged(live), form, body, validation)?;
    if let (Some(managed), Some(metadata)) =
        (live["metadata"].get(MANAGED), decoded.value.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert(MANAGED.to_owned(), managed.clone());
    }
    Ok(decoded)
}

const MANAGED: &str = "managedFields";

fn patch_whole(
    kind: &'static KindSchema,
    live: &Value,
    form: PatchForm,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Box<Status>> {
    match form {
        PatchForm::Json => {
            let (patched, findings) = json::apply(live, body, validation)?;
            same_type(kind, &patched)?;
            outcome(kind, &patched, findings, validation, &ToString::to_string, ToString::to_string)
        }
        PatchForm::Merge => {
            let (patched, duplicates) = merge::apply(live, body, validation)?;
            same_type(kind, &patched)?;
            outcome(kind, &patched, duplicates, validation, &ToString::to_string, ToString::to_string)
        }
        PatchForm::Strategic => {
            let (patch, duplicates) = strategic::read(body, validation)?;
            let quoted = |_: &Value| go::text(&serde_json::from_slice(body).unwrap_or_default());
            let patched = strategic::apply(kind, live, patch)?;
            outcome(kind, &patched, duplicates, validation, &quoted, typed::TypeError::of_map)
        }
    }
}

/// Decodes the patched object. `quoted` says what an error shows of it, `words` how it names a value of a wrong type.
fn outcome(
    kind: &'static KindSchema,
    patched: &Value,
    mut strict: Vec<String>,
    validation: FieldValidation,
    quoted: &dyn Fn(&Value) -> String,
    words: fn(&typed::TypeError) -> String,
) -> Result<Decoded, Box<Status>> {
    let invalid = |fault: &str| invalid_patch(&quoted(patched), fault);
    let json = serde_json::to_vec(patched).map_err(|e| failure(500, "InternalError", e.to_string()))?;
    let (map, mut findings) = typed::read(kind.root(), &json).map_err(|e| invalid(&words(&e)))?;
    findings.strict.sort_unstable();
    strict.extend(findings.strict);
    match validation {
        FieldValidation::Strict if !strict.is_empty() => {
            return Err(invalid(&format!("strict decoding error: {}", strict.join(", "))));
        }
        FieldValidation::Ignore => strict.clear(),
        _ => {}
    }
    Ok(Decoded { value: decode::with_type_meta(kind, map), warnings: strict })
}

/// A patched object may lose its kind, and then is of the kind it was. A strategic merge patch is never asked: upstream
/// applies it to an object whose type is settled.
fn same_type(kind: &KindSchema, patched: &Value) -> Result<(), Box<Status>> {
    let text = |field: &str| patched.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, sent) = (text("apiVersion"), text("kind"));
    let fault = if !sent.is_empty() && sent != kind.kind {
        format!("unable to decode {api_version:?} {sent} into a {}", kind.kind)
    } else if api_version != kind.api_version {
        format!(
            "no kind {:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            kind.kind
        )
    } else {
        return Ok(());
    };
    Err(invalid_patch(&patched.to_string(), &fault))
}

/// Most bytes of an object that a message repeats.
const MAX_QUOTED: usize = 8 << 10;

/// 422: the patch leads to no object of the kind.
fn invalid_patch(quoted: &str, fault: &str) -> Box<Status> {
    let message = format!("Invalid value: {:?}: {}", cut_to(quoted, MAX_QUOTED), cut_to(fault, MAX_QUOTED));
    let mut status = failure(422, "Invalid", format!(" \"\" is invalid: patch: {message}"));
    status.details = Some(StatusDetails {
        causes: Some(vec![StatusCause {
            field: Some("patch".to_owned()),
            message: Some(message),
            reason: Some("FieldValueInvalid".to_owned()),
        }]),
        ..StatusDetails::default()
    });
    status
}

/// What is wrong with one field of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchFault {
    /// The field, such as `spec.ports`; may be empty.
    pub(crate) field: String,
    /// The machine-readable reason of a cause.
    pub(crate) reason: &'static str,
    /// What is wrong.
    pub(crate) words: String,
}

/// 422 in upstream's words for what upstream answers with 500, as if it were its own fault: the user can mend these
/// fields, and clients must not send the same again.
pub(crate) fn users_fault(
    kind: &KindSchema,
    name: &str,
    message: String,
    faults: Vec<PatchFault>,
) -> Box<Status> {
    let mut status = failure(422, "Invalid", message);
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let causes = faults.into_iter().map(|fault| StatusCause {
        field: filled(&fault.field),
        message: Some(fault.words),
        reason: Some(fault.reason.to_owned()),
    });
    status.details = Some(StatusDetails {
        causes: Some(causes.collect()),
        group: filled(kind.group),
        kind: filled(kind.kind),
        name: filled(name),
        ..StatusDetails::default()
    });
    status
}

/// 422 in upstream's form for a patch that does not apply: it does not say why.
fn not_applicable() -> Box<Status> {
    Box::new(service_api::status::rejected_request())
}

/// The word Go has for the kind of a JSON value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
