//! What contradicts what: Services against allocations and configured ranges.
//!
//! Owns the comparison that every repair pass makes, whoever makes it. Its inputs are small structs, so that tens of
//! thousands of objects need not be in memory at once. It mends nothing.

mod finding;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use service_api::address::parse_lenient;
use service_api::service::{cluster_ips, spec_of};

use crate::plan::Ledger;
use crate::port::{PortRanges, PortSharing, Protocols};
use crate::prefix::ServicePrefix;
use crate::service_key::ServiceKey;
use crate::spec;

pub use finding::Finding;

/// What one Service says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The Service.
    pub service: ServiceKey,
    /// Its cluster IPs.
    pub addresses: Vec<IpAddr>,
    /// What stands among its cluster IPs and is no address.
    pub invalid: Vec<String>,
    /// Its node ports, its health check node port among them, each once.
    pub ports: Vec<(u16, Protocols)>,
}

impl Claim {
    /// What a stored Service holds; one without addresses or ports of the cluster claims nothing.
    pub fn of(service: &Service) -> Self {
        Self::with_key(spec::key(service), service)
    }

    /// The same of a Service whose key is there already.
    pub fn with_key(key: ServiceKey, service: &Service) -> Self {
        let spec = spec_of(service);
        let texts: &[String] = if spec::holds_addresses(spec) { cluster_ips(spec) } else { &[] };
        let mut claim = Self {
            service: key,
            addresses: Vec::with_capacity(texts.len()),
            invalid: Vec::new(),
            ports: spec::held_ports(spec).into_iter().collect(),
        };
        for text in texts {
            match parse_lenient(text) {
                Some(address) => claim.addresses.push(address),
                None => claim.invalid.push(text.clone()),
            }
        }
        claim
    }
}

/// What one IPAddress object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The address, which is the object's name.
    pub address: IpAddr,
    /// The Service that has it; `None` when it is something else.
    pub parent: Option<ServiceKey>,
    /// Made by the allocator, not by a user: only such a one can leak.
    pub managed: bool,
}

/// What may be allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Every range of every ServiceCIDR, ready or not.
    pub ranges: Vec<ServicePrefix>,
    /// The ranges that node ports may be had from.
    pub node_ports: PortRanges,
    /// Whether several Services may hold one port.
    pub port_sharing: PortSharing,
}

impl Limits {
    /// Those of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        Self {
            ranges: ledger.addresses.usage().map(|range| range.prefix).collect(),
            node_ports: ledger.ports.ranges(),
            port_sharing: ledger.ports.sharing(),
        }
    }
}

/// Compares what Services claim with what is allocated and with the ranges.
///
/// Claims that come first are in the right. Findings about addresses come in the order of the claims, leaked addresses
/// after them in their own order, then findings about ports. None for a cluster in order.
pub fn audit(claims: &[Claim], holdings: &[Holding], limits: &Limits) -> Vec<Finding> {
    let holders: HashMap<IpAddr, Option<&ServiceKey>> =
        holdings.iter().map(|holding| (holding.address, holding.parent.as_ref())).collect();
    let mut confirmed = HashSet::new();
    let mut findings = Vec::new();
    for claim in claims {
        let service = || claim.service.clone();
        for text in &claim.invalid {
            findings.push(Finding::AddressNotValid { service: service(), text: text.clone() });
        }
        for &address in &claim.addresses {
            match holders.get(&address) {
                None => findings.push(Finding::AddressNotAllocated { service: service(), address }),
                Some(Some(holder)) if **holder == claim.service => {
                    confirmed.insert(address);
                }
                Some(holder) => {
                    let holder = holder.cloned();
                    findings.push(Finding::AddressOfAnother { service: service(), address, holder });
                }
            }
            if !limits.ranges.iter().any(|range| range.offset(address).is_some()) {
                let edge_of = limits.ranges.iter().copied().find(|range| range.covers(address));
                findings.push(Finding::AddressOutOfRange { service: service(), address, edge_of });
            }
        }
    }
    findings.extend(leaked(holdings, &confirmed));
    findings.extend(ports(claims, limits));
    findings
}

fn leaked(holdings: &[Holding], confirmed: &HashSet<IpAddr>) -> impl Iterator<Item = Finding> {
    let unused = |holding: &&Holding| holding.managed && !confirmed.contains(&holding.address);
    let mut leaked: Vec<(IpAddr, &ServiceKey)> = holdings
        .iter()
        .filter(unused)
        .filter_map(|holding| Some((holding.address, holding.parent.as_ref()?)))
        .collect();
    leaked.sort_unstable();
    leaked.into_iter().map(|(address, parent)| Finding::AddressLeaked { address, parent: parent.clone() })
}

fn ports(claims: &[Claim], limits: &Limits) -> Vec<Finding> {
    let mut held: BTreeMap<u16, Vec<(&ServiceKey, Protocols)>> = BTreeMap::new();
    let mut findings = Vec::new();
    for claim in claims {
        for &(port, protocols) in &claim.ports {
            let service = || claim.service.clone();
            if !limits.node_ports.has(port) {
                let ranges = limits.node_ports.clone();
                findings.push(Finding::PortOutOfRange { service: service(), port, ranges });
            }
            let holders = held.entry(port).or_default();
            let in_the_way = holders.iter().find(|(_, others)| {
                limits.port_sharing == PortSharing::WithinService || others.overlap(protocols)
            });
            if let Some((holder, _)) = in_the_way {
                let holder = (*holder).clone();
                findings.push(Finding::PortOfAnother { service: service(), port, holder });
            }
            holders.push((&claim.service, protocols));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
