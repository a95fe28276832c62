//! Evicting a pod: `POST …/pods/{name}/eviction`, what `kubectl drain` does.
//!
//! There are no disruption budgets in the lab, so nothing holds an eviction up. Source: "API-initiated Eviction" of the
//! Kubernetes documentation.

use jiff::Timestamp;
use serde_json::{Value, json};
use service_api::status;

use crate::registry::Target;
use crate::registry::error::ApiError;
use crate::registry::object::{self, meta};
use crate::registry::options::{DeleteOptions, Preconditions};

use super::{Answer, Api, WriteOutcome, delete};

const CONDITION: &str = "DisruptionTarget";

/// Deletes the pod, its status saying why.
///
/// # Errors
/// 404 when there is no such pod, 409 when a precondition does not hold.
pub fn evict(
    api: &Api,
    target: &Target,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<WriteOutcome, ApiError> {
    let pod = Target::object(target.id, &target.namespace, &target.name);
    // Would it go at all? Then its status may say that it goes.
    let dry_run = DeleteOptions { dry_run: true, ..options.clone() };
    delete(api, &pod, &dry_run, now)?;
    if !options.dry_run {
        let uid = mark(api, &pod, now)?;
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        delete(api, &pod, &DeleteOptions { preconditions, ..options.clone() }, now)?;
    }
    let mut done = status::success(status::removed("", "", "", ""));
    done.details = None;
    done.code = Some(201);
    Ok(WriteOutcome::created(Answer::Status(Box::new(done)), Vec::new()))
}

/// Sets the condition, and says which pod that was.
fn mark(api: &Api, target: &Target, now: Timestamp) -> Result<String, ApiError> {
    api.transact(false, |tx| {
        let found = tx.get(target.id, &target.namespace, &target.name).cloned();
        let stored = found.ok_or_else(|| ApiError::not_found(api.info(target), &target.name))?;
        let mut pod = object::parse(&stored.body);
        let uid = meta(&pod, "uid").to_owned();
        if set_condition(&mut pod, now) {
            tx.put(target.id, pod)?;
        }
        Ok(uid)
    })
}

/// Adds or changes the condition; `false` if it is there.
fn set_condition(pod: &mut Value, now: Timestamp) -> bool {
    let condition = json!({
        "type": CONDITION, "status": "True", "lastProbeTime": null, "lastTransitionTime": object::time_text(now),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return false };
    match list.iter_mut().find(|known| known["type"] == CONDITION) {
        Some(known) if known["status"] == "True" && known["reason"] == condition["reason"] => return false,
        Some(known) => *known = condition,
        None => list.push(condition),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_set_once() {
        let mut pod = json!({"status": {"phase": "Running"}});
        assert!(set_condition(&mut pod, Timestamp::UNIX_EPOCH));
        let set = pod["status"]["conditions"].clone();
        assert_eq!(set[0]["reason"], json!("EvictionByEvictionAPI"));
        assert!(!set_condition(&mut pod, Timestamp::UNIX_EPOCH));
        assert_eq!(pod["status"]["conditions"], set);
    }
}
