//! The labels that tell where a pod's node is, copied to the pod: upstream's admission plugin `PodTopologyLabels`.

use serde_json::Value;

use super::fields::object_at;
use crate::registry::{Registry, Tx};

/// Labels of a node that its pods have too.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Gives a pod that goes to `node` the node's topology labels, whatever it had before. A node that does not exist has
/// none.
pub(in crate::registry) fn copy_labels(pod: &mut Value, node: &str, tx: &Tx<'_>, registry: &Registry) {
    let Some(id) = registry.id("", "nodes") else { return };
    let Some(node) = tx.get(id, "", node).and_then(|stored| stored.parse().ok()) else { return };
    copy(pod, &node);
}

fn copy(pod: &mut Value, node: &Value) {
    let known = node.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = known.into_iter().flatten().filter(|(key, _)| LABELS.contains(&key.as_str()));
    for (key, value) in labels {
        if let Some(own) = object_at(pod, &["metadata", "labels"]) {
            own.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_topology_labels_are_copied() {
        let node = json!({"metadata": {"labels": {LABELS[1]: "a", "kubernetes.io/hostname": "n"}}});
        let mut pod = json!({"metadata": {"name": "p"}});
        copy(&mut pod, &node);
        assert_eq!(pod["metadata"]["labels"], json!({LABELS[1]: "a"}));
        pod["metadata"]["labels"] = json!({LABELS[1]: "other", "app": "x"});
        copy(&mut pod, &node);
        assert_eq!(pod["metadata"]["labels"], json!({LABELS[1]: "a", "app": "x"}));
        let mut pod = json!({"metadata": {"name": "p"}});
        copy(&mut pod, &json!({"metadata": {"name": "n"}}));
        assert_eq!(pod, json!({"metadata": {"name": "p"}}));
    }
}
