//! The one place where a refused request becomes a response.
//!
//! Below HTTP an error is [`ApiError`], a `metav1.Status`; here it gets its code, `Content-Type`, `Retry-After` and the
//! form (JSON, YAML, indented) that the client asked for.

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::{Value, json};

use crate::registry::error::ApiError;

use super::negotiate::Rendering;
use super::{encode, warning};

/// The Status of an error as JSON, with the empty members that upstream prints (`metadata`, an empty `details`).
pub(crate) fn status_value(status: &Status) -> Value {
    let mut out = serde_json::to_value(status).unwrap_or_else(|_| json!({}));
    if let Some(map) = out.as_object_mut() {
        map.insert("metadata".to_owned(), json!({}));
        if let Some(continue_token) = status.metadata.continue_.as_deref() {
            map.insert("metadata".to_owned(), json!({ "continue": continue_token }));
        }
    }
    out
}

/// The response to a refused request.
pub(crate) fn respond(error: &ApiError, rendering: Rendering) -> Response<Body> {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = encode::value_text(&status_value(&error.status), rendering.format, rendering.pretty);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(rendering.format.content_type()));
    let retry = error.status.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = retry.filter(|seconds| *seconds > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    warning::append(headers, &error.warnings);
    response
}
