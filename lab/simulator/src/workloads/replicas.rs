//! What one ReplicaSet does: pods to make, pods to delete, and the status it reports. Pure.

use serde_json::{Value, json};

use crate::registry::object::meta;

/// What is to be done for a ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many pods to make.
    pub create: usize,
    /// Names of pods to delete.
    pub delete: Vec<String>,
    /// The status to report.
    pub status: Value,
}

/// Compares a ReplicaSet with the pods it owns.
pub fn plan(set: &Value, pods: &[Value]) -> Plan {
    let mut alive: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let deleting = !meta(set, "deletionTimestamp").is_empty();
    let wanted = usize::try_from(number(set, "/spec/replicas")).unwrap_or_default();
    let create = if deleting { 0 } else { wanted.saturating_sub(alive.len()) };
    let excess = if deleting { 0 } else { alive.len().saturating_sub(wanted) };
    // The least useful ones go first: not scheduled, not ready, then the youngest.
    alive.sort_by_key(|pod| (has_node(pod), is_ready(pod)));
    alive.sort_by(|a, b| {
        (has_node(a), is_ready(a)).cmp(&(has_node(b), is_ready(b))).then_with(|| {
            meta(b, "creationTimestamp")
                .cmp(meta(a, "creationTimestamp"))
                .then(meta(b, "name").cmp(meta(a, "name")))
        })
    });
    let delete = alive.iter().take(excess).map(|pod| meta(pod, "name").to_owned()).collect();
    Plan { create, delete, status: status(set, &alive) }
}

fn status(set: &Value, alive: &[&Value]) -> Value {
    let ready = alive.iter().filter(|pod| is_ready(pod)).count();
    let mut out = json!({"replicas": alive.len(), "observedGeneration": set.pointer("/metadata/generation")});
    for (field, count) in
        [("fullyLabeledReplicas", alive.len()), ("readyReplicas", ready), ("availableReplicas", ready)]
    {
        if count > 0 {
            out[field] = json!(count);
        }
    }
    out
}

/// The pod that a ReplicaSet makes.
pub fn pod(set: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["labels", "annotations"] {
        if let Some(map) =
            set.pointer(&format!("/spec/template/metadata/{field}")).filter(|map| !map.is_null())
        {
            metadata[field] = map.clone();
        }
    }
    metadata["generateName"] = json!(format!("{}-", meta(set, "name")));
    metadata["ownerReferences"] = json!([owner(set, "ReplicaSet")]);
    json!({"metadata": metadata, "spec": set.pointer("/spec/template/spec")})
}

/// A controlling owner reference to an object of `apps/v1`.
pub(super) fn owner(object: &Value, kind: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "name": meta(object, "name"), "uid": meta(object, "uid"),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Is `object` controlled by the object with this uid?
pub(super) fn is_owned_by(object: &Value, uid: &str) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references
        .into_iter()
        .flatten()
        .any(|reference| reference["uid"] == uid && reference["controller"] == true)
}

fn is_active(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    meta(pod, "deletionTimestamp").is_empty() && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn has_node(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"name": "web-abc", "uid": "rs", "generation": 3},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": []}}}
        })
    }

    fn pod_of(name: &str, ready: bool, node: &str) -> Value {
        json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:0{}Z", name.len())},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}
        })
    }

    #[rstest]
    #[case(3, 2, &[])]
    #[case(1, 0, &[])]
    #[case(0, 0, &["bb"])]
    fn counts(#[case] replicas: i64, #[case] create: usize, #[case] delete: &[&str]) {
        let plan = plan(&set(replicas), &[pod_of("bb", true, "n1")]);
        assert_eq!(
            (plan.create, plan.delete),
            (create, delete.iter().map(|name| (*name).to_owned()).collect())
        );
    }

    #[test]
    fn the_least_useful_pods_go_first() {
        let pods = [
            pod_of("a", true, "n1"),
            pod_of("bb", true, "n1"),
            pod_of("ccc", false, "n1"),
            pod_of("dddd", false, ""),
        ];
        assert_eq!(plan(&set(1), &pods).delete, ["dddd", "ccc", "bb"]);
        assert_eq!(
            plan(&set(4), &pods).status,
            json!({"replicas": 4, "fullyLabeledReplicas": 4, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 3})
        );
    }

    #[test]
    fn pods_that_end_are_replaced() {
        let mut ended = pod_of("a", false, "n1");
        ended["status"]["phase"] = json!("Failed");
        let mut going = pod_of("b", true, "n1");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(plan(&set(1), &[ended, going]).create, 1);
    }

    #[test]
    fn a_made_pod_is_owned() {
        let pod = pod(&set(1));
        assert_eq!(pod["metadata"]["generateName"], json!("web-abc-"));
        assert!(is_owned_by(&pod, "rs"));
        assert!(!is_owned_by(&pod, "other"));
    }
}
