//! Where an address or a node port comes from: range, band, pool, and the object by which it is taken.
//!
//! Pure. The ranges and bands are the allocators'; this finds the one for a value and says it in words.

use std::fmt::Write as _;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use service_allocators::bands::{address_band, port_band};
use service_allocators::pools::{Pools, Value};
use service_allocators::{NodePortRange, ServicePrefix};
use service_api::crds::{Role, nodeport};
use service_api::service::{cluster_ips, ports, spec_of};

use super::claims::{has_address, has_port};
use super::kind::Kind;
use super::report::{AddressFacts, LedgerFacts, Origin, PortFacts};
use super::snapshot::Snapshot;

const LOWER: &str = "Lower";
const UPPER: &str = "Upper";

/// The ranges and pools of a cluster, read once.
pub(super) struct Origins<'a> {
    snapshot: &'a Snapshot,
    pools: Pools,
}

impl<'a> Origins<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, pools: Pools::new(&snapshot.pools) }
    }

    /// The ServiceCIDRs that have an address, the smallest first.
    pub(super) fn prefixes(&self, ip: IpAddr) -> Vec<(&'a str, ServicePrefix)> {
        let all = self.snapshot.cidrs.iter().flat_map(|cidr| {
            let name = cidr.metadata.name.as_deref().unwrap_or_default();
            let nets = cidr.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default();
            nets.iter().filter_map(move |net| Some((name, net.parse::<ServicePrefix>().ok()?)))
        });
        let mut prefixes: Vec<_> = all.filter(|(_, prefix)| prefix.covers(ip)).collect();
        prefixes.sort_by_key(|(_, prefix)| std::cmp::Reverse(prefix.net().prefix_len()));
        prefixes
    }

    /// Where an address comes from.
    pub(super) fn of_address(&self, ip: IpAddr) -> Origin {
        let prefixes = self.prefixes(ip);
        let in_band = |prefix: &ServicePrefix| Some(prefix.offset(ip)? < address_band(prefix.size()));
        let usable = prefixes.iter().any(|(_, prefix)| prefix.offset(ip).is_some());
        let lower = prefixes.iter().any(|(_, prefix)| in_band(prefix) == Some(true));
        let pool = self.pools.pool_of(Value::Address(ip)).map(ToOwned::to_owned);
        let ledger = self.snapshot.addresses.get(&ip).map(|object| {
            let parent = &object.spec.parent_ref;
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let key = (text(&parent.namespace), parent.name.clone());
            LedgerFacts {
                kind: Kind::IpAddress.name(),
                name: object.metadata.name.clone().unwrap_or_default(),
                holder: format!("{}/{}/{}", parent.resource, key.0, key.1),
                created: object.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
                agrees: self.snapshot.services.get(&key).is_some_and(|service| has_address(service, ip)),
            }
        });
        let (range, span) =
            prefixes.first().map(|(name, prefix)| ((*name).to_owned(), prefix.to_string())).unzip();
        let band = usable.then_some(if lower { LOWER } else { UPPER });
        let mut message = match (&range, &span) {
            (Some(name), Some(span)) if usable => {
                let band = if lower { "lower" } else { "upper" };
                format!("in the {band} band of ServiceCIDR {name} ({span})")
            }
            (Some(name), Some(span)) => {
                format!("the first or last address of ServiceCIDR {name} ({span}): it is never given away")
            }
            _ if !self.snapshot.knows(Kind::ServiceCidr) => "the ranges are not known".to_owned(),
            _ => "in no ServiceCIDR".to_owned(),
        };
        if let Some(pool) = &pool {
            let _ = write!(message, ", part of ServicePool {pool}");
        }
        message += &self.held(ledger.as_ref(), Kind::IpAddress);
        Origin { range, span, band, pool, ledger, message }
    }

    /// The NodePortRange that has a port, with its ports and lower band; the default one where there are none.
    pub(super) fn port_range(&self, port: u16) -> Option<(String, NodePortRange, Role, u64)> {
        if self.snapshot.port_ranges.is_empty() {
            let range = NodePortRange::default();
            let name = String::new();
            return range.contains(port).then(|| (name, range, Role::Dynamic, port_band(range.size())));
        }
        self.snapshot.port_ranges.iter().find_map(|object| {
            let end = |number: i32| u16::try_from(number).ok();
            let range = NodePortRange::new(end(object.spec.first_port)?, end(object.spec.last_port)?)?;
            let own = object.spec.lower_band.and_then(|band| u64::try_from(band).ok());
            let band = own.unwrap_or_else(|| port_band(range.size()));
            let name = object.metadata.name.clone().unwrap_or_default();
            range.contains(port).then_some((name, range, object.spec.role, band))
        })
    }

    /// Where a node port comes from.
    pub(super) fn of_port(&self, port: u16) -> Origin {
        let found = self.port_range(port);
        let lower = found.as_ref().is_some_and(|(_, range, _, band)| u64::from(port - range.first()) < *band);
        let pool = self.pools.pool_of(Value::Port(port)).map(ToOwned::to_owned);
        let ledger = self.ledger_of_port(port);
        let mut message = match &found {
            Some((_, range, Role::Excluded, _)) => format!("in {range}, which is kept from Services"),
            Some((name, range, ..)) => {
                let band = if lower { "lower" } else { "upper" };
                let name =
                    if name.is_empty() { "the range".to_owned() } else { format!("NodePortRange {name}") };
                format!("in the {band} band of {name} ({range})")
            }
            None => "in no range of node ports".to_owned(),
        };
        if let Some(pool) = &pool {
            let _ = write!(message, ", part of ServicePool {pool}");
        }
        message += &self.held(ledger.as_ref(), Kind::NodePort);
        let band = found.as_ref().map(|_| if lower { LOWER } else { UPPER });
        let (range, span) = found.map(|(name, range, ..)| (name, range.to_string())).unzip();
        let range = range.filter(|name| !name.is_empty());
        Origin { range, span, band, pool, ledger, message }
    }

    fn ledger_of_port(&self, port: u16) -> Option<LedgerFacts> {
        let objects = self.snapshot.node_ports.iter();
        let (name, object) = objects.into_iter().find(|(name, _)| nodeport::port_of(name) == Some(port))?;
        let parent = &object.spec.parent_ref;
        let key = (parent.namespace.clone(), parent.name.clone());
        Some(LedgerFacts {
            kind: Kind::NodePort.name(),
            name: name.clone(),
            holder: format!("{}/{}/{}", parent.resource, key.0, key.1),
            created: object.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
            agrees: self.snapshot.services.get(&key).is_some_and(|service| has_port(service, port)),
        })
    }

    /// By which object a value is taken, in words.
    fn held(&self, ledger: Option<&LedgerFacts>, kind: Kind) -> String {
        match ledger {
            Some(facts) if facts.agrees => {
                let since = facts.created.as_ref().map(|time| format!(" since {time}")).unwrap_or_default();
                format!("; taken by {} {}{since}", facts.kind, facts.name)
            }
            Some(facts) => format!("; {} {} names {} as its holder", facts.kind, facts.name, facts.holder),
            None if self.snapshot.knows(kind) => format!("; no {} says so", kind.name()),
            None => String::new(),
        }
    }

    /// The addresses of a Service.
    pub(super) fn addresses(&self, service: &Service) -> Vec<AddressFacts> {
        let spec = spec_of(service);
        let fact = |address: &str, role: &'static str, origin: Origin| AddressFacts {
            address: address.to_owned(),
            role,
            origin,
        };
        let cluster = cluster_ips(spec).iter().filter_map(|text| {
            let ip: IpAddr = text.parse().ok()?;
            Some(fact(text, "ClusterIP", self.of_address(ip)))
        });
        let said = |message: &str| Origin { message: message.to_owned(), ..Origin::default() };
        let external = spec.external_ips.iter().flatten();
        let external =
            external.map(|ip| fact(ip, "ExternalIP", said("asked for in spec.externalIPs; nobody gives it")));
        let status = service.status.iter().filter_map(|status| status.load_balancer.as_ref());
        let ingress = status.filter_map(|balancer| balancer.ingress.as_ref()).flatten();
        let balanced = ingress.filter_map(|ingress| ingress.ip.as_deref().or(ingress.hostname.as_deref()));
        let balanced = balanced
            .map(|ip| fact(ip, "LoadBalancer", said("given by the load balancer's controller, in status")));
        cluster.chain(external).chain(balanced).collect()
    }

    /// The ports of a Service, the health check's at the end.
    pub(super) fn ports(&self, service: &Service) -> Vec<PortFacts> {
        let spec = spec_of(service);
        let node_port = |number: Option<i32>| number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n != 0);
        let own = ports(spec).iter().map(|port| PortFacts {
            name: port.name.clone().unwrap_or_default(),
            port: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            target_port: port.target_port.as_ref().map(|target| match target {
                k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(number) => number.to_string(),
                k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(name) => name.clone(),
            }),
            node_port: port.node_port.filter(|number| *number != 0),
            origin: node_port(port.node_port).map(|number| self.of_port(number)),
        });
        let health = node_port(spec.health_check_node_port).map(|number| PortFacts {
            name: "healthCheckNodePort".to_owned(),
            port: i32::from(number),
            protocol: "TCP".to_owned(),
            target_port: None,
            node_port: Some(i32::from(number)),
            origin: Some(self.of_port(number)),
        });
        own.chain(health).collect()
    }
}
