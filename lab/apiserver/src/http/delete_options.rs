//! The options of a delete, from the query or the body.

use serde_json::Value;
use service_api::errors::FieldErrors;

use crate::decode::Media;
use crate::registry::error::ApiError;
use crate::registry::options::{DeleteOptions, Preconditions, Propagation};

use super::body;
use super::params::{Query, dry_run_faults, propagation_faults, refuse};

/// `DeleteOptions` as a client writes them.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawDelete {
    kind: Option<String>,
    grace_period_seconds: Option<i64>,
    preconditions: Option<RawPreconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPreconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl RawDelete {
    /// Those in a query.
    pub(crate) fn from_query(query: &Query<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            kind: None,
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            preconditions: None,
            orphan_dependents: query.flag("orphanDependents"),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            dry_run: Some(query.all("dryRun")),
        })
    }

    /// Those in a body.
    pub(crate) fn from_body(bytes: &[u8], media: Media) -> Result<Self, ApiError> {
        let value = body::value(bytes, media, "meta.k8s.io/v1", "DeleteOptions").map_err(|why| {
            let shown = String::from_utf8_lossy(bytes);
            ApiError::bad_request(format!("{why} ({})", shown.chars().take(64).collect::<String>()))
        })?;
        Self::from_value(value)
    }

    /// Those in a value: a body, or a part of one.
    pub(crate) fn from_value(value: Value) -> Result<Self, ApiError> {
        let raw: Self = match value {
            Value::Null => Ok(Self::default()),
            Value::Object(_) => serde_json::from_value(value).map_err(|error| error.to_string()),
            _ => Err("delete options have to be an object".to_owned()),
        }
        .map_err(ApiError::bad_request)?;
        match raw.kind.as_deref() {
            None | Some("" | "DeleteOptions") => Ok(raw),
            Some(other) => Err(ApiError::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: it is of kind {other}"
            ))),
        }
    }

    /// Checks them as a whole.
    pub(crate) fn check(self) -> Result<DeleteOptions, ApiError> {
        let mut faults = FieldErrors::new();
        propagation_faults(self.orphan_dependents, self.propagation_policy.as_deref(), &mut faults);
        let dry_run = self.dry_run.unwrap_or_default();
        dry_run_faults(&dry_run, &mut faults);
        refuse("DeleteOptions", faults)?;
        let orphan = self
            .orphan_dependents
            .map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
        let preconditions = self.preconditions.unwrap_or_default();
        Ok(DeleteOptions {
            grace_seconds: self.grace_period_seconds,
            preconditions: Preconditions {
                uid: preconditions.uid,
                resource_version: preconditions.resource_version,
            },
            propagation: self.propagation_policy.as_deref().and_then(Propagation::parse).or(orphan),
            waits: self.orphan_dependents == Some(false),
            dry_run: !dry_run.is_empty(),
        })
    }
}
