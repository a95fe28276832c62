//! Questions about the caller: `kubectl auth can-i` and `kubectl auth whoami`.
//!
//! There is one caller, who holds the token and may do everything; nothing is stored.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::registry::error::ApiError;

use super::body;

/// The user behind the token, as the server names it.
const USER: &str = "kubernetes-admin";

/// Answers a `SelfSubjectAccessReview`, `SelfSubjectRulesReview` or `SelfSubjectReview`: the question with its answer in `status`.
///
/// # Errors
/// 400 or 415 for a body that cannot be read.
pub(crate) fn answer(headers: &HeaderMap, bytes: &bytes::Bytes) -> Result<Value, ApiError> {
    let media = body::media(headers)?;
    let mut review = body::value(bytes, media, "", "").map_err(ApiError::bad_request)?;
    let status = match review.get("kind").and_then(Value::as_str) {
        Some("SelfSubjectAccessReview") => json!({ "allowed": true }),
        Some("SelfSubjectReview") => {
            json!({ "userInfo": { "username": USER, "groups": ["system:masters", "system:authenticated"] } })
        }
        Some("SelfSubjectRulesReview") => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        _ => return Err(ApiError::bad_request("the body is no review of the caller")),
    };
    review["status"] = status;
    Ok(review)
}
