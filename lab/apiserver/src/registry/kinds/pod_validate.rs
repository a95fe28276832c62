//! Faults of a pod's spec, in pods and in the templates of workloads: what is copied into endpoints, and what every author
//! gets wrong now and then.
//!
//! Covers names, ports, variables, mounts, host names, policies, tolerations and gates, in upstream's order; security
//! contexts, affinities, resources, probes and the sources of volumes are not judged (`docs/lab-api.md` says so). Source:
//! the API reference of Pod v1.

use std::collections::HashSet;

use serde_json::Value;
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::names;

use super::fields::{list, text};

/// Where a spec stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpecOf {
    /// In a pod.
    Pod,
    /// In a template; what the pods will be given later may be missing.
    Template,
}

/// Faults of the spec at `path`.
pub(super) fn spec_faults(spec: &Value, path: &Path, of: SpecOf) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let volumes = volume_names(spec, path, &mut faults);
    container_faults(spec, path, &volumes, &mut faults);
    init_container_faults(spec, path, &volumes, &mut faults);
    if flag(spec, "/hostNetwork") {
        host_port_faults(spec, path, of, &mut faults);
    }
    one_of(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], &mut faults);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, path, "dnsPolicy", &policies, &mut faults);
    gate_faults(spec, path, &mut faults);
    for (field, rule) in [
        ("serviceAccountName", names::dns_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns_subdomain),
    ] {
        named(text(spec, &format!("/{field}")), &path.child(field), rule, &mut faults);
    }
    if let Some(seconds) = spec.get("activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        faults.push(errors::invalid(path.child("activeDeadlineSeconds"), seconds, why));
    }
    for field in ["hostname", "subdomain"] {
        named(text(spec, &format!("/{field}")), &path.child(field), names::dns_label, &mut faults);
    }
    override_faults(spec, &path.child("hostnameOverride"), &mut faults);
    toleration_faults(list(spec, "/tolerations"), &path.child("tolerations"), &mut faults);
    named(
        text(spec, "/priorityClassName"),
        &path.child("priorityClassName"),
        names::dns_subdomain,
        &mut faults,
    );
    if of == SpecOf::Pod {
        image_faults(spec, path, &mut faults);
    }
    faults
}

/// Linux takes no longer host name than this, in bytes.
const MAX_HOSTNAME: usize = 64;

/// A host name that is given as a whole.
fn override_faults(spec: &Value, path: &Path, faults: &mut FieldErrors) {
    let name = text(spec, "/hostnameOverride");
    if name.is_empty() {
        return;
    }
    named(name, path, names::dns_subdomain, faults);
    if name.len() > MAX_HOSTNAME {
        faults.push(errors::too_long(path, MAX_HOSTNAME));
    }
    for (flagged, field) in [("/setHostnameAsFQDN", "setHostnameAsFQDN"), ("/hostNetwork", "hostNetwork")] {
        if flag(spec, flagged) {
            let why = format!("may not be specified when {field} is true");
            faults.push(errors::forbidden(path, why));
        }
    }
}

fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

fn number(object: &Value, field: &str) -> i64 {
    object.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// A name that may be missing but not malformed.
fn named(name: &str, path: &Path, rule: fn(&str) -> Vec<String>, faults: &mut FieldErrors) {
    if !name.is_empty() {
        faults.extend(rule(name).into_iter().map(|why| errors::invalid(path, name, why)));
    }
}

fn one_of(spec: &Value, path: &Path, field: &str, allowed: &[&str], faults: &mut FieldErrors) {
    let path = path.child(field);
    match text(spec, &format!("/{field}")) {
        "" => faults.push(errors::required(path, "")),
        known if allowed.contains(&known) => {}
        other => faults.push(errors::not_supported(path, BadValue::named(other), allowed)),
    }
}

/// The names of the volumes that are in order.
fn volume_names<'a>(spec: &'a Value, path: &Path, faults: &mut FieldErrors) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (at, volume) in list(spec, "/volumes").iter().enumerate() {
        let path = path.child("volumes").index(at).child("name");
        let name = text(volume, "/name");
        let before = faults.len();
        if name.is_empty() {
            faults.push(errors::required(&path, ""));
        }
        named(name, &path, names::dns_label, faults);
        if names.contains(name) {
            faults.push(errors::duplicate(path, name));
        }
        if faults.len() == before {
            names.insert(name);
        }
    }
    names
}

fn container_faults(spec: &Value, path: &Path, volumes: &HashSet<&str>, faults: &mut FieldErrors) {
    let path = path.child("containers");
    let containers = list(spec, "/containers");
    if containers.is_empty() {
        faults.push(errors::required(path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (at, container) in containers.iter().enumerate() {
        let path = path.index(at);
        common_faults(container, &path, volumes, faults);
        let name = text(container, "/name");
        if !seen.insert(name) {
            faults.push(errors::duplicate(path.child("name"), name));
        }
        restart_faults(container, &path, faults);
    }
    host_port_conflicts(containers, &path, 0, faults);
}

fn init_container_faults(spec: &Value, path: &Path, volumes: &HashSet<&str>, faults: &mut FieldErrors) {
    let path = path.child("initContainers");
    let mut seen: HashSet<&str> = list(spec, "/containers").iter().map(|c| text(c, "/name")).collect();
    for (at, container) in list(spec, "/initContainers").iter().enumerate() {
        let whole = &path;
        let path = path.index(at);
        common_faults(container, &path, volumes, faults);
        restart_faults(container, &path, faults);
        let name = text(container, "/name");
        if seen.contains(name) {
            faults.push(errors::duplicate(path.child("name"), name));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // They run one by one.
        host_port_conflicts(std::slice::from_ref(container), whole, at, faults);
        if text(container, "/restartPolicy") == "Always" {
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.get(field).is_some_and(|value| !value.is_null()) {
                let why = "may not be set for init containers without restartPolicy=Always";
                faults.push(errors::forbidden(path.child(field), why));
            }
        }
    }
}

/// What is the same for containers of all kinds.
fn common_faults(container: &Value, path: &Path, volumes: &HashSet<&str>, faults: &mut FieldErrors) {
    let name = text(container, "/name");
    if name.is_empty() {
        faults.push(errors::required(path.child("name"), ""));
    }
    named(name, &path.child("name"), names::dns_label, faults);
    if text(container, "/image").is_empty() {
        faults.push(errors::required(path.child("image"), ""));
    }
    one_of(container, path, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], faults);
    port_faults(list(container, "/ports"), &path.child("ports"), faults);
    for (at, variable) in list(container, "/env").iter().enumerate() {
        let path = path.child("env").index(at).child("name");
        let name = text(variable, "/name");
        if name.is_empty() {
            faults.push(errors::required(path, ""));
        } else if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            faults.push(errors::invalid(path, name, why));
        }
    }
    mount_faults(list(container, "/volumeMounts"), &path.child("volumeMounts"), volumes, faults);
    one_of(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], faults);
}

fn port_faults(ports: &[Value], path: &Path, faults: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "/name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if wrong.is_empty() && !seen.insert(name) {
                faults.push(errors::duplicate(path.child("name"), name));
            }
            faults.extend(wrong.into_iter().map(|why| errors::invalid(path.child("name"), name, why)));
        }
        let within = |field: &str, faults: &mut FieldErrors| {
            let port = number(port, field);
            let wrong = names::port_number(i32::try_from(port).unwrap_or(i32::MAX));
            faults.extend(wrong.into_iter().map(|why| errors::invalid(path.child(field), port, why)));
        };
        if number(port, "containerPort") == 0 {
            faults.push(errors::required(path.child("containerPort"), ""));
        } else {
            within("containerPort", faults);
        }
        if number(port, "hostPort") != 0 {
            within("hostPort", faults);
        }
        one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"], faults);
    }
}

fn mount_faults(mounts: &[Value], path: &Path, volumes: &HashSet<&str>, faults: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, mount) in mounts.iter().enumerate() {
        let path = path.index(at);
        let (name, place) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            faults.push(errors::required(path.child("name"), ""));
        }
        if !volumes.contains(name) {
            faults.push(errors::not_found(path.child("name"), name));
        }
        if place.is_empty() {
            faults.push(errors::required(path.child("mountPath"), ""));
        }
        if !seen.insert(place) {
            faults.push(errors::invalid(path.child("mountPath"), place, "must be unique"));
        }
    }
}

fn restart_faults(container: &Value, path: &Path, faults: &mut FieldErrors) {
    let given = container.get("restartPolicy").filter(|policy| !policy.is_null());
    match given {
        None if !list(container, "/restartPolicyRules").is_empty() => {
            let why = "must specify restartPolicy when restart rules are used";
            faults.push(errors::required(path.child("restartPolicy"), why));
        }
        None => {}
        Some(policy) => {
            let (policy, known) = (policy.as_str().unwrap_or_default(), ["Always", "Never", "OnFailure"]);
            if !known.contains(&policy) {
                faults.push(errors::not_supported(
                    path.child("restartPolicy"),
                    BadValue::named(policy),
                    &known,
                ));
            }
        }
    }
}

/// One port of a node serves one container. `first` is the place of the first container in its list.
fn host_port_conflicts(containers: &[Value], path: &Path, first: usize, faults: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (nth, port) in list(container, "/ports").iter().enumerate() {
            let host_port = number(port, "hostPort");
            if host_port == 0 {
                continue;
            }
            let taken = format!("{}/{}/{host_port}", text(port, "/protocol"), text(port, "/hostIP"));
            if !seen.insert(taken.clone()) {
                let path = path.index(first + at).child("ports").index(nth).child("hostPort");
                faults.push(errors::duplicate(path, taken));
            }
        }
    }
}

/// On the node's network a container's port is the node's.
fn host_port_faults(spec: &Value, path: &Path, of: SpecOf, faults: &mut FieldErrors) {
    for (at, container) in list(spec, "/containers").iter().enumerate() {
        for (nth, port) in list(container, "/ports").iter().enumerate() {
            let (host, own) = (number(port, "hostPort"), number(port, "containerPort"));
            if (of == SpecOf::Pod || host != 0) && host != own {
                let path = path.child("containers").index(at).child("ports").index(nth).child("hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                faults.push(errors::invalid(path, host, why));
            }
        }
    }
}

fn gate_faults(spec: &Value, path: &Path, faults: &mut FieldErrors) {
    for (at, gate) in list(spec, "/readinessGates").iter().enumerate() {
        let path = path.child("readinessGates").index(at).child("conditionType");
        let name = text(gate, "/conditionType");
        faults.extend(names::qualified_name(name).into_iter().map(|why| errors::invalid(&path, name, why)));
    }
    let mut seen = HashSet::new();
    for (at, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let path = path.child("schedulingGates").index(at);
        let name = text(gate, "/name");
        faults.extend(names::qualified_name(name).into_iter().map(|why| errors::invalid(&path, name, why)));
        if !seen.insert(name) {
            faults.push(errors::duplicate(path, name));
        }
    }
}

fn toleration_faults(tolerations: &[Value], path: &Path, faults: &mut FieldErrors) {
    for (at, toleration) in tolerations.iter().enumerate() {
        let path = path.index(at);
        let (key, value) = (text(toleration, "/key"), text(toleration, "/value"));
        let (operator, effect) = (text(toleration, "/operator"), text(toleration, "/effect"));
        named(key, &path.child("key"), names::qualified_name, faults);
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.push(errors::invalid(path.child("operator"), BadValue::named(operator), why));
        }
        let limited = toleration.get("tolerationSeconds").is_some_and(|seconds| !seconds.is_null());
        if limited && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(errors::invalid(path.child("effect"), BadValue::named(effect), why));
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    faults.push(errors::invalid(path.child("operator"), value, wrong.join(";")));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let why = "value must be empty when `operator` is 'Exists'";
                faults.push(errors::invalid(path.child("operator"), value, why));
            }
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                faults.push(errors::not_supported(path.child("operator"), BadValue::named(operator), &known));
            }
            other => {
                let known = ["Equal", "Exists"];
                faults.push(errors::not_supported(path.child("operator"), BadValue::named(other), &known));
            }
        }
        effect_faults(effect, &path.child("effect"), faults);
    }
}

/// An effect of a toleration or taint, if there is one, is one of three.
pub(super) fn effect_faults(effect: &str, path: &Path, faults: &mut FieldErrors) {
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !known.contains(&effect) {
        faults.push(errors::not_supported(path, BadValue::named(effect), &known));
    }
}

fn image_faults(spec: &Value, path: &Path, faults: &mut FieldErrors) {
    for field in ["containers", "initContainers"] {
        for (at, container) in list(spec, &format!("/{field}")).iter().enumerate() {
            let image = text(container, "/image");
            if image.trim().len() != image.len() {
                let path = path.child(field).index(at).child("image");
                faults.push(errors::invalid(path, image, "must not have leading or trailing whitespace"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::pod_spec::default_pod_spec;
    use super::*;

    fn found(change: &Value, of: SpecOf) -> Vec<String> {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        default_pod_spec(&mut spec);
        spec_faults(&spec, &Path::root("spec"), of).iter().map(ToString::to_string).collect()
    }

    fn container(field: &str, value: &Value) -> Value {
        json!({"containers": [{"name": "c", "image": "i", field: value}]})
    }

    #[rstest]
    #[case(json!({}), &[])]
    #[case(json!({"hostname": "Web_1"}), &["spec.hostname: Invalid value: \"Web_1\": a lowercase RFC 1123 label"])]
    #[case(json!({"subdomain": "a.b"}), &["spec.subdomain: Invalid value: \"a.b\""])]
    #[case(json!({"hostnameOverride": "A_b"}), &["spec.hostnameOverride: Invalid value: \"A_b\""])]
    #[case(json!({"hostnameOverride": "a".repeat(65)}), &["spec.hostnameOverride: Too long: may not be more than 64 bytes"])]
    #[case(json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": true, "hostNetwork": true}),
        &["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
          "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"])]
    #[case(json!({"nodeName": "Bad Node"}), &["spec.nodeName: Invalid value: \"Bad Node\""])]
    #[case(json!({"restartPolicy": "Sometimes"}),
        &["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""])]
    #[case(json!({"dnsPolicy": "X"}), &["spec.dnsPolicy: Unsupported value: \"X\""])]
    #[case(container("ports", &json!([{"containerPort": 80800, "name": "p"}])),
        &["spec.containers[0].ports[0].containerPort: Invalid value: 80800: must be between 1 and 65535, inclusive"])]
    #[case(container("ports", &json!([{"containerPort": 80, "protocol": "X"}])),
        &["spec.containers[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\""])]
    #[case(container("ports", &json!([{"name": "a"}])), &["spec.containers[0].ports[0].containerPort: Required value"])]
    #[case(container("ports", &json!([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}])),
        &["spec.containers[0].ports[1].name: Duplicate value: \"a\""])]
    #[case(container("ports", &json!([{"containerPort": 1, "name": "a_b"}])), &["spec.containers[0].ports[0].name: Invalid value"])]
    #[case(container("ports", &json!([{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}])),
        &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//5\""])]
    #[case(container("env", &json!([{"name": ""}, {"name": "a=b"}, {"name": "a b"}])),
        &["spec.containers[0].env[0].name: Required value", "spec.containers[0].env[1].name: Invalid value: \"a=b\""])]
    #[case(container("volumeMounts", &json!([{"name": "v", "mountPath": "/v"}])),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""])]
    #[case(container("restartPolicy", &json!("X")),
        &["spec.containers[0].restartPolicy: Unsupported value: \"X\": supported values: \"Always\", \"Never\", \"OnFailure\""])]
    #[case(container("imagePullPolicy", &json!("X")), &["spec.containers[0].imagePullPolicy: Unsupported value"])]
    #[case(json!({"containers": []}), &["spec.containers: Required value"])]
    #[case(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
        &["spec.containers[1].name: Duplicate value: \"c\""])]
    #[case(json!({"initContainers": [{"name": "c", "image": "i"}]}), &["spec.initContainers[0].name: Duplicate value: \"c\""])]
    #[case(json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Y"}]}),
        &["spec.initContainers[0].restartPolicy: Unsupported value: \"Y\""])]
    #[case(json!({"initContainers": [{"name": "i", "image": "i", "readinessProbe": {}}]}),
        &["spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"])]
    #[case(json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always", "readinessProbe": {}}]}), &[])]
    #[case(json!({"volumes": [{"name": "v"}, {"name": "v"}, {"name": "V"}]}),
        &["spec.volumes[1].name: Duplicate value: \"v\"", "spec.volumes[2].name: Invalid value: \"V\""])]
    #[case(json!({"tolerations": [{"key": "a", "operator": "X"}]}),
        &["spec.tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\""])]
    #[case(json!({"tolerations": [{"operator": "Equal"}]}), &["spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be"])]
    #[case(json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "Now", "tolerationSeconds": 3}]}),
        &["spec.tolerations[0].effect: Invalid value: \"Now\"", "spec.tolerations[0].effect: Unsupported value: \"Now\""])]
    #[case(json!({"readinessGates": [{"conditionType": "a b"}]}), &["spec.readinessGates[0].conditionType: Invalid value"])]
    #[case(json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
        &["spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"])]
    #[case(json!({"activeDeadlineSeconds": 0}), &["spec.activeDeadlineSeconds: Invalid value: 0"])]
    fn faults_of_pods(#[case] change: Value, #[case] expected: &[&str]) {
        let found = found(&change, SpecOf::Pod);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn a_template_may_leave_host_ports_out() {
        let change = json!({
            "hostNetwork": true, "containers": [{"name": "c", "image": " i", "ports": [{"containerPort": 80}]}],
        });
        assert_eq!(found(&change, SpecOf::Template), Vec::<String>::new());
    }
}
