//! Answers that say why there is no other.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::json;

/// An answer with a status and, as JSON, the reason.
pub(crate) fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": why}))).into_response()
}
