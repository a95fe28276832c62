//! What is odd about a pod's spec and not refused: ports, port names and variables that are given twice.
//!
//! Source: the warnings that the API server of Kubernetes gives for pods and for templates.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use service_api::errors::Path;

use super::fields::{list, text};

/// Texts for `Warning` headers about the spec at `path`.
pub(super) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    repeated(spec, path, ("hostAliases", "ip"), &mut warnings);
    repeated(spec, path, ("imagePullSecrets", "name"), &mut warnings);
    let containers = containers(spec, path);
    for (container, path) in &containers {
        hidden_variables(container, path, &mut warnings);
    }
    port_warnings(&containers, &mut warnings);
    port_name_warnings(&containers, &mut warnings);
    warnings
}

/// All containers in the order in which upstream visits them.
fn containers<'a>(spec: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    let of_kind = |field: &'static str| {
        let all = list(spec, &format!("/{field}")).iter().enumerate();
        let path = path.child(field);
        all.map(move |(at, container)| (container, path.index(at))).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

fn repeated(spec: &Value, path: &Path, (items, field): (&str, &str), warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (at, item) in list(spec, &format!("/{items}")).iter().enumerate() {
        let value = text(item, &format!("/{field}"));
        if !seen.insert(value) {
            let path = path.child(items).index(at).child(field);
            warnings.push(format!("{path}: duplicate {field} {value:?}"));
        }
    }
}

fn hidden_variables(container: &Value, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (at, variable) in list(container, "/env").iter().enumerate() {
        let (name, value) = (text(variable, "/name"), text(variable, "/value"));
        if seen.insert(name) {
            continue;
        }
        // A new value may build on the old one.
        let reference = format!("$({name})");
        let elsewhere = variable.get("valueFrom").is_some_and(|from| !from.is_null());
        if elsewhere || value == reference || !value.contains(&reference) {
            let path = path.child("env").index(at);
            warnings.push(format!(
                "{path}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn port_warnings(containers: &[(&Value, Path)], warnings: &mut Vec<String>) {
    // Number and protocol to where such a port stands, with its port and address on the node.
    type Others<'a> = Vec<(Path, i64, &'a str)>;
    let mut seen: HashMap<(i64, &str), Others<'_>> = HashMap::new();
    for (container, path) in containers {
        for (at, port) in list(container, "/ports").iter().enumerate() {
            let path = path.child("ports").index(at);
            let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or_default();
            let (host_port, host_ip) = (number("hostPort"), text(port, "/hostIP"));
            let others = seen.entry((number("containerPort"), text(port, "/protocol"))).or_default();
            // One answer names a few of them; a list of thousands of equal ports helps nobody.
            for (other, their_port, their_ip) in others.iter().take(MOST_OTHERS) {
                let what = if (host_ip, host_port) == (*their_ip, *their_port) {
                    "duplicate"
                } else if host_port == 0 || *their_port == 0 {
                    "overlapping"
                } else if host_port == *their_port && (host_ip.is_empty() != their_ip.is_empty()) {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{path}: {what} port definition with {other}"));
            }
            others.push((path, host_port, host_ip));
        }
    }
}

/// A port is compared with so many others of its number and protocol.
const MOST_OTHERS: usize = 8;

fn port_name_warnings(containers: &[(&Value, Path)], warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, Path> = BTreeMap::new();
    for (container, path) in containers {
        for (at, port) in list(container, "/ports").iter().enumerate() {
            let (name, path) = (text(port, "/name"), path.child("ports").index(at));
            match seen.get(name) {
                _ if name.is_empty() => {}
                Some(other) => warnings.push(format!(
                    "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name \
                     will use {other}"
                )),
                None => {
                    seen.insert(name, path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]}]}),
        &["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"])]
    #[case(json!({"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}]}), &[])]
    #[case(json!({"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]},
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
        &["spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]"])]
    #[case(json!({"containers": [{"ports": [{"containerPort": 80, "name": "a"}]}, {"ports": [{"containerPort": 81, "name": "a"}]}]}),
        &["spec.containers[1].ports[0]: duplicate port name \"a\" with spec.containers[0].ports[0], services and probes that \
           select ports by name will use spec.containers[0].ports[0]"])]
    #[case(json!({"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]}),
        &["spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"])]
    #[case(json!({"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}]}), &[])]
    #[case(json!({"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}),
        &["spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\""])]
    fn oddities(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(spec_warnings(&spec, &Path::root("spec")), expected);
    }
}
