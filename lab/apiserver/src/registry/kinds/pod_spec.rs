//! Defaults of a pod's spec, also inside the templates of Deployments and ReplicaSets.
//!
//! Source: the API reference of Pod v1 and `kubectl explain pod.spec`.

use serde_json::{Value, json};

use super::fields::{default_fields, default_texts, each_mut, is_unset, list, text};

/// Sets what a pod's author may leave out.
pub(super) fn default_pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default_texts(
        spec,
        [("dnsPolicy", "ClusterFirst"), ("restartPolicy", "Always"), ("schedulerName", "default-scheduler")],
    );
    default_fields(spec, [("securityContext", json!({})), ("terminationGracePeriodSeconds", json!(30))]);
    sync_service_account(spec);
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default();
    for containers in ["/containers", "/initContainers", "/ephemeralContainers"] {
        for container in each_mut(spec, containers) {
            default_container(container, host_network);
        }
    }
    for volume in each_mut(spec, "/volumes") {
        default_volume(volume);
    }
}

/// Two names of one field.
fn sync_service_account(spec: &mut Value) {
    let name = match text(spec, "/serviceAccountName") {
        "" => text(spec, "/serviceAccount"),
        name => name,
    };
    if !name.is_empty() {
        let name = json!(name);
        spec["serviceAccount"] = name.clone();
        spec["serviceAccountName"] = name;
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    if !container.is_object() {
        return;
    }
    let pull = if names_a_version(text(container, "/image")) { "IfNotPresent" } else { "Always" };
    default_texts(
        container,
        [
            ("imagePullPolicy", pull),
            ("terminationMessagePath", "/dev/termination-log"),
            ("terminationMessagePolicy", "File"),
        ],
    );
    default_fields(container, [("resources", json!({}))]);
    default_requests(container);
    for port in each_mut(container, "/ports") {
        default_texts(port, [("protocol", "TCP")]);
        if host_network && port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0 {
            port["hostPort"] = port.get("containerPort").cloned().unwrap_or_default();
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    for variable in each_mut(container, "/env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            default_texts(field, [("apiVersion", "v1")]);
        }
    }
}

/// Has the image a tag other than `latest`, or a digest?
fn names_a_version(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    match (name.contains('@'), name.split_once(':')) {
        (true, _) => true,
        (false, Some((_, tag))) => tag != "latest",
        (false, None) => false,
    }
}

/// A limit without a request is the request too.
fn default_requests(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
        return;
    };
    let requests = &mut container["resources"]["requests"];
    if requests.is_null() {
        *requests = json!({});
    }
    default_fields(requests, limits.iter().map(|(name, amount)| (name.as_str(), amount.clone())));
}

fn default_probe(probe: &mut Value) {
    if !probe.is_object() {
        return;
    }
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
            probe[field] = json!(value);
        }
    }
    if let Some(get) = probe.get_mut("httpGet") {
        default_texts(get, [("path", "/"), ("scheme", "HTTP")]);
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        default_fields(grpc, [("service", json!(""))]);
    }
}

fn default_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.iter().all(|(name, value)| name == "name" || value.is_null()) {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            default_fields(source, [("defaultMode", json!(0o644))]);
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default_fields(path, [("type", json!(""))]);
    }
    for source in each_mut(volume, "/projected/sources") {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default_fields(token, [("expirationSeconds", json!(3600))]);
        }
    }
}

/// The quality of service class: `Guaranteed`, `Burstable` or `BestEffort`, from CPU and memory of all containers.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = list(pod, "/spec/containers").iter().chain(list(pod, "/spec/initContainers"));
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |of: &str| {
                container.pointer(&format!("/resources/{of}/{resource}")).filter(|amount| !is_zero(amount))
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn is_zero(amount: &Value) -> bool {
    is_unset(Some(amount)) || amount.as_str() == Some("0") || amount.as_i64() == Some(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_minimal_pod_gets_what_kubectl_shows() {
        let mut spec = json!({"containers": [{"name": "c", "image": "registry.test/app:1", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}}]});
        default_pod_spec(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(spec["terminationGracePeriodSeconds"], json!(30));
        assert_eq!(spec["schedulerName"], json!("default-scheduler"));
        assert_eq!(container["imagePullPolicy"], json!("IfNotPresent"));
        assert_eq!(container["ports"][0]["protocol"], json!("TCP"));
        assert_eq!(
            container["readinessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 5, "timeoutSeconds": 1,
                "successThreshold": 1, "failureThreshold": 3})
        );
    }

    #[rstest]
    #[case("app", false)]
    #[case("app:latest", false)]
    #[case("host:5000/app", false)]
    #[case("host:5000/app:1.2", true)]
    #[case("app@sha256:00", true)]
    fn image_versions(#[case] image: &str, #[case] versioned: bool) {
        assert_eq!(names_a_version(image), versioned);
    }

    #[rstest]
    #[case(json!({}), "BestEffort")]
    #[case(json!({"requests": {"cpu": "1"}}), "Burstable")]
    #[case(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed")]
    #[case(json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}), "Burstable")]
    fn qos(#[case] resources: Value, #[case] class: &str) {
        assert_eq!(qos_class(&json!({"spec": {"containers": [{"resources": resources}]}})), class);
    }

    #[test]
    fn limits_are_requests_too() {
        let mut spec = json!({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}]});
        default_pod_spec(&mut spec);
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    }
}
