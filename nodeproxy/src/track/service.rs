//! A Service as the proxy keeps it.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use service_api::address::{Family, parse_lenient};
use smallvec::SmallVec;

use super::net;
use crate::{
    endpoint::Protocol,
    objects::{IngressWire, ServiceWire},
};

/// How long a client stays with an endpoint if nothing is said: three hours, the API's default.
const STAY: u32 = 10_800;

/// A Service that packets can be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceInfo {
    /// Its cluster IPs.
    pub cluster_ips: SmallVec<[IpAddr; 1]>,
    /// Addresses that somebody else leads to the nodes.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of load balancers that deliver packets with their own address as destination.
    pub vips: Vec<IpAddr>,
    /// Who may reach those; empty means everybody.
    pub source_ranges: Vec<IpNet>,
    /// Its ports.
    pub ports: SmallVec<[PortInfo; 1]>,
    /// Traffic from outside stays on the node.
    pub external_local: bool,
    /// Traffic from inside stays on the node.
    pub internal_local: bool,
    /// How many seconds a client stays with an endpoint.
    pub affinity: Option<u32>,
    /// Where load balancers ask whether the node has endpoints.
    pub health_port: Option<u16>,
    /// When it was created, in seconds since 1970: of two Services that claim the same address and port the elder has it.
    pub created: i64,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Its name, empty for a single port.
    pub name: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// Its number on the nodes.
    pub node_port: Option<u16>,
}

impl ServiceInfo {
    /// The Service of the wire; none if it is headless, an alias, or has no address yet.
    pub fn read(wire: &ServiceWire) -> Option<Self> {
        let spec = &wire.spec;
        if spec.kind.as_deref() == Some("ExternalName") {
            return None;
        }
        let mut cluster_ips: SmallVec<[IpAddr; 1]> = addresses(&spec.cluster_ips).collect();
        if cluster_ips.is_empty() {
            cluster_ips.extend(spec.cluster_ip.as_deref().and_then(parse_lenient));
        }
        if cluster_ips.is_empty() {
            return None;
        }
        let balanced = spec.kind.as_deref() == Some("LoadBalancer");
        // Without a way in from outside the policy says nothing, whatever is written (`service.spec.externalTrafficPolicy`).
        let external_local = spec.external_traffic_policy.as_deref() == Some("Local");
        Some(Self {
            cluster_ips,
            external_ips: addresses(&spec.external_ips).collect(),
            vips: wire.status.load_balancer.ingress.iter().filter_map(vip).collect(),
            source_ranges: spec.load_balancer_source_ranges.iter().filter_map(|text| net(text)).collect(),
            ports: spec.ports.iter().filter_map(PortInfo::read).collect(),
            external_local,
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            affinity: (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
                let config = spec.session_affinity_config.as_ref();
                config.and_then(|config| config.client_ip.as_ref()?.timeout_seconds).unwrap_or(STAY)
            }),
            health_port: spec
                .health_check_node_port
                .filter(|_| balanced && external_local)
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port != 0),
            created: wire.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        })
    }

    /// Its cluster IP of a family.
    pub fn cluster_ip(&self, family: Family) -> Option<IpAddr> {
        self.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}

impl PortInfo {
    fn read(wire: &crate::objects::ServicePortWire) -> Option<Self> {
        Some(Self {
            name: wire.name.as_deref().unwrap_or_default().into(),
            protocol: Protocol::parse(wire.protocol.as_deref())?,
            port: u16::try_from(wire.port).ok().filter(|port| *port != 0)?,
            node_port: wire.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
        })
    }
}

fn addresses(texts: &[String]) -> impl Iterator<Item = IpAddr> + '_ {
    texts.iter().filter_map(|text| parse_lenient(text))
}

/// The address of a load balancer, unless it answers itself (`ipMode: Proxy`).
fn vip(ingress: &IngressWire) -> Option<IpAddr> {
    if ingress.ip_mode.as_deref() == Some("Proxy") {
        return None;
    }
    parse_lenient(ingress.ip.as_deref()?)
}
