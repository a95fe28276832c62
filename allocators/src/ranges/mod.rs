//! What the ranges of a cluster look like to somebody who wants to change them.
//!
//! Owns the counts of each range, who blocks its removal, what lies outside of all, what another range would mean, and
//! which networks clash. It works on plain objects, from a server or from a file, and changes nothing.

mod clash;
mod outlook;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use service_api::crds;
use service_api::service::spec_of;

use crate::families::ClusterFamilies;
use crate::ip::RangeState;
use crate::plan::Ledger;
use crate::port::{DEFAULT_RANGE, NodePortRange, PortLedger, PortSharing};
use crate::prefix::{Family, ServicePrefix};
use crate::service_key::ServiceKey;
use crate::spec;

use report::Held;
pub use report::{
    Band, CidrReport, Holder, Many, Outlook, PoolReport, PortRangeReport, Report, Shown, Stray,
};

/// How many of a long list are shown unless all are asked for.
pub const SHOWN: usize = 5;

/// The objects that a report is made of.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// All Services.
    pub services: Vec<Service>,
    /// All ServiceCIDRs.
    pub cidrs: Vec<ServiceCIDR>,
    /// All IPAddresses; `None` when they are not known, as on a server that has none. Then the Services' addresses count.
    pub addresses: Option<Vec<IPAddress>>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All NodePortRanges.
    pub port_ranges: Vec<crds::NodePortRange>,
    /// All ServicePools.
    pub pools: Vec<crds::ServicePool>,
}

/// What else is asked.
#[derive(Debug, Clone)]
pub struct Questions {
    /// The node ports of a cluster without NodePortRanges, as `--service-node-port-range` has them.
    pub node_ports: NodePortRange,
    /// The ports that a node's own connections take.
    pub ephemeral: NodePortRange,
    /// What if these were the service CIDRs.
    pub if_cidrs: Vec<IpNet>,
    /// What if these were the node ports.
    pub if_node_ports: Option<NodePortRange>,
    /// How many of a long list are shown.
    pub shown: usize,
    /// Lists have only what is held in this namespace; counts of ranges are of all.
    pub namespace: Option<String>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            node_ports: NodePortRange::default(),
            ephemeral: clash::LINUX_EPHEMERAL,
            if_cidrs: Vec::new(),
            if_node_ports: None,
            shown: SHOWN,
            namespace: None,
        }
    }
}

/// What is known of a cluster, read once.
struct Survey<'a> {
    objects: &'a Objects,
    questions: &'a Questions,
    /// Each ServiceCIDR that can be read, with its state.
    ranges: Vec<(&'a str, ServicePrefix, RangeState)>,
    /// Every address that is taken, and by whom.
    holders: BTreeMap<IpAddr, Holder>,
    ledger: Ledger,
}

/// Looks at a cluster.
pub fn survey(objects: &Objects, questions: &Questions) -> Report {
    Survey::of(objects, questions).report()
}

impl<'a> Survey<'a> {
    fn of(objects: &'a Objects, questions: &'a Questions) -> Self {
        let ports = PortLedger::without_ranges(PortSharing::WithinService);
        let mut ledger = Ledger::new(ClusterFamilies::dual(Family::V4), ports);
        let mut ranges = Vec::new();
        for cidr in &objects.cidrs {
            // What can not be read is shown as it stands, without counts.
            let _ = ledger.addresses.set_service_cidr(cidr);
            let name = cidr.metadata.name.as_deref().unwrap_or_default();
            let nets = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
            for net in nets.iter().filter_map(|text| text.parse().ok()) {
                ranges.extend(ServicePrefix::new(net).map(|prefix| (name, prefix, RangeState::of(cidr))));
            }
        }
        for range in &objects.port_ranges {
            let name = range.metadata.name.as_deref().unwrap_or_default();
            let port = |number: i32| u16::try_from(number).ok();
            let ends = port(range.spec.first_port).zip(port(range.spec.last_port));
            let band = range.spec.lower_band.and_then(|band| u32::try_from(band).ok());
            if let Some(ports) = ends.and_then(|(first, last)| NodePortRange::new(first, last)) {
                ledger.ports.set_range(name, ports, range.spec.role, band);
            }
        }
        if objects.port_ranges.is_empty() {
            ledger.ports.set_range(DEFAULT_RANGE, questions.node_ports, crds::Role::Dynamic, None);
        }
        let holders = holders(objects);
        for address in holders.keys() {
            ledger.addresses.insert(*address);
        }
        for service in &objects.services {
            ledger.follow_ports(None, Some(service));
        }
        Self { objects, questions, ranges, holders, ledger }
    }

    fn report(&self) -> Report {
        Report {
            service_cidrs: self.ranges.iter().map(|range| self.cidr(range)).collect(),
            node_port_ranges: self.port_ranges(),
            pools: self.pools(),
            outside: self.outside(),
            outlook: outlook::outlook(self),
            notes: self.notes(),
        }
    }

    fn many<T: Held>(&self, all: impl IntoIterator<Item = T>) -> Many<T> {
        let asked = self.questions.namespace.as_deref();
        let is_asked = |held: &T| asked.is_none() || held.namespace() == asked;
        let mut all = all.into_iter().filter(is_asked);
        let first: Vec<T> = all.by_ref().take(self.questions.shown).collect();
        Many { count: first.len() + all.count(), first }
    }

    fn cidr(&self, (name, prefix, state): &(&str, ServicePrefix, RangeState)) -> CidrReport {
        let [lower, upper] = self.ledger.addresses.fill(*prefix).unwrap_or_default();
        CidrReport {
            name: (*name).to_owned(),
            cidr: prefix.net().to_string(),
            state: match state {
                RangeState::Ready => "Ready",
                RangeState::NotReady => "NotReady",
                RangeState::Deleting => "Deleting",
            }
            .to_owned(),
            lower: Band::of(lower),
            upper: Band::of(upper),
            blockers: self.many(self.blockers(name, *prefix)),
            clashes: clash::of_network(prefix.net(), self.objects),
        }
    }

    /// Who would be without a range if the ServiceCIDR of this name were gone.
    fn blockers(&self, name: &str, prefix: ServicePrefix) -> impl Iterator<Item = Holder> {
        let others = self
            .ranges
            .iter()
            .filter(move |(other, _, state)| *other != name && *state != RangeState::Deleting);
        let elsewhere = move |address: IpAddr| others.clone().any(|(_, p, _)| p.offset(address).is_some());
        let own = self.holders.iter().filter(move |(address, _)| prefix.offset(**address).is_some());
        own.filter(move |(address, _)| !elsewhere(**address)).map(|(_, holder)| holder.clone())
    }

    fn port_ranges(&self) -> Vec<PortRangeReport> {
        let named: Vec<_> = self.ledger.ports.named_ranges().collect();
        named
            .iter()
            .map(|(name, ports, role)| {
                let [lower, upper] = self.ledger.ports.fill(name).unwrap_or_default();
                let elsewhere = |port: u16| {
                    named.iter().any(|(other, range, role)| {
                        other != name && *role != crds::Role::Excluded && range.contains(port)
                    })
                };
                let own = self.ledger.ports.held().filter(|(port, _)| ports.contains(*port));
                let own = own.filter(|(port, _)| *role != crds::Role::Excluded && !elsewhere(*port));
                PortRangeReport {
                    name: (*name).to_owned(),
                    ports: ports.to_string(),
                    role: *role,
                    lower: Band::of(lower),
                    upper: Band::of(upper),
                    blockers: self.many(own.flat_map(|(port, holders)| {
                        holders.iter().map(move |h| Holder::service(&h.owner, port.to_string()))
                    })),
                    clashes: clash::of_ports(*ports, self.questions.ephemeral),
                }
            })
            .collect()
    }

    fn pools(&self) -> Vec<PoolReport> {
        let mut pools = crate::pools::Pools::new(&self.objects.pools);
        pools.adopt(&crate::pools::Pools::default(), &self.ledger);
        let outside = pools.outside(&self.ledger);
        let faults = |name: &str| {
            let all = pools.faults().iter().chain(&outside);
            all.filter(|fault| fault.pool == name).map(|fault| fault.text.clone()).collect()
        };
        pools
            .usage(&self.ledger)
            .map(|usage| PoolReport {
                kinds: usage
                    .kinds
                    .iter()
                    .map(|(kind, [lower, upper])| {
                        (kind.name().to_owned(), [Band::of(*lower), Band::of(*upper)])
                    })
                    .collect(),
                faults: faults(&usage.pool),
                name: usage.pool,
            })
            .collect()
    }

    /// Services whose address or port no range has.
    fn outside(&self) -> Many<Stray> {
        let strays = self.objects.services.iter().flat_map(|service| {
            let held = spec::held_addresses(spec_of(service)).into_iter();
            let addresses = held.filter(|a| !self.ledger.addresses.is_in_range(*a)).map(|a| a.to_string());
            let ports = spec::held_ports(spec_of(service)).into_keys();
            let ports = ports
                .filter(|p| self.ledger.ports.check_range(i32::from(*p)).is_err())
                .map(|p| format!("node port {p}"));
            let key = spec::key(service);
            addresses.chain(ports).map(move |value| Stray { service: key.to_string(), value })
        });
        self.many(strays.collect::<Vec<_>>())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(namespace) = &self.questions.namespace {
            notes.push(format!(
                "only what is held in namespace {namespace} is listed; how full ranges are counts all"
            ));
        }
        for cidr in &self.objects.cidrs {
            let name = cidr.metadata.name.as_deref().unwrap_or_default();
            let nets = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
            let known = self.ranges.iter().filter(|(n, _, _)| *n == name).count();
            if known < nets.len() {
                notes.push(format!("ServiceCIDR {name}: {nets:?} has what is no range"));
            }
        }
        if self.objects.cidrs.is_empty() {
            notes.push("no ServiceCIDR is known: all addresses are outside of every range".to_owned());
        }
        if self.objects.addresses.is_none() {
            notes.push("no IPAddresses are known: the addresses of Services count".to_owned());
        }
        if self.objects.port_ranges.is_empty() {
            let range = self.questions.node_ports;
            notes.push(format!("no NodePortRange is known: the node ports are taken to be {range}"));
        }
        if self.objects.nodes.is_empty() {
            notes.push("no Nodes are known: clashes with their networks can not be seen".to_owned());
        }
        notes
    }
}

/// Every address that is taken: those of IPAddresses, and those that Services have without one.
fn holders(objects: &Objects) -> BTreeMap<IpAddr, Holder> {
    let mut all = BTreeMap::new();
    for address in objects.addresses.iter().flatten() {
        let name = address.metadata.name.as_deref().unwrap_or_default();
        let Ok(ip) = name.parse::<IpAddr>() else { continue };
        let parent = &address.spec.parent_ref;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let kind = [text(&parent.group), parent.resource.clone()];
        let key = [text(&parent.namespace), parent.name.clone()];
        let join = |parts: &[String], by| {
            parts.iter().filter(|p| !p.is_empty()).cloned().collect::<Vec<_>>().join(by)
        };
        all.insert(ip, Holder { kind: join(&kind, "/"), name: join(&key, "/"), value: ip.to_string() });
    }
    for service in &objects.services {
        for ip in spec::held_addresses(spec_of(service)) {
            all.entry(ip).or_insert_with(|| Holder::service(&spec::key(service), ip.to_string()));
        }
    }
    all
}

impl Holder {
    fn service(key: &ServiceKey, value: String) -> Self {
        Self { kind: "services".to_owned(), name: key.to_string(), value }
    }
}

/// The networks of a node that Services must not be in.
fn pod_networks(objects: &Objects) -> BTreeSet<IpNet> {
    let specs = objects.nodes.iter().filter_map(|node| node.spec.as_ref());
    let texts = specs.flat_map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
    texts.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
