//! Validation of a whole Service, all errors in upstream's order.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::fields::{
    CLUSTER, CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, LOCAL, NODE_PORT, cluster_ips, external_policy,
    externally_accessible, families, health_check_port, is_headless, needs_health_check, ports, spec_of,
    text, type_of,
};
use super::validate_cluster_ips;
use super::validate_ports::{validate_duplicates, validate_ports};
use crate::address::{validate_cidr, validate_endpoint_ip, validate_ip};
use crate::errors::{BadValue, FieldErrors, Path, forbidden, invalid, not_supported, required};
use crate::meta::{self, Naming};
use crate::names;

const TYPES: [&str; 4] = [CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const POLICIES: [&str; 2] = [CLUSTER, LOCAL];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
pub(super) const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const MAX_AFFINITY_SECONDS: i32 = 86_400;
pub(super) const ONCE_SET: &str = "may not change once set";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// Errors of a Service that shall be created: defaulted, prepared, and with its addresses and
/// ports chosen.
pub fn validate_create(service: &Service) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&service.metadata, Naming::LABEL);
    errors.extend(validate_content(service));
    errors
}

/// Errors of everything but the metadata, which a create and an update judge differently.
pub(super) fn validate_content(service: &Service) -> FieldErrors {
    let spec = spec_of(service);
    let path = Path::root("spec");
    let mut errors = validate_topology(service);
    errors.extend(validate_by_type(spec, &path));
    errors.extend(validate_ports(spec, &path.child("ports")));
    errors.extend(meta::validate_labels(spec.selector.as_ref(), &path.child("selector")));
    errors.extend(validate_affinity(spec, &path));
    errors.extend(validate_cluster_ips(service));
    errors.extend(validate_external_ips(spec, &path));
    errors.extend(validate_type(spec, &path));
    errors.extend(validate_duplicates(spec, &path.child("ports")));
    errors.extend(validate_source_ranges(service, &path));
    errors.extend(validate_node_port_allocation(spec, &path));
    errors.extend(validate_load_balancer_class(spec, None));
    errors.extend(validate_external_policy(spec, &path));
    errors.extend(validate_internal_policy(spec, &path));
    errors.extend(validate_distribution(spec, &path));
    errors
}

fn validate_topology(service: &Service) -> FieldErrors {
    let annotation = |key: &str| service.metadata.annotations.as_ref()?.get(key);
    match (annotation(TOPOLOGY_MODE), annotation(TOPOLOGY_HINTS)) {
        (Some(mode), Some(hints)) if mode != hints => vec![invalid(
            Path::root("metadata").child("annotations").key(TOPOLOGY_MODE),
            mode,
            format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified"),
        )]
        .into(),
        _ => FieldErrors::new(),
    }
}

fn validate_by_type(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kind = type_of(spec);
    if ports(spec).is_empty() && !is_headless(spec) && kind != EXTERNAL_NAME {
        errors.push(required(path.child("ports"), ""));
    }
    match kind {
        LOAD_BALANCER | NODE_PORT if is_headless(spec) => errors.push(invalid(
            path.child("clusterIPs").index(0),
            "None",
            format!("may not be set to 'None' for {kind} services"),
        )),
        EXTERNAL_NAME => errors.extend(validate_external_name(spec, path)),
        _ => {}
    }
    errors
}

fn validate_external_name(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (field, set) in [
        ("clusterIPs", !cluster_ips(spec).is_empty()),
        ("ipFamilies", !families(spec).is_empty()),
        ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ] {
        if set {
            errors.push(forbidden(path.child(field), "may not be set for ExternalName services"));
        }
    }
    let name = text(spec.external_name.as_ref());
    let name = name.strip_suffix('.').unwrap_or(name);
    let field = path.child("externalName");
    if name.is_empty() {
        errors.push(required(&field, ""));
    } else {
        for fault in names::dns_subdomain(name) {
            errors.push(invalid(&field, name, fault));
        }
    }
    errors
}

fn validate_affinity(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let affinity = text(spec.session_affinity.as_ref());
    let field = path.child("sessionAffinity");
    if affinity.is_empty() {
        errors.push(required(&field, ""));
    } else if !AFFINITIES.contains(&affinity) {
        errors.push(not_supported(&field, BadValue::named(affinity), &AFFINITIES));
    }
    let field = path.child("sessionAffinityConfig");
    match affinity {
        "ClientIP" => errors.extend(validate_affinity_config(spec, &field)),
        "None" if spec.session_affinity_config.is_some() => {
            errors.push(forbidden(&field, "must not be set when session affinity is None"));
        }
        _ => {}
    }
    errors
}

fn validate_affinity_config(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let missing = |path: Path| FieldErrors::from(required(path, "when session affinity type is ClientIP"));
    let Some(config) = &spec.session_affinity_config else {
        return missing(path.clone());
    };
    let Some(client) = &config.client_ip else {
        return missing(path.child("clientIP"));
    };
    let field = path.child("clientIP").child("timeoutSeconds");
    match client.timeout_seconds {
        None => missing(field),
        Some(seconds) if (1..=MAX_AFFINITY_SECONDS).contains(&seconds) => FieldErrors::new(),
        Some(seconds) => vec![invalid(
            &field,
            seconds,
            format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"),
        )]
        .into(),
    }
}

fn validate_external_ips(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let path = path.child("externalIPs");
    let mut errors = FieldErrors::new();
    for (i, ip) in spec.external_ips.iter().flatten().enumerate() {
        let field = path.index(i);
        let faults = validate_ip(&field, ip);
        if faults.is_empty() {
            errors.extend(validate_endpoint_ip(&field, ip));
        } else {
            errors.extend(faults);
        }
    }
    errors
}

fn validate_type(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let field = path.child("type");
    match type_of(spec) {
        "" => vec![required(&field, "")].into(),
        kind if TYPES.contains(&kind) => FieldErrors::new(),
        kind => vec![not_supported(&field, BadValue::named(kind), &TYPES)].into(),
    }
}

fn validate_source_ranges(service: &Service, path: &Path) -> FieldErrors {
    let spec = spec_of(service);
    let ranges = spec.load_balancer_source_ranges.as_deref().unwrap_or(&[]);
    let annotation = service.metadata.annotations.as_ref().and_then(|a| a.get(SOURCE_RANGES));
    let mut errors = FieldErrors::new();
    let mut only_for_load_balancer = |field: &Path| {
        if type_of(spec) != LOAD_BALANCER {
            errors.push(forbidden(field, ONLY_LOAD_BALANCER));
        }
    };
    if !ranges.is_empty() {
        let field = path.child("LoadBalancerSourceRanges");
        only_for_load_balancer(&field);
        for (i, range) in ranges.iter().enumerate() {
            errors.extend(validate_cidr(&field.index(i), range.trim(), false));
        }
    } else if let Some(annotation) = annotation {
        let field = Path::root("metadata").child("annotations").key(SOURCE_RANGES);
        only_for_load_balancer(&field);
        let annotation = annotation.trim();
        if !annotation.is_empty() {
            for range in annotation.split(',') {
                errors.extend(validate_cidr(&field, range.trim(), false));
            }
        }
    }
    errors
}

fn validate_node_port_allocation(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    match (type_of(spec) == LOAD_BALANCER, spec.allocate_load_balancer_node_ports) {
        (false, Some(_)) => {
            vec![forbidden(path.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER)].into()
        }
        (true, None) => vec![required("allocateLoadBalancerNodePorts", "")].into(),
        _ => FieldErrors::new(),
    }
}

fn validate_external_policy(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let policy = external_policy(spec);
    let field = path.child("externalTrafficPolicy");
    if !externally_accessible(spec) {
        if !policy.is_empty() {
            errors.push(invalid(
                &field,
                BadValue::named(policy),
                "may only be set for externally-accessible services",
            ));
        }
    } else if policy.is_empty() {
        errors.push(required(&field, ""));
    } else if !POLICIES.contains(&policy) {
        errors.push(not_supported(&field, BadValue::named(policy), &POLICIES));
    }
    let port = health_check_port(spec);
    let field = path.child("healthCheckNodePort");
    if !needs_health_check(spec) {
        if port != 0 {
            errors.push(invalid(
                &field,
                port,
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            ));
        }
    } else if port == 0 {
        errors.push(required(&field, ""));
    } else {
        for fault in names::port_number(port) {
            errors.push(invalid(&field, port, fault));
        }
    }
    errors
}

fn validate_internal_policy(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let field = path.child("internalTrafficPolicy");
    match spec.internal_traffic_policy.as_deref() {
        None if matches!(type_of(spec), CLUSTER_IP | NODE_PORT | LOAD_BALANCER) => {
            vec![required(&field, "")].into()
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            vec![not_supported(&field, BadValue::named(policy), &POLICIES)].into()
        }
        _ => FieldErrors::new(),
    }
}

fn validate_distribution(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    match spec.traffic_distribution.as_deref() {
        Some(value) if !DISTRIBUTIONS.contains(&value) => {
            vec![not_supported(path.child("trafficDistribution"), value, &DISTRIBUTIONS)].into()
        }
        _ => FieldErrors::new(),
    }
}

/// Errors of `loadBalancerClass`; with `old` also those of a change.
pub(super) fn validate_load_balancer_class(new: &ServiceSpec, old: Option<&ServiceSpec>) -> FieldErrors {
    let path = Path::root("spec").child("loadBalancerClass");
    let class = new.load_balancer_class.as_ref();
    let is_load_balancer = type_of(new) == LOAD_BALANCER;
    let mut errors = FieldErrors::new();
    if let Some(old) = old
        && is_load_balancer
        && type_of(old) == LOAD_BALANCER
        && old.load_balancer_class.as_ref() != class
    {
        errors.push(invalid(&path, class, ONCE_SET));
    }
    match class {
        Some(class) if is_load_balancer => {
            for fault in names::qualified_name(class) {
                errors.push(invalid(&path, class, fault));
            }
        }
        Some(_) => errors.push(forbidden(&path, ONLY_LOAD_BALANCER)),
        None => {}
    }
    errors
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // values are written inline
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn errors_of(metadata: Value, spec: Value) -> Vec<String> {
        let mut service: Service =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        super::super::default(&mut service);
        super::super::prepare_create(&mut service);
        service.metadata.namespace = Some("default".to_owned());
        validate_create(&service).iter().map(ToString::to_string).collect()
    }

    fn spec_errors(spec: Value) -> Vec<String> {
        errors_of(json!({"name": "a"}), spec)
    }

    #[rstest]
    #[case::port_of_the_kubelet(json!({"type": "LoadBalancer", "ports": [{"port": 10250}]}), &[])]
    #[case(json!({"type": "ExternalName", "externalName": "a.b."}), &[])]
    #[case(json!({"clusterIP": "None"}), &[])]
    #[case(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 70000, "ports": [{"port": 80}]}), &["spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive"])]
    #[case(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}), &["spec.healthCheckNodePort: Required value"])]
    #[case(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": [" 10.0.0.0/8 "], "ports": [{"port": 80}]}), &[])]
    #[case(json!({"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Local"}), &[])]
    #[case(json!({"externalIPs": ["10.01.2.3"], "ports": [{"port": 80}]}), &["spec.externalIPs[0]: Invalid value: \"10.01.2.3\": must not have leading 0s"])]
    #[case(json!({"externalIPs": ["203.0.113.1"], "externalTrafficPolicy": "Any", "ports": [{"port": 80}]}), &["spec.externalTrafficPolicy: Unsupported value: \"Any\": supported values: \"Cluster\", \"Local\""])]
    fn rules_of_the_spec(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(spec_errors(spec), expected);
    }

    #[test]
    fn the_annotation_of_source_ranges_yields_to_the_field() {
        let metadata = json!({"name": "a", "annotations": {SOURCE_RANGES: "nonsense"}});
        let spec = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"], "ports": [{"port": 80}]});
        assert!(errors_of(metadata, spec).is_empty());
    }

    #[test]
    fn a_blank_annotation_of_source_ranges_is_allowed() {
        let metadata = json!({"name": "a", "annotations": {SOURCE_RANGES: " "}});
        let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
        assert!(errors_of(metadata, spec).is_empty());
    }
}
