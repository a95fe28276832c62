//! Which values a Service has.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use service_api::service::{cluster_ips, ports, spec_of};

/// Whether a Service has an address as a cluster IP.
pub(super) fn has_address(service: &Service, ip: IpAddr) -> bool {
    let own = cluster_ips(spec_of(service)).iter().chain(&spec_of(service).cluster_ip);
    own.into_iter().any(|text| text.parse() == Ok(ip))
}

/// Whether a Service has a node port, of its ports or for its health check.
pub(super) fn has_port(service: &Service, port: u16) -> bool {
    let spec = spec_of(service);
    let own = ports(spec).iter().filter_map(|port| port.node_port).chain(spec.health_check_node_port);
    own.into_iter().any(|number| number == i32::from(port))
}
