//! What the planner reads in a Service beyond what `service-api` reads for it.
//!
//! Owns readings only; it never changes a Service.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use service_api::address::parse_lenient;
use service_api::service::{
    CLUSTER_IP_NONE, cluster_ip, cluster_ips, is_headless, needs_cluster_ip, needs_health_check,
    needs_node_port, ports, protocol, type_of,
};

use crate::port::Protocols;
use crate::service_key::ServiceKey;

/// The key of a Service; a missing namespace is the empty one.
pub(crate) fn key(service: &Service) -> ServiceKey {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ServiceKey::new(text(&service.metadata.namespace), text(&service.metadata.name))
}

/// Gets a node port for each port that asks for none (KEP-1864).
pub(crate) fn allocates_node_ports(spec: &ServiceSpec) -> bool {
    match type_of(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports.unwrap_or(true),
        _ => false,
    }
}

pub(crate) fn is_headless_without_selector(spec: &ServiceSpec) -> bool {
    cluster_ip(spec) == CLUSTER_IP_NONE && spec.selector.as_ref().is_none_or(BTreeMap::is_empty)
}

/// Has, or shall have, addresses of the cluster.
pub(crate) fn holds_addresses(spec: &ServiceSpec) -> bool {
    needs_cluster_ip(spec) && !is_headless(spec)
}

/// The addresses that a stored Service holds.
pub(crate) fn held_addresses(spec: &ServiceSpec) -> Vec<IpAddr> {
    let held = cluster_ips(spec).iter().filter(|_| holds_addresses(spec));
    held.filter_map(|text| parse_lenient(text)).collect()
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
    for port in ports(spec).iter().filter(|_| needs_node_port(spec)) {
        add(port.node_port, Protocols::named(protocol(port)));
    }
    if needs_health_check(spec) {
        add(spec.health_check_node_port, Protocols::TCP);
    }
    held
}
