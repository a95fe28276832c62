//! What a refused request is answered with, below HTTP: a `metav1.Status` of a failure.
//!
//! Owns the reasons, codes and message forms that do not depend on a kind. `http::errors` turns it into a response; it
//! is the only place that does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use service_api::errors::FieldError;

use super::entry::Entry;

/// A refused request. Boxed: the success path should not carry its size.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message.as_deref().unwrap_or_default())]
pub struct ApiError(pub Box<Status>);

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        Self(Box::new(status))
    }
}

impl ApiError {
    /// Any failure; `reason` empty leaves it out.
    pub fn new(code: i32, reason: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Status {
            code: Some(code),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            message: Some(message.into()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }))
    }

    fn about(mut self, name: &str, group: &str, kind: &str) -> Self {
        let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        self.0.details =
            Some(StatusDetails { name: text(name), group: text(group), kind: text(kind), ..StatusDetails::default() });
        self
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    /// The machine-readable reason; empty if there is none.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or_default()
    }

    /// 404: the object does not exist.
    pub fn not_found(entry: &Entry, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", entry.qualified_resource())).about(
            name,
            entry.group,
            entry.resource,
        )
    }

    /// 409: an object of the name exists.
    pub fn already_exists(entry: &Entry, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", entry.qualified_resource())).about(
            name,
            entry.group,
            entry.resource,
        )
    }

    /// 409: the object is another or newer one than the request was made for.
    pub fn conflict(entry: &Entry, name: &str, why: &str) -> Self {
        let resource = entry.qualified_resource();
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}")).about(
            name,
            entry.group,
            entry.resource,
        )
    }

    /// 409 as above, from below the registry, where upstream names the kind in place of the resource.
    pub fn precondition(entry: &Entry, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", entry.qualified_kind()),
        )
        .about(name, entry.group, entry.kind)
    }

    /// 403: a rule of the server forbids it.
    pub fn forbidden(entry: &Entry, name: &str, why: &str) -> Self {
        let resource = entry.qualified_resource();
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(name, entry.group, entry.resource)
    }

    /// 422: the object has faults.
    pub fn invalid(entry: &Entry, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind(entry.group, entry.kind, name, errors)
    }

    /// 422 for a kind that is in no table (options of a request).
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes = errors.iter().map(|error| StatusCause {
            field: Some(error.field.clone()),
            message: Some(error.body()),
            reason: Some(error.kind.reason().to_owned()),
        });
        let mut out =
            Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {all}")).about(name, group, kind);
        if let Some(details) = &mut out.0.details {
            details.causes = Some(causes.collect());
        }
        out
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500 in upstream's form for a fault of the server.
    pub fn internal(message: impl AsRef<str>) -> Self {
        let message = message.as_ref();
        let mut out = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        out.0.details = Some(StatusDetails {
            causes: Some(vec![StatusCause { message: Some(message.to_owned()), ..StatusCause::default() }]),
            ..StatusDetails::default()
        });
        out
    }

    /// 410: the resource version is too old to continue or watch from.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let mut out = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        out.0.details = Some(StatusDetails::default());
        out
    }

    /// 404 for a path without a resource behind it.
    pub fn no_resource() -> Self {
        let mut out = Self::new(404, "NotFound", "the server could not find the requested resource");
        out.0.details = Some(StatusDetails::default());
        out
    }
}
