//! What the planner reads in a Service: defaults filled in, empty and missing made the same.
//!
//! Owns readings only; it never changes a Service.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use crate::port::{Protocols, ServiceKey};

/// The one value of `clusterIP` that means "headless".
pub(crate) const NONE: &str = "None";

/// The key of a Service; a missing namespace is the empty one.
pub(crate) fn key(service: &Service) -> ServiceKey {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ServiceKey::new(text(&service.metadata.namespace), text(&service.metadata.name))
}

pub(crate) fn type_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().filter(|t| !t.is_empty()).unwrap_or("ClusterIP")
}

pub(crate) fn is_external_name(spec: &ServiceSpec) -> bool {
    type_of(spec) == "ExternalName"
}

/// Of a type that holds node ports.
pub(crate) fn has_node_ports(spec: &ServiceSpec) -> bool {
    matches!(type_of(spec), "NodePort" | "LoadBalancer")
}

/// Gets a node port for each port that asks for none.
pub(crate) fn allocates_node_ports(spec: &ServiceSpec) -> bool {
    match type_of(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports.unwrap_or(true),
        _ => false,
    }
}

/// Needs a health check node port.
pub(crate) fn needs_health_check(spec: &ServiceSpec) -> bool {
    type_of(spec) == "LoadBalancer" && spec.external_traffic_policy.as_deref() == Some("Local")
}

pub(crate) fn cluster_ips(spec: &ServiceSpec) -> &[String] {
    spec.cluster_ips.as_deref().unwrap_or_default()
}

pub(crate) fn families(spec: &ServiceSpec) -> &[String] {
    spec.ip_families.as_deref().unwrap_or_default()
}

pub(crate) fn is_headless(spec: &ServiceSpec) -> bool {
    cluster_ips(spec).first().is_some_and(|ip| ip == NONE)
}

pub(crate) fn is_headless_without_selector(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some(NONE) && spec.selector.as_ref().is_none_or(BTreeMap::is_empty)
}

/// The addresses that a stored Service holds.
pub(crate) fn held_addresses(spec: &ServiceSpec) -> Vec<IpAddr> {
    if is_external_name(spec) || is_headless(spec) {
        return Vec::new();
    }
    cluster_ips(spec).iter().filter_map(|text| text.parse().ok()).collect()
}

/// The ports that a stored Service holds, each once, with its protocols.
pub(crate) fn held_ports(spec: &ServiceSpec) -> BTreeMap<u16, Protocols> {
    let mut held = BTreeMap::new();
    let mut add = |port: Option<i32>, protocols| {
        if let Some(port) = port.and_then(|p| u16::try_from(p).ok()).filter(|p| *p != 0) {
            let all: &mut Protocols = held.entry(port).or_default();
            *all = all.and(protocols);
        }
    };
    if has_node_ports(spec) {
        for port in spec.ports.iter().flatten() {
            add(port.node_port, Protocols::named(port.protocol.as_deref()));
        }
    }
    if needs_health_check(spec) {
        add(spec.health_check_node_port, Protocols::TCP);
    }
    held
}
