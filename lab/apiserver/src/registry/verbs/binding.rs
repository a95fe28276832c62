//! Binding a pod to a node: `POST …/pods/{name}/binding`, what a scheduler does.

use jiff::Timestamp;
use serde_json::{Value, json};
use service_api::errors::{self, FieldErrors};
use service_api::status;

use crate::registry::Target;
use crate::registry::error::ApiError;
use crate::registry::kinds::topology;
use crate::registry::object::{self, is_deleting, meta};
use crate::registry::options::WriteOptions;

use super::{Answer, Api, WriteOutcome};

/// Assigns the pod to the node that a `Binding` names.
///
/// # Errors
/// 404 when there is no such pod, 409 when it is bound or being deleted, 422 for a binding without a target.
pub fn bind(
    api: &Api,
    target: &Target,
    binding: &Value,
    options: &WriteOptions,
    now: Timestamp,
) -> Result<WriteOutcome, ApiError> {
    let info = api.info(target);
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut faults = FieldErrors::new();
    if !matches!(text("/target/kind"), "" | "Node") {
        faults.push(errors::not_supported("target.kind", text("/target/kind"), &["Node", "<empty>"]));
    }
    if text("/target/name").is_empty() {
        faults.push(errors::required("target.name", ""));
    }
    if !faults.is_empty() {
        return Err(status::invalid("", "Binding", meta(binding, "name"), faults).into());
    }
    let node = text("/target/name").to_owned();
    let uid = meta(binding, "uid");
    api.transact(options.dry_run, |tx| {
        let found = tx.get(target.id, &target.namespace, &target.name).cloned();
        let stored = found.ok_or_else(|| ApiError::not_found(info, &target.name))?;
        let mut pod = object::parse(&stored.body);
        let refuse = |why: String| {
            let conflict = ApiError::conflict(info, &target.name, &why);
            Err(conflict)
        };
        if !uid.is_empty() && uid != meta(&pod, "uid") {
            let found = meta(&pod, "uid");
            return refuse(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            ));
        }
        if is_deleting(&pod) {
            return refuse(format!("pod {} is being deleted, cannot be assigned to a host", target.name));
        }
        let bound = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        if !bound.is_empty() {
            return refuse(format!("pod {} is already assigned to node {bound:?}", target.name));
        }
        pod["spec"]["nodeName"] = json!(node);
        for part in ["annotations", "labels"] {
            let given = binding.get("metadata").and_then(|m| m.get(part)).and_then(Value::as_object);
            for (key, value) in given.into_iter().flatten() {
                pod["metadata"][part][key] = value.clone();
            }
        }
        topology::copy_labels(&mut pod, &node, tx, &api.registry);
        mark_scheduled(&mut pod, now);
        if !options.dry_run {
            tx.put(target.id, pod)?;
        }
        let mut done = status::success(status::removed("", "", "", ""));
        done.details = None;
        done.code = Some(201);
        Ok(WriteOutcome::created(Answer::Status(Box::new(done)), Vec::new()))
    })
}

/// Sets the condition `PodScheduled`.
fn mark_scheduled(pod: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": object::time_text(now),
    });
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(list) = conditions {
        match list.iter_mut().find(|known| known["type"] == "PodScheduled") {
            Some(known) if known["status"] == "True" => {}
            Some(known) => *known = condition,
            None => list.push(condition),
        }
    }
}
