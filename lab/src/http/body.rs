//! Request bodies: read up to the limit, with the media type checked for the verb.

use std::borrow::Cow;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use service_api::status;

use crate::decode::Media;
use crate::patch::PatchForm;
use crate::protobuf;
use crate::registry::error::ApiError;

use super::negotiate::media_type;

/// The largest body that is read, in bytes.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// JSON, merge or strategic merge patch.
    Change(PatchForm),
    /// Server-side apply.
    Apply,
}

/// Reads a whole body.
///
/// # Errors
/// 413 beyond [`LIMIT`], 400 when the client breaks off.
pub(crate) async fn read(body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(status::request_entity_too_large(LIMIT).into()),
        Err(error) => Err(ApiError::bad_request(format!("unable to read the request body: {error}"))),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    media_type(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

/// The object in a POST, PUT or DELETE as text, and how it is written. Protobuf is turned into JSON.
///
/// # Errors
/// 415 for another media type, 400 for protobuf that cannot be read.
pub(crate) fn object<'a>(headers: &HeaderMap, bytes: &'a Bytes) -> Result<(Cow<'a, [u8]>, Media), ApiError> {
    match content_type(headers) {
        "" | "application/json" | "*/*" => Ok((Cow::Borrowed(bytes), Media::Json)),
        "application/yaml" => Ok((Cow::Borrowed(bytes), Media::Yaml)),
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::to_json(bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
            Ok((Cow::Owned(serde_json::to_vec(&value).unwrap_or_default()), Media::Json))
        }
        _ => Err(status::unsupported_media_type(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ])
        .into()),
    }
}

/// The kind of a PATCH.
pub(crate) fn patch_kind(headers: &HeaderMap) -> Result<PatchKind, ApiError> {
    Ok(match content_type(headers) {
        "application/json-patch+json" => PatchKind::Change(PatchForm::Json),
        "application/merge-patch+json" => PatchKind::Change(PatchForm::Merge),
        "application/strategic-merge-patch+json" => PatchKind::Change(PatchForm::Strategic),
        "application/apply-patch+yaml" => PatchKind::Apply,
        _ => return Err(status::unsupported_patch_type().into()),
    })
}
