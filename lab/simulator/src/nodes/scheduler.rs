//! The trivial scheduler: unbound pods go round the ready nodes that their node selector allows.
//!
//! It looks at no resources, taints or affinities.

use serde_json::Value;

/// The node for a pod: the first that will do, from `turn` on. `nodes` are Node objects in a fixed order.
pub(super) fn choose<'a>(pod: &Value, nodes: &'a [Value], turn: usize) -> Option<&'a str> {
    let count = nodes.len();
    (0..count).map(|step| &nodes[(turn + step) % count]).find(|node| fits(pod, node)).and_then(name)
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

fn name(node: &Value) -> Option<&str> {
    node.pointer("/metadata/name")?.as_str()
}

fn fits(pod: &Value, node: &Value) -> bool {
    let cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str);
        text("type") == Some("Ready") && text("status") == Some("True")
    });
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let labels = node.pointer("/metadata/labels");
    let matches = wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    ready && !cordoned && matches
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"zone": zone}}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        })
    }

    #[test]
    fn pods_go_round() {
        let mut nodes = [node("n1", "a"), node("n2", "b"), node("n3", "a")];
        let pod = json!({"spec": {}});
        let chosen: Vec<_> = (0..4).map(|turn| choose(&pod, &nodes, turn).unwrap()).collect();
        assert_eq!(chosen, ["n1", "n2", "n3", "n1"]);
        let picky = json!({"spec": {"nodeSelector": {"zone": "b"}}});
        assert_eq!(choose(&picky, &nodes, 2), Some("n2"));
        nodes[1]["spec"]["unschedulable"] = json!(true);
        assert_eq!(choose(&picky, &nodes, 0), None);
        assert_eq!(choose(&pod, &[], 0), None);
    }

    #[test]
    fn only_unbound_pods_wait() {
        assert!(waits(&json!({"spec": {"schedulerName": "default-scheduler"}})));
        assert!(!waits(&json!({"spec": {"nodeName": "n1"}})));
        assert!(!waits(&json!({"spec": {"schedulerName": "mine"}})));
        assert!(!waits(&json!({"spec": {"schedulingGates": [{"name": "g"}]}})));
    }
}
