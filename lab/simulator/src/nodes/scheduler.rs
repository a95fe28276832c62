//! The trivial scheduler: which node an unbound pod goes to, and why it goes to none. Pure.
//!
//! Pods go round the nodes that are ready, schedulable, not full, allowed by the pod's node selector and the node affinity that it
//! requires, and whose taints it tolerates. It looks at no other resources, no preferences, and no affinities of pods.

use std::collections::BTreeMap;

use serde_json::Value;

use super::taints::{self, Readiness};

/// A node that exists, as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// The number of its node; the round goes by it, so that it does not matter which nodes are there.
    pub number: usize,
    /// The Node object.
    pub node: &'a Value,
    /// How many pods are on it that have not ended.
    pub pods: usize,
}

/// Why a pod stays unbound: as upstream says it in the Event `FailedScheduling`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unschedulable(pub String);

/// The number of the node for a pod: the next after `last` in the round that will do. Candidates are in the order of
/// their numbers.
///
/// # Errors
/// When none will do: how many nodes there are, and why each is none.
pub(super) fn choose(
    pod: &Value,
    candidates: &[Candidate<'_>],
    last: Option<usize>,
) -> Result<usize, Unschedulable> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let split = candidates.partition_point(|candidate| last.is_some_and(|last| candidate.number <= last));
    let (before, after) = candidates.split_at(split);
    for candidate in after.iter().chain(before) {
        match obstacle(pod, candidate) {
            None => return Ok(candidate.number),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    if candidates.is_empty() {
        return Err(Unschedulable("no nodes available to schedule pods".to_owned()));
    }
    let mut listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    listed.sort();
    Err(Unschedulable(format!("0/{} nodes are available: {}.", candidates.len(), listed.join(", "))))
}

/// Does the pod wait for this scheduler?
pub(super) fn waits(pod: &Value) -> bool {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let gated =
        pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    text("/spec/nodeName").is_empty()
        && matches!(text("/spec/schedulerName"), "" | "default-scheduler")
        && text("/metadata/deletionTimestamp").is_empty()
        && !gated
}

/// What keeps the pod off the node, in upstream's words.
fn obstacle(pod: &Value, candidate: &Candidate<'_>) -> Option<String> {
    let node = candidate.node;
    if let Some(taint) = taints::repels(node, pod) {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        if text("key") == taints::UNSCHEDULABLE {
            return Some("node(s) were unschedulable".to_owned());
        }
        return Some(format!("node(s) had untolerated taint {{{}: {}}}", text("key"), text("value")));
    }
    if matches!(taints::readiness(node), Readiness::Unsaid) {
        return Some("node(s) were not ready".to_owned());
    }
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let labels = node.pointer("/metadata/labels");
    let fits = wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    if !fits || !affine(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    (candidate.pods >= room(node)).then(|| "Too many pods".to_owned())
}

/// Is the node one of those that the pod requires by its node affinity? Of the terms one must hold, of a term all.
fn affine(pod: &Value, node: &Value) -> bool {
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let Some(terms) = pod.pointer(terms).and_then(Value::as_array) else { return true };
    terms.iter().any(|term| {
        let list = |name: &str| term.get(name).and_then(Value::as_array).into_iter().flatten();
        let labels = list("matchExpressions").map(|wanted| {
            let label = wanted["key"].as_str().and_then(|key| node.pointer("/metadata/labels")?.get(key));
            holds(wanted, label.and_then(Value::as_str))
        });
        // The name is the only field that can be asked for.
        let fields = list("matchFields")
            .map(|wanted| holds(wanted, node.pointer("/metadata/name").and_then(Value::as_str)));
        let all: Vec<bool> = labels.chain(fields).collect();
        !all.is_empty() && all.into_iter().all(|holds| holds)
    })
}

/// Does a value, or that there is none, satisfy a requirement of a node selector?
fn holds(wanted: &Value, value: Option<&str>) -> bool {
    let values: Vec<&str> =
        wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match wanted["operator"].as_str() {
        Some("In") => value.is_some_and(|value| values.contains(&value)),
        Some("NotIn") => value.is_none_or(|value| !values.contains(&value)),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => numbers().is_some_and(|(value, bound)| value > bound),
        Some("Lt") => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// How many pods the node takes: `status.allocatable.pods`.
fn room(node: &Value) -> usize {
    let room = node.pointer("/status/allocatable/pods");
    let text = room.and_then(Value::as_str).and_then(|text| text.parse().ok());
    text.or_else(|| room.and_then(Value::as_u64))
        .and_then(|room| usize::try_from(room).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"zone": zone}}, "spec": {},
            "status": {"allocatable": {"pods": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}
        })
    }

    fn with_numbers<'a>(nodes: &'a [Value], numbers: &[usize]) -> Vec<Candidate<'a>> {
        nodes.iter().zip(numbers).map(|(node, number)| Candidate { number: *number, node, pods: 0 }).collect()
    }

    fn round(pod: &Value, candidates: &[Candidate<'_>], mut last: Option<usize>, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                let number = choose(pod, candidates, last).unwrap();
                last = Some(number);
                number
            })
            .collect()
    }

    #[test]
    fn pods_go_round_the_nodes_that_are_there() {
        let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "a")];
        let pod = json!({"spec": {}});
        assert_eq!(round(&pod, &with_numbers(&nodes, &[0, 1, 2]), None, 4), [0, 1, 2, 0]);
        // Any one of them is gone, whichever came last.
        for (numbers, last) in [([1, 2], 0), ([1, 2], 2), ([0, 2], 1), ([0, 2], 2), ([0, 1], 2), ([0, 1], 0)]
        {
            let mut seen = round(&pod, &with_numbers(&nodes[..2], &numbers), Some(last), 2);
            seen.sort_unstable();
            assert_eq!(seen, numbers, "after {last}");
        }
    }

    #[test]
    fn selectors_cordons_taints_and_room_are_heeded() {
        let mut nodes = [node("n1", "a"), node("n2", "b"), node("n3", "a")];
        let picky = json!({"spec": {"nodeSelector": {"zone": "b"}}});
        assert_eq!(choose(&picky, &with_numbers(&nodes, &[0, 1, 2]), Some(1)), Ok(1));
        nodes[1]["spec"]["unschedulable"] = json!(true);
        let refused = choose(&picky, &with_numbers(&nodes, &[0, 1, 2]), None).unwrap_err();
        assert_eq!(
            refused.0,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
        );
        nodes[0]["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        let mut candidates = with_numbers(&nodes, &[0, 1, 2]);
        candidates[2].pods = 2;
        assert_eq!(
            choose(&json!({}), &candidates, None).unwrap_err().0,
            "0/3 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint {k: v}, 1 node(s) were unschedulable."
        );
        let tolerant = json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
        assert_eq!(choose(&tolerant, &candidates, None), Ok(0));
        assert_eq!(choose(&tolerant, &[], None).unwrap_err().0, "no nodes available to schedule pods");
    }

    #[rstest]
    #[case(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]), &[1])]
    #[case(json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]), &[2])]
    #[case(json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]), &[0, 1])]
    #[case(json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]), &[])]
    #[case(json!([{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]), &[0, 1, 2])]
    #[case(json!([{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}]), &[])]
    #[case(json!([{}]), &[])]
    fn a_required_node_affinity_is_heeded(#[case] terms: Value, #[case] fits: &[usize]) {
        let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "a")];
        let pod = json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        let candidates = with_numbers(&nodes, &[0, 1, 2]);
        let found: Vec<usize> =
            candidates.iter().filter(|of| obstacle(&pod, of).is_none()).map(|of| of.number).collect();
        assert_eq!(found, fits);
    }

    #[test]
    fn only_unbound_pods_wait() {
        assert!(waits(&json!({"spec": {"schedulerName": "default-scheduler"}})));
        assert!(!waits(&json!({"spec": {"nodeName": "n1"}})));
        assert!(!waits(&json!({"spec": {"schedulerName": "mine"}})));
        assert!(!waits(&json!({"spec": {"schedulingGates": [{"name": "g"}]}})));
    }
}
