//! Reading a Service's spec with Go's zero values: an unset string is empty, an unset list too.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

/// The value of `clusterIP` that makes a Service headless.
pub const CLUSTER_IP_NONE: &str = "None";
pub(crate) const CLUSTER_IP: &str = "ClusterIP";
pub(crate) const NODE_PORT: &str = "NodePort";
pub(crate) const LOAD_BALANCER: &str = "LoadBalancer";
pub(crate) const EXTERNAL_NAME: &str = "ExternalName";
pub(crate) const SINGLE_STACK: &str = "SingleStack";
pub(crate) const LOCAL: &str = "Local";
pub(crate) const CLUSTER: &str = "Cluster";

static EMPTY: ServiceSpec = ServiceSpec {
    allocate_load_balancer_node_ports: None,
    cluster_ip: None,
    cluster_ips: None,
    external_ips: None,
    external_name: None,
    external_traffic_policy: None,
    health_check_node_port: None,
    internal_traffic_policy: None,
    ip_families: None,
    ip_family_policy: None,
    load_balancer_class: None,
    load_balancer_ip: None,
    load_balancer_source_ranges: None,
    ports: None,
    publish_not_ready_addresses: None,
    selector: None,
    session_affinity: None,
    session_affinity_config: None,
    traffic_distribution: None,
    type_: None,
};

/// The spec, or an empty one.
pub fn spec_of(service: &Service) -> &ServiceSpec {
    service.spec.as_ref().unwrap_or(&EMPTY)
}

pub(crate) fn text(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

/// The type, `""` before defaulting.
pub fn type_of(spec: &ServiceSpec) -> &str {
    text(spec.type_.as_ref())
}

/// `clusterIP`, `""` when unset.
pub fn cluster_ip(spec: &ServiceSpec) -> &str {
    text(spec.cluster_ip.as_ref())
}

/// `clusterIPs`.
pub fn cluster_ips(spec: &ServiceSpec) -> &[String] {
    spec.cluster_ips.as_deref().unwrap_or_default()
}

/// `ipFamilies`.
pub fn families(spec: &ServiceSpec) -> &[String] {
    spec.ip_families.as_deref().unwrap_or_default()
}

/// `ipFamilyPolicy`, `""` when unset.
pub fn policy(spec: &ServiceSpec) -> &str {
    text(spec.ip_family_policy.as_ref())
}

/// `ports`.
pub fn ports(spec: &ServiceSpec) -> &[ServicePort] {
    spec.ports.as_deref().unwrap_or_default()
}

/// A port's protocol, `""` before defaulting.
pub fn protocol(port: &ServicePort) -> &str {
    text(port.protocol.as_ref())
}

pub(crate) fn node_port(port: &ServicePort) -> i32 {
    port.node_port.unwrap_or(0)
}

pub(crate) fn health_check_port(spec: &ServiceSpec) -> i32 {
    spec.health_check_node_port.unwrap_or(0)
}

pub(crate) fn external_policy(spec: &ServiceSpec) -> &str {
    text(spec.external_traffic_policy.as_ref())
}

/// Whether `clusterIPs` is exactly `["None"]`.
pub fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(cluster_ips(spec), [only] if only == CLUSTER_IP_NONE)
}

/// Whether the type has cluster IPs (`None` counts as one).
pub fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    type_of(spec) != EXTERNAL_NAME
}

/// Whether the type has node ports.
pub fn needs_node_port(spec: &ServiceSpec) -> bool {
    matches!(type_of(spec), NODE_PORT | LOAD_BALANCER)
}

/// Whether the Service has a health check node port.
pub fn needs_health_check(spec: &ServiceSpec) -> bool {
    type_of(spec) == LOAD_BALANCER && external_policy(spec) == LOCAL
}

/// Whether traffic from outside the cluster can reach the Service.
pub fn externally_accessible(spec: &ServiceSpec) -> bool {
    match type_of(spec) {
        LOAD_BALANCER | NODE_PORT => true,
        CLUSTER_IP => spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty()),
        _ => false,
    }
}

/// `clusterIP` and `clusterIPs` are both unchanged.
pub(crate) fn same_cluster_ips(a: &ServiceSpec, b: &ServiceSpec) -> bool {
    cluster_ip(a) == cluster_ip(b) && cluster_ips(a) == cluster_ips(b)
}
