//! What one ReplicaSet does: pods to make, pods to delete, and the status it reports. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

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

/// Compares a ReplicaSet with the pods it owns. `near`: the pods of the other ReplicaSets of its Deployment, which count
/// for how crowded a node is.
pub fn plan(set: &Value, pods: &[Value], near: &[Value]) -> Plan {
    let alive: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
    let deleting = !meta(set, "deletionTimestamp").is_empty();
    let wanted = wanted(set);
    let create = if deleting { 0 } else { wanted.saturating_sub(alive.len()) };
    let excess = if deleting { 0 } else { alive.len().saturating_sub(wanted) };
    let delete = if excess == 0 { Vec::new() } else { least_useful(&alive, near, excess) };
    Plan { create, delete, status: status(set, &alive) }
}

/// Has the ReplicaSet more pods than it wants?
pub fn is_too_large(set: &Value, pods: &[Value]) -> bool {
    pods.iter().filter(|pod| is_active(pod)).count() > wanted(set)
}

fn wanted(set: &Value) -> usize {
    usize::try_from(number(set, "/spec/replicas")).unwrap_or_default()
}

/// The names of the `count` pods that are missed least, in the order of upstream's ReplicaSet controller: not bound, not
/// running, not ready, cheap to delete, on a crowded node, ready since not long, restarted often, young.
fn least_useful(alive: &[&Value], near: &[Value], count: usize) -> Vec<String> {
    let mut crowd: HashMap<&str, usize> = HashMap::new();
    for pod in alive.iter().copied().chain(near.iter().filter(|pod| is_active(pod))) {
        *crowd.entry(node(pod)).or_default() += 1;
    }
    let phase = |pod: &Value| match pod.pointer("/status/phase").and_then(Value::as_str) {
        Some("Running") => 2,
        Some("Unknown") => 1,
        _ => 0,
    };
    let mut sorted: Vec<&Value> = alive.to_vec();
    sorted.sort_by_cached_key(|pod| {
        let use_now = (!node(pod).is_empty(), phase(pod), is_ready(pod), deletion_cost(pod));
        let crowded = Reverse(crowd.get(node(pod)).copied().unwrap_or_default());
        let young = Reverse((ready_since(pod).to_owned(), restarts(pod)));
        let born = Reverse((meta(pod, "creationTimestamp").to_owned(), meta(pod, "name").to_owned()));
        (use_now, crowded, young, born)
    });
    sorted.iter().take(count).map(|pod| meta(pod, "name").to_owned()).collect()
}

/// What `controller.kubernetes.io/pod-deletion-cost` says; 0 without it.
fn deletion_cost(pod: &Value) -> i64 {
    let annotations = pod.pointer("/metadata/annotations");
    let text = annotations.and_then(|map| map.get("controller.kubernetes.io/pod-deletion-cost"));
    text.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// How often the most restarted container of the pod was started again.
fn restarts(pod: &Value) -> i64 {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    statuses.into_iter().flatten().map(|status| number(status, "/restartCount")).max().unwrap_or_default()
}

fn status(set: &Value, alive: &[&Value]) -> Value {
    let ready = alive.iter().filter(|pod| is_ready(pod)).count();
    let template = set.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let labelled = |pod: &&&Value| {
        let labels = pod.pointer("/metadata/labels");
        template
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let mut out = json!({"replicas": alive.len(), "observedGeneration": set.pointer("/metadata/generation")});
    for (field, count) in [
        ("fullyLabeledReplicas", alive.iter().filter(labelled).count()),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
    ] {
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

/// Does the pod count: neither ended nor being deleted?
pub(super) fn is_active(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    meta(pod, "deletionTimestamp").is_empty() && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn is_ready(pod: &Value) -> bool {
    ready_condition(pod).is_some()
}

/// Since when the pod is ready; empty when it is not.
fn ready_since(pod: &Value) -> &str {
    ready_condition(pod).and_then(|condition| condition["lastTransitionTime"].as_str()).unwrap_or_default()
}

fn node(pod: &Value) -> &str {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::claims::controller;
    use super::*;

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"name": "web-abc", "uid": "rs", "generation": 3},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": []}}}
        })
    }

    fn pod_of(name: &str, ready: bool, node: &str) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"a": "1"}, "creationTimestamp": format!("2026-01-01T00:00:0{}Z", name.len())},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}
        })
    }

    #[rstest]
    #[case(3, 2, &[])]
    #[case(1, 0, &[])]
    #[case(0, 0, &["bb"])]
    fn counts(#[case] replicas: i64, #[case] create: usize, #[case] delete: &[&str]) {
        let plan = plan(&set(replicas), &[pod_of("bb", true, "n1")], &[]);
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
        assert_eq!(plan(&set(1), &pods, &[]).delete, ["dddd", "ccc", "bb"]);
        assert_eq!(
            plan(&set(4), &pods, &[]).status,
            json!({"replicas": 4, "fullyLabeledReplicas": 4, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 3})
        );
    }

    /// A ready pod, made and ready in that second.
    fn ready_at(name: &str, node: &str, second: i64) -> Value {
        let mut pod = pod_of(name, true, node);
        let time = json!(format!("2026-01-01T00:00:0{second}Z"));
        pod["metadata"]["creationTimestamp"] = time.clone();
        pod["status"]["conditions"][0]["lastTransitionTime"] = time;
        pod
    }

    #[test]
    fn of_ready_pods_upstreams_order_decides() {
        let mut cheap = ready_at("cheap", "n1", 1);
        cheap["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "-5"});
        let mut restarted = ready_at("restarted", "n2", 3);
        restarted["status"]["containerStatuses"] = json!([{"restartCount": 2}]);
        let mut pending = ready_at("pending", "n2", 1);
        pending["status"]["phase"] = json!("Pending");
        let pods = [
            ready_at("old", "n2", 1),
            ready_at("new", "n2", 4),
            restarted,
            ready_at("calm", "n2", 3),
            ready_at("crowded", "n3", 1),
            cheap,
            pending,
        ];
        // Most other pods of the Deployment are on n3.
        let near = [1, 2, 3, 4, 5, 6].map(|at| ready_at("near", if at == 4 { "n1" } else { "n3" }, at));
        assert_eq!(
            plan(&set(0), &pods, &near).delete,
            ["pending", "cheap", "crowded", "new", "restarted", "calm", "old"]
        );
    }

    #[test]
    fn pods_that_end_are_replaced() {
        let mut ended = pod_of("a", false, "n1");
        ended["status"]["phase"] = json!("Failed");
        let mut going = pod_of("b", true, "n1");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(plan(&set(1), &[ended, going], &[]).create, 1);
    }

    #[test]
    fn a_made_pod_is_owned() {
        let pod = pod(&set(1));
        assert_eq!(pod["metadata"]["generateName"], json!("web-abc-"));
        assert_eq!(controller(&pod), Some("rs"));
    }
}
