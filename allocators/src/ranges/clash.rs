//! What a range must not overlap with: the networks of pods and nodes, and the ports of a node's own connections.
//!
//! Owns the findings as sentences. It changes nothing.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{NodePortRange, Objects, pod_networks};

/// What Linux gives to outgoing connections unless told otherwise (`net.ipv4.ip_local_port_range`).
pub(super) const LINUX_EPHEMERAL: NodePortRange = NodePortRange::LINUX_EPHEMERAL;

/// What a network overlaps with.
pub(super) fn of_network(net: IpNet, objects: &Objects) -> Vec<String> {
    let overlap = |other: &IpNet| net.contains(other) || other.contains(&net);
    let pods = pod_networks(objects).into_iter().filter(overlap);
    let mut clashes: Vec<String> = pods.map(|pods| format!("overlaps the pod network {pods}")).collect();
    for node in &objects.nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let addresses = node.status.iter().filter_map(|s| s.addresses.as_ref()).flatten();
        let inside = addresses.filter_map(|a| a.address.parse::<IpAddr>().ok()).filter(|ip| net.contains(ip));
        clashes.extend(inside.map(|ip| format!("has the address {ip} of Node {name}")));
    }
    clashes
}

/// What node ports overlap with.
pub(super) fn of_ports(ports: NodePortRange, ephemeral: NodePortRange) -> Vec<String> {
    let clash = ports.overlaps(ephemeral);
    clash
        .then(|| {
            format!(
                "overlaps the ports {ephemeral} of a node's own connections (net.ipv4.ip_local_port_range): \
                 one of those can take a node port before it is given to a Service"
            )
        })
        .into_iter()
        .collect()
}
