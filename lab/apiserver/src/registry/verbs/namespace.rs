//! May something be made in a namespace, and may a namespace go? Upstream's admission plugin `NamespaceLifecycle`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

use crate::registry::error::ApiError;
use crate::registry::object;
use crate::registry::resource_info::ResourceInfo;
use crate::registry::{Registry, Tx};

/// Namespaces that no request may delete.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// Checks that a namespaced object of that name may be made there.
///
/// # Errors
/// 404 when the namespace does not exist, 403 when it is being deleted.
pub(super) fn admit_create(
    registry: &Registry,
    tx: &Tx<'_>,
    info: &ResourceInfo,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    let Some(id) = registry.id("", "namespaces").filter(|_| info.namespaced()) else { return Ok(()) };
    let Some(stored) = tx.get(id, "", namespace) else {
        return Err(ApiError::not_found(registry.info(id), namespace));
    };
    // The phase is in no index; bodies of namespaces are small, and few are ever in this state.
    if !contains(&stored.body, b"\"Terminating\"") {
        return Ok(());
    }
    let body = object::parse(&stored.body);
    if body.pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(info, name, &why);
    if let Some(details) = &mut error.status.details {
        details.causes = Some(vec![StatusCause {
            reason: Some("NamespaceTerminating".to_owned()),
            message: Some(format!("namespace {namespace} is being terminated")),
            field: Some("metadata.namespace".to_owned()),
        }]);
    }
    Err(error)
}

/// Checks that a delete does not take a namespace the server needs.
///
/// # Errors
/// 403 for those.
pub(super) fn admit_delete(info: &ResourceInfo, name: &str) -> Result<(), ApiError> {
    if info.group.is_empty() && info.resource == "namespaces" && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(info, name, "this namespace may not be deleted"));
    }
    Ok(())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
