//! What contradicts what: Services against IPAddress objects and ranges. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use serde_json::Value;
use service_allocators::{Ledger, NodePortRange, Protocols, ServiceKey, ServicePrefix};
use service_api::service as rules;

use crate::registry::kinds::ipaddress;

/// One contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The Service's address has no IPAddress object; it is created.
    NotAllocated {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// The IPAddress of the Service's address belongs to somebody else; only a person can decide who keeps it.
    OfSomebodyElse {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// No ServiceCIDR has the Service's address.
    AddressOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// The allocator took the address for a Service that is gone or does not use it; the object is deleted.
    Leaked {
        /// The address.
        address: IpAddr,
    },
    /// Two Services have the node port for one protocol.
    PortTwice {
        /// The later one by name.
        service: ServiceKey,
        /// The port.
        port: u16,
    },
    /// The node port is not in the range of the flag.
    PortOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// The port.
        port: u16,
    },
}

impl Finding {
    /// The reason and the text of the Event about it, and the Service it is about, if there is one.
    pub(super) fn event(&self) -> Option<(&ServiceKey, &'static str, String)> {
        Some(match self {
            Self::NotAllocated { service, address } => (
                service,
                "ClusterIPNotAllocated",
                format!("Cluster IP {address} is not allocated; repairing"),
            ),
            Self::OfSomebodyElse { service, address } => (
                service,
                "ClusterIPAlreadyAllocated",
                format!("Cluster IP {address} was assigned to somebody else; please recreate service"),
            ),
            Self::AddressOutOfRange { service, address } => (
                service,
                "ClusterIPOutOfRange",
                format!(
                    "Cluster IP {address} is not within any configured Service CIDR; please recreate service"
                ),
            ),
            Self::PortTwice { service, port } => (
                service,
                "PortAlreadyAllocated",
                format!("Port {port} was assigned to multiple services; please recreate service"),
            ),
            Self::PortOutOfRange { service, port } => (
                service,
                "PortOutOfRange",
                format!("Port {port} is not within the port range; please recreate service"),
            ),
            Self::Leaked { .. } => return None,
        })
    }
}

/// What may be allocated.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Every range of every ServiceCIDR, ready or not.
    pub ranges: Vec<ServicePrefix>,
    /// The range of node ports.
    pub node_ports: NodePortRange,
}

impl Limits {
    /// Those of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        Self {
            ranges: ledger.addresses.usage().map(|range| range.prefix).collect(),
            node_ports: ledger.ports.range(),
        }
    }
}

/// What one Service says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The Service.
    pub service: ServiceKey,
    /// Its cluster IPs.
    pub addresses: Vec<IpAddr>,
    /// Its node ports, its health check node port among them, with their protocols.
    pub ports: Vec<(u16, Protocols)>,
}

impl Claim {
    /// What a Service claims.
    pub fn of(service: ServiceKey, object: &Service) -> Self {
        let spec = rules::spec_of(object);
        let uses = rules::needs_cluster_ip(spec) && !rules::is_headless(spec);
        let listed = rules::cluster_ips(spec).iter().filter(|_| uses);
        let mut ports: BTreeMap<u16, Protocols> = BTreeMap::new();
        let node_ports = rules::ports(spec)
            .iter()
            .filter_map(|port| Some((port.node_port?, Protocols::named(rules::protocol(port)))))
            .chain(spec.health_check_node_port.map(|port| (port, Protocols::TCP)));
        for (port, protocols) in node_ports {
            let Some(port) = u16::try_from(port).ok().filter(|port| *port != 0) else { continue };
            let have = ports.entry(port).or_default();
            *have = have.and(protocols);
        }
        let addresses = listed.filter_map(|address| address.parse().ok()).collect();
        Self { service, addresses, ports: ports.into_iter().collect() }
    }
}

/// What one IPAddress object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The address.
    pub address: IpAddr,
    /// The Service that has it, if it is one.
    pub parent: Option<ServiceKey>,
    /// It was made by the allocator, not by a user.
    pub managed: bool,
}

impl Holding {
    /// What an IPAddress object of that name says; `None` when the name is no address.
    pub fn of(name: &str, object: &Value) -> Option<Self> {
        let parent = |field: &str| {
            object.pointer(&format!("/spec/parentRef/{field}")).and_then(Value::as_str).unwrap_or_default()
        };
        let of_a_service = ipaddress::is_of_a_service(object);
        Some(Self {
            address: name.parse().ok()?,
            parent: of_a_service.then(|| ServiceKey::new(parent("namespace"), parent("name"))),
            managed: ipaddress::is_managed(object),
        })
    }
}

/// Compares what Services claim with what IPAddress objects say and with the ranges.
pub fn find(claims: &[Claim], holdings: &[Holding], limits: &Limits) -> Vec<Finding> {
    let held: HashMap<IpAddr, &Holding> = holdings.iter().map(|holding| (holding.address, holding)).collect();
    let mut used: HashSet<IpAddr> = HashSet::new();
    let mut findings = Vec::new();
    for claim in claims {
        for &address in &claim.addresses {
            let service = claim.service.clone();
            match held.get(&address) {
                None => findings.push(Finding::NotAllocated { service: service.clone(), address }),
                Some(holding) if holding.parent.as_ref() != Some(&service) => {
                    findings.push(Finding::OfSomebodyElse { service: service.clone(), address });
                }
                Some(_) => {
                    used.insert(address);
                }
            }
            if !limits.ranges.iter().any(|range| range.covers(address)) {
                findings.push(Finding::AddressOutOfRange { service, address });
            }
        }
    }
    let mut leaked: Vec<IpAddr> = holdings
        .iter()
        .filter(|holding| holding.managed && holding.parent.is_some() && !used.contains(&holding.address))
        .map(|holding| holding.address)
        .collect();
    leaked.sort_unstable();
    findings.extend(leaked.into_iter().map(|address| Finding::Leaked { address }));
    findings.extend(port_findings(claims, limits.node_ports));
    findings
}

fn port_findings(claims: &[Claim], range: NodePortRange) -> Vec<Finding> {
    let mut taken: BTreeMap<u16, Protocols> = BTreeMap::new();
    let mut findings = Vec::new();
    for claim in claims {
        for &(port, protocols) in &claim.ports {
            let service = claim.service.clone();
            if port < range.first() || port > range.last() {
                findings.push(Finding::PortOutOfRange { service: service.clone(), port });
            }
            let others = taken.entry(port).or_default();
            if others.overlap(protocols) {
                findings.push(Finding::PortTwice { service, port });
            }
            *others = others.and(protocols);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::testing::lab;

    #[test]
    fn ports_are_compared_by_protocol() {
        let limits = lab(&["10.96.0.0/12"]).store.read(|view| Limits::of(&view.index().services.ledger));
        let service = |name: &str, port: i32, protocol: &str| {
            let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"type": "NodePort",
                "ports": [{"port": 53, "nodePort": port, "protocol": protocol}]}});
            Claim::of(ServiceKey::new("default", name), &serde_json::from_value(object).unwrap())
        };
        let services = [
            service("a", 30053, "TCP"),
            service("b", 30053, "UDP"),
            service("c", 30053, "UDP"),
            service("d", 80, "TCP"),
        ];
        let key = |name: &str| ServiceKey::new("default", name);
        assert_eq!(
            find(&services, &[], &limits),
            [
                Finding::PortTwice { service: key("c"), port: 30053 },
                Finding::PortOutOfRange { service: key("d"), port: 80 },
            ]
        );
    }
}
