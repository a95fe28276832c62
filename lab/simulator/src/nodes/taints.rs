//! Taints and tolerations, and the taints that a node's state calls for. Pure.
//!
//! Source: the API reference of Node and Pod v1, "Taints and Tolerations" and "Taint based evictions" of the
//! Kubernetes documentation.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Pods are not placed on the node.
pub(super) const NO_SCHEDULE: &str = "NoSchedule";
/// Pods that are on the node go.
pub(super) const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// An administrator's word that the node is off and its pods can be given up.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Conditions of a node that keep pods away: type, status, taint.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// What a node's condition `Ready` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// `True`.
    Ready,
    /// `False`: its kubelet speaks and says so.
    NotReady,
    /// `Unknown`: nobody hears of it.
    Unknown,
    /// It has no such condition yet.
    Unsaid,
}

/// Reads a node's condition `Ready`.
pub(super) fn readiness(node: &Value) -> Readiness {
    match condition(node, "Ready") {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        Some(_) => Readiness::Unknown,
        None => Readiness::Unsaid,
    }
}

fn condition<'a>(node: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// The taints of a node.
pub(super) fn of(node: &Value) -> &[Value] {
    node.pointer("/spec/taints").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Was the node said to be out of service, and is not ready?
pub(super) fn is_given_up(node: &Value) -> bool {
    readiness(node) != Readiness::Ready && of(node).iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// The taints that the node should have by its state: those it has, with what the state calls for added and what it no
/// longer calls for taken away. `None`: it has them.
pub(super) fn corrected(node: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, status, key) in CONDITIONS {
        if condition(node, kind) == Some(status) {
            wanted.push((key, NO_SCHEDULE));
            if kind == "Ready" {
                wanted.push((key, NO_EXECUTE));
            }
        }
    }
    if node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let own = |taint: &Value| {
        taint["key"] == UNSCHEDULABLE || CONDITIONS.iter().any(|(_, _, key)| taint["key"] == *key)
    };
    let is = |taint: &Value, (key, effect): (&str, &str)| taint["key"] == key && taint["effect"] == effect;
    // A node that has not said whether it is ready is left as whoever made it left it.
    let unsaid = readiness(node) == Readiness::Unsaid;
    let mut taints: Vec<Value> = of(node)
        .iter()
        .filter(|taint| {
            let kept = unsaid && (taint["key"] == NOT_READY || taint["key"] == UNREACHABLE);
            kept || !own(taint) || wanted.iter().any(|wanted| is(taint, *wanted))
        })
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, (key, effect))) {
            let mut taint = json!({"key": key, "effect": effect});
            if effect == NO_EXECUTE {
                taint["timeAdded"] = json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            }
            taints.push(taint);
        }
    }
    (taints != of(node)).then_some(taints)
}

/// How long a pod stands a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stay {
    /// For so many seconds.
    Seconds(i64),
    /// For ever.
    ForEver,
}

/// How long the pod's tolerations let it stand the taint; `None`: not at all.
fn tolerated(pod: &Value, taint: &Value) -> Option<Stay> {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    let fitting = tolerations.into_iter().flatten().filter(|toleration| stands(toleration, taint));
    let stay = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    // Of several that fit, the shortest counts.
    fitting.map(|toleration| stay(toleration).map_or(Stay::ForEver, Stay::Seconds)).min()
}

fn stands(toleration: &Value, taint: &Value) -> bool {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
    if !effect.is_empty() && effect != text(taint, "effect") || !key.is_empty() && key != text(taint, "key") {
        return false;
    }
    match text(toleration, "operator").as_str() {
        "Exists" => true,
        "" | "Equal" => text(toleration, "value") == text(taint, "value"),
        _ => false,
    }
}

/// The first taint that keeps the pod off the node, those included that the node should have and does not have yet.
pub(super) fn repels(node: &Value, pod: &Value) -> Option<Value> {
    let keeps_off = |taint: &Value| taint["effect"] == NO_SCHEDULE || taint["effect"] == NO_EXECUTE;
    let repelling = |taint: &&Value| keeps_off(taint) && tolerated(pod, taint).is_none();
    match corrected(node, Timestamp::UNIX_EPOCH) {
        Some(taints) => taints.iter().find(repelling).cloned(),
        None => of(node).iter().find(repelling).cloned(),
    }
}

/// When the pod has to leave the node because of its taints. `seen`: since when a taint is there that does not say so.
pub(super) fn evicted_at(node: &Value, pod: &Value, seen: Timestamp) -> Option<Timestamp> {
    let drives_out = |taint: &&Value| taint["effect"] == NO_EXECUTE;
    of(node)
        .iter()
        .filter(drives_out)
        .filter_map(|taint| {
            let added = taint["timeAdded"].as_str().and_then(|time| time.parse().ok()).unwrap_or(seen);
            match tolerated(pod, taint) {
                None => Some(added),
                Some(Stay::ForEver) => None,
                Some(Stay::Seconds(seconds)) => {
                    let wait = SignedDuration::from_secs(seconds.max(0));
                    Some(added.saturating_add(wait).unwrap_or(Timestamp::MAX))
                }
            }
        })
        .min()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(ready: &str, taints: &Value) -> Value {
        json!({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn shown(taints: &[Value]) -> Vec<String> {
        taints
            .iter()
            .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap()))
            .collect()
    }

    #[rstest]
    #[case("True", json!([]), None)]
    #[case("Unknown", json!([]), Some(vec!["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]))]
    #[case("False", json!([{"key": "mine", "effect": "NoExecute"}]),
        Some(vec!["mine:NoExecute", "node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]))]
    #[case("True", json!([{"key": "mine", "effect": "NoSchedule"}, {"key": UNREACHABLE, "effect": "NoExecute"}]),
        Some(vec!["mine:NoSchedule"]))]
    fn taints_follow_the_conditions(
        #[case] ready: &str,
        #[case] taints: Value,
        #[case] corrected_to: Option<Vec<&str>>,
    ) {
        let taints = corrected(&node(ready, &taints), Timestamp::UNIX_EPOCH);
        assert_eq!(
            taints.as_deref().map(shown),
            corrected_to.map(|all| all.iter().map(|t| (*t).to_owned()).collect())
        );
    }

    #[test]
    fn a_cordoned_node_is_tainted_and_a_silent_one_is_left_alone() {
        let mut cordoned = node("True", &json!([]));
        cordoned["spec"]["unschedulable"] = json!(true);
        let taints = corrected(&cordoned, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(shown(&taints), ["node.kubernetes.io/unschedulable:NoSchedule"]);
        cordoned["spec"] = json!({"unschedulable": false, "taints": taints});
        assert_eq!(corrected(&cordoned, Timestamp::UNIX_EPOCH), Some(Vec::new()));
        let silent = json!({"spec": {"taints": [{"key": NOT_READY, "effect": NO_SCHEDULE}]}});
        assert_eq!(corrected(&silent, Timestamp::UNIX_EPOCH), None);
    }

    #[rstest]
    #[case::default(json!([{"key": UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 300}]), Some(300))]
    #[case::none(json!([]), Some(0))]
    #[case::for_ever(json!([{"operator": "Exists"}]), None)]
    #[case::the_shortest(json!([{"operator": "Exists"}, {"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 10}]), Some(10))]
    #[case::other_value(json!([{"key": UNREACHABLE, "value": "x"}]), Some(0))]
    fn tolerations_delay_an_eviction(#[case] tolerations: Value, #[case] seconds: Option<i64>) {
        let lost = node(
            "Unknown",
            &json!([{"key": UNREACHABLE, "effect": NO_EXECUTE, "timeAdded": "1970-01-01T00:01:00Z"}]),
        );
        let pod = json!({"spec": {"tolerations": tolerations}});
        let at = evicted_at(&lost, &pod, Timestamp::UNIX_EPOCH);
        assert_eq!(at.map(Timestamp::as_second), seconds.map(|seconds| 60 + seconds));
    }

    #[test]
    fn a_taint_without_a_time_counts_from_when_it_was_seen() {
        let tainted = node("True", &json!([{"key": "mine", "value": "v", "effect": NO_EXECUTE}]));
        let pod = json!({"spec": {"tolerations": [{"key": "mine", "value": "v", "tolerationSeconds": 5}]}});
        let seen = Timestamp::from_second(100).unwrap();
        assert_eq!(evicted_at(&tainted, &pod, seen).map(Timestamp::as_second), Some(105));
        assert_eq!(repels(&tainted, &pod), None);
        assert_eq!(repels(&tainted, &json!({})), Some(tainted["spec"]["taints"][0].clone()));
        // Its taint comes a moment after the condition.
        assert_eq!(repels(&node("Unknown", &json!([])), &json!({})).unwrap()["key"], json!(UNREACHABLE));
    }
}
