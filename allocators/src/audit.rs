//! What disagrees between Services, IPAddresses and the configured ranges.
//!
//! Owns the findings of a repair pass and of a start on stored objects. It mends nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use service_api::address::parse_lenient;
use service_api::service::{cluster_ips, spec_of};

use crate::ip::AddressLedger;
use crate::plan::Ledger;
use crate::port::{NodePortRange, PortLedger, PortSharing, Protocols, ServiceKey};
use crate::spec;

/// One disagreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A Service has an address without an IPAddress object.
    AddressNotAllocated {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// The IPAddress object of a Service's address belongs to something else.
    AddressOfAnother {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
        /// The other Service that has it; `None` when it is no Service.
        holder: Option<ServiceKey>,
    },
    /// No ServiceCIDR has a Service's address.
    AddressOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// Its address.
        address: IpAddr,
    },
    /// A Service's cluster IP is no address.
    AddressNotValid {
        /// The Service.
        service: ServiceKey,
        /// What stands there.
        text: String,
    },
    /// An IPAddress object names a Service that does not exist, or does not have the address.
    AddressLeaked {
        /// The address.
        address: IpAddr,
        /// The Service that it names.
        parent: ServiceKey,
    },
    /// Two Services hold a port for the same protocol, or at all where they may not share one.
    PortOfAnother {
        /// The Service that came later.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// The Service that came first.
        holder: ServiceKey,
    },
    /// A Service's port is outside of the range.
    PortOutOfRange {
        /// The Service.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// The range.
        range: NodePortRange,
    },
}

impl Finding {
    /// The reason of the Event that tells of it, by upstream's names.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::AddressNotAllocated { .. } => "ClusterIPNotAllocated",
            Self::AddressOfAnother { .. } => "ClusterIPAlreadyAllocated",
            Self::AddressOutOfRange { .. } => "ClusterIPOutOfRange",
            Self::AddressNotValid { .. } => "ClusterIPNotValid",
            Self::AddressLeaked { .. } => "IPAddressNotAllocated",
            Self::PortOfAnother { .. } => "PortAlreadyAllocated",
            Self::PortOutOfRange { .. } => "PortOutOfRange",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressNotAllocated { service, address } => {
                write!(f, "cluster IP {address} of Service {service} has no IPAddress")
            }
            Self::AddressOfAnother { service, address, holder: Some(holder) } => {
                write!(
                    f,
                    "cluster IP {address} of Service {service} belongs to Service {holder}; recreate one of them"
                )
            }
            Self::AddressOfAnother { service, address, holder: None } => {
                write!(
                    f,
                    "cluster IP {address} of Service {service} belongs to something else; recreate the Service"
                )
            }
            Self::AddressOutOfRange { service, address } => {
                write!(
                    f,
                    "cluster IP {address} of Service {service} is in no ServiceCIDR; recreate the Service"
                )
            }
            Self::AddressNotValid { service, text } => {
                write!(f, "cluster IP {text:?} of Service {service} is no IP address; recreate the Service")
            }
            Self::AddressLeaked { address, parent } => {
                write!(f, "IPAddress {address} names Service {parent}, which does not have it")
            }
            Self::PortOfAnother { service, port, holder } => {
                write!(
                    f,
                    "node port {port} of Service {service} is held by Service {holder}; recreate one of them"
                )
            }
            Self::PortOutOfRange { service, port, range } => {
                write!(f, "node port {port} of Service {service} is outside of {range}; recreate the Service")
            }
        }
    }
}

/// Compares Services and IPAddresses with each other and with the ranges of `ledger`.
///
/// `addresses` are the names of all IPAddress objects, each with the Service it names (`None`
/// when it names something else, which is nobody's fault). Services that come first are in the
/// right. The findings come in the order of the Services, leaked addresses last.
pub fn audit<'a>(
    ledger: &Ledger,
    addresses: impl IntoIterator<Item = (IpAddr, Option<ServiceKey>)>,
    services: impl IntoIterator<Item = &'a Service>,
) -> Vec<Finding> {
    let mut parents: HashMap<IpAddr, Parent> = addresses
        .into_iter()
        .map(|(address, service)| (address, Parent { service, confirmed: false }))
        .collect();
    let mut ports: BTreeMap<u16, Vec<(ServiceKey, Protocols)>> = BTreeMap::new();
    let mut findings = Vec::new();
    for service in services {
        audit_addresses(&ledger.addresses, service, &mut parents, &mut findings);
        audit_ports(&ledger.ports, service, &mut ports, &mut findings);
    }
    let mut leaked: Vec<_> = parents.into_iter().filter(|(_, parent)| !parent.confirmed).collect();
    leaked.sort_by_key(|(address, _)| *address);
    findings.extend(
        leaked.into_iter().filter_map(|(address, parent)| {
            Some(Finding::AddressLeaked { address, parent: parent.service? })
        }),
    );
    findings
}

struct Parent {
    service: Option<ServiceKey>,
    /// The Service has the address.
    confirmed: bool,
}

fn audit_addresses(
    ledger: &AddressLedger,
    service: &Service,
    parents: &mut HashMap<IpAddr, Parent>,
    findings: &mut Vec<Finding>,
) {
    let spec = spec_of(service);
    if !spec::holds_addresses(spec) {
        return;
    }
    let key = || spec::key(service);
    for text in cluster_ips(spec) {
        let Some(address) = parse_lenient(text) else {
            findings.push(Finding::AddressNotValid { service: key(), text: text.clone() });
            continue;
        };
        match parents.get_mut(&address) {
            None => findings.push(Finding::AddressNotAllocated { service: key(), address }),
            Some(Parent { service: Some(parent), confirmed }) if *parent == key() => *confirmed = true,
            Some(Parent { service: holder, .. }) => {
                findings.push(Finding::AddressOfAnother { service: key(), address, holder: holder.clone() });
            }
        }
        if !ledger.is_in_range(address) {
            findings.push(Finding::AddressOutOfRange { service: key(), address });
        }
    }
}

fn audit_ports(
    ledger: &PortLedger,
    service: &Service,
    ports: &mut BTreeMap<u16, Vec<(ServiceKey, Protocols)>>,
    findings: &mut Vec<Finding>,
) {
    for (port, protocols) in spec::held_ports(spec_of(service)) {
        let key = spec::key(service);
        if ledger.check_range(i32::from(port)).is_err() {
            findings.push(Finding::PortOutOfRange { service: key.clone(), port, range: ledger.range() });
        }
        let holders = ports.entry(port).or_default();
        let in_the_way = holders
            .iter()
            .find(|(_, held)| ledger.sharing() == PortSharing::WithinService || held.overlap(protocols));
        if let Some((holder, _)) = in_the_way {
            findings.push(Finding::PortOfAnother { service: key.clone(), port, holder: holder.clone() });
        }
        holders.push((key, protocols));
    }
}

#[cfg(test)]
mod tests;
