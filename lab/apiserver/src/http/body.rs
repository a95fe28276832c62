//! Request bodies: read up to the limit, with the media type checked for the verb.

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use service_api::status;

use crate::decode::{self, Media};
use crate::patch::PatchForm;
use crate::protobuf::{self, Unreadable};
use crate::registry::error::ApiError;

use super::negotiate::media_type;

/// The largest body that is read, in bytes.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// How much of a body beyond [`LIMIT`] is taken in before the answer, in bytes.
const PASSED_OVER: usize = 64 * 1024 * 1024;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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
pub(crate) async fn read(mut body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(&mut body, LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            pass_over(body).await;
            Err(status::request_entity_too_large(LIMIT).into())
        }
        Err(error) => Err(ApiError::bad_request(format!("unable to read the request body: {error}"))),
    }
}

/// Takes in what is left of a body and forgets it: a client that still sends when the answer comes and the stream is
/// closed does not get to see the answer.
async fn pass_over(mut body: Body) {
    let mut left = PASSED_OVER;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = rest;
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    media_type(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

/// How the body of a POST, PUT or DELETE is written.
///
/// # Errors
/// 415 for another media type.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, ApiError> {
    match content_type(headers).to_ascii_lowercase().as_str() {
        "" | "application/json" | "*/*" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        PROTOBUF => Ok(Media::Protobuf),
        _ => Err(status::unsupported_media_type(&["application/json", "application/yaml", PROTOBUF]).into()),
    }
}

/// A body whose fields the caller looks at itself. If it is protobuf and does not say what it is, it is of that kind.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn value(bytes: &[u8], media: Media, api_version: &str, kind: &str) -> Result<Value, String> {
    let json = |text: &[u8]| {
        let unread =
            |error: &dyn std::fmt::Display| format!("couldn't get version/kind; json parse error: {error}");
        decode::scan::check(text).map_err(|error| unread(&error))?;
        serde_json::from_slice(text).map_err(|error| unread(&error))
    };
    match media {
        Media::Json => json(bytes),
        Media::Yaml => json(&decode::yaml_to_json(bytes)?.0),
        Media::Protobuf => {
            protobuf::to_json(bytes, api_version, kind).map_err(|unreadable| match unreadable {
                Unreadable::Envelope(fault) | Unreadable::Object { fault, .. } => fault.to_string(),
            })
        }
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
