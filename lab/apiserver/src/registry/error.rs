//! What a refused request is answered with, below HTTP: a `metav1.Status` of a failure.
//!
//! The texts are those of `service_api::status`; errors that name a kind are made by `resource_info`. `http::errors` turns it into a response; it is
//! the only place that does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use service_api::errors::FieldErrors;
use service_api::status;

use crate::store::{ObjectError, WriteError};

/// A refused request. Boxed: the success path should not carry its size.
#[derive(Debug, thiserror::Error)]
#[error("{}", .status.message.as_deref().unwrap_or_default())]
pub struct ApiError {
    /// What the client is told.
    pub status: Box<Status>,
    /// Texts for `Warning` headers: what there was to say before the request was refused.
    pub warnings: Vec<String>,
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        Box::new(status).into()
    }
}

impl From<Box<Status>> for ApiError {
    fn from(status: Box<Status>) -> Self {
        Self { status, warnings: Vec::new() }
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> Self {
        Self::internal(&error.to_string())
    }
}

impl From<WriteError<ApiError>> for ApiError {
    fn from(error: WriteError<ApiError>) -> Self {
        match error {
            WriteError::Aborted(refused) => refused,
            WriteError::Storage(error) => status::store_unavailable(&error.to_string()).into(),
        }
    }
}

impl ApiError {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.status.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    /// The machine-readable reason; empty if there is none.
    pub fn reason(&self) -> &str {
        self.status.reason.as_deref().unwrap_or_default()
    }

    /// 422: the options of the request have faults.
    pub fn invalid_options(kind: &str, errors: impl Into<FieldErrors>) -> Self {
        status::invalid("meta.k8s.io", kind, "", errors).into()
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        status::bad_request(message).into()
    }

    /// 500 in upstream's form for a fault of the server.
    pub fn internal(message: &str) -> Self {
        status::internal_error(message).into()
    }
}
