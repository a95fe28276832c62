//! AdmissionReviews (`admission.k8s.io/v1`): what the API server asks, and the answer.
//!
//! Owns the wire form. It decides nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Service;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";

/// A body that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// No JSON, or not what it should be.
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error(
        "the body is of apiVersion {0:?}; this webhook takes {API_VERSION} (admissionReviewVersions: [\"v1\"])"
    )]
    Version(String),
    /// An answer, or nothing.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// What the API server asks.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Request {
    pub(super) uid: String,
    pub(super) resource: Resource,
    pub(super) sub_resource: String,
    pub(super) operation: String,
    pub(super) dry_run: bool,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) object: Value,
    pub(super) old_object: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resource {
    group: String,
    resource: String,
}

/// A Service as it shall be, and as it was before an update.
#[derive(Debug)]
pub(super) struct Services {
    pub(super) new: Service,
    pub(super) old: Option<Service>,
}

impl Request {
    /// The Service that is created or updated; `None` for everything else, and for what cannot be read: that is for the
    /// API server to refuse.
    pub(super) fn services(&self) -> Option<Services> {
        let is_service = self.resource.group.is_empty()
            && self.resource.resource == "services"
            && self.sub_resource.is_empty();
        if !is_service {
            return None;
        }
        let old = match self.operation.as_str() {
            "CREATE" => None,
            "UPDATE" => Some(Service::deserialize(&self.old_object).ok()?),
            _ => return None,
        };
        let mut new = Service::deserialize(&self.object).ok()?;
        // With generateName the name is not there yet, and the namespace may stand in the request alone.
        new.metadata.namespace.get_or_insert_with(|| self.namespace.clone());
        if !self.name.is_empty() {
            new.metadata.name.get_or_insert_with(|| self.name.clone());
        }
        Some(Services { new, old })
    }
}

/// One operation of a JSON patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Operation {
    op: &'static str,
    path: String,
    value: Value,
}

impl Operation {
    /// Sets a field, whether it is there or not.
    pub(super) fn set(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { op: "add", path: path.into(), value: value.into() }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Nothing to say.
    LeaveAlone,
    /// These fields.
    Set(Vec<Operation>),
    /// No, and why.
    Refuse(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    api_version: String,
    request: Option<Request>,
}

#[derive(Debug)]
pub(super) struct Review {
    pub(super) request: Request,
}

impl Review {
    pub(super) fn read(body: &[u8]) -> Result<Self, Malformed> {
        let wire: Wire = serde_json::from_slice(body)?;
        if wire.api_version != API_VERSION {
            return Err(Malformed::Version(wire.api_version));
        }
        Ok(Self { request: wire.request.ok_or(Malformed::NoRequest)? })
    }

    pub(super) fn answer(&self, verdict: &Verdict) -> Vec<u8> {
        let mut response =
            json!({"uid": self.request.uid, "allowed": !matches!(verdict, Verdict::Refuse(_))});
        match verdict {
            Verdict::LeaveAlone => {}
            Verdict::Set(operations) => {
                let patch = serde_json::to_vec(operations).unwrap_or_default();
                response["patchType"] = "JSONPatch".into();
                response["patch"] = STANDARD.encode(patch).into();
            }
            Verdict::Refuse(message) => {
                response["status"] =
                    json!({"status": "Failure", "message": message, "reason": "Forbidden", "code": 403});
            }
        }
        json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
            .to_string()
            .into_bytes()
    }
}
