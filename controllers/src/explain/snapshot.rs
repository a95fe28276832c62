//! The objects that an explanation is made from, taken in one at a time.
//!
//! Owns how much is kept of each: the index that the controllers have, and beside it what only a person wants to know of
//! the objects that are asked about. Never where they come from, and never what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use serde::de::DeserializeOwned;
use service_api::crds::nodeport::port_of;
use service_api::crds::{NodePort, NodePortRange, ServicePool};
use service_api::labels::{Requirement, Selector};
use service_api::service::{cluster_ips, ports, spec_of};

use super::claims;
use super::details::{EventSeen, ForeignSlice, History, PodDetail};
use super::kind::Kind;
use super::wire::{EventWire, HistoryWire, PodDetailWire};
use crate::cache::label;
use crate::index::Index;
use crate::index::slice_set::SliceSet;
use crate::keys;
use crate::objects::{
    EndpointsWire, IpAddressWire, MetaWire, NodeStatusWire, NodeWire, Pairs, ServiceWire, SliceWire, partial,
};
use crate::subsets::Subset;

/// What is asked about: it decides how much of an object is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A slice.
    Slice {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An address.
    Address(IpAddr),
    /// A node port.
    NodePort(u16),
    /// A ServiceCIDR.
    Cidr(String),
    /// All Services or pods of a namespace with these labels.
    Selected {
        /// [`Kind::Service`] or [`Kind::Pod`].
        kind: Kind,
        /// The namespace.
        namespace: String,
        /// What their labels have to meet.
        selector: Selector,
    },
    /// Everything: what would be written for all Services.
    All,
}

impl Subject {
    /// The namespace that it is in, if it is in one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Service { namespace, .. }
            | Self::Pod { namespace, .. }
            | Self::Slice { namespace, .. }
            | Self::Selected { namespace, .. } => Some(namespace),
            Self::Address(_) | Self::NodePort(_) | Self::Cidr(_) | Self::All => None,
        }
    }

    /// Whether objects of this namespace are wanted whole.
    fn is_in(&self, namespace: &str) -> bool {
        self.namespace().is_none_or(|own| own == namespace)
    }

    /// Whether Services are asked about.
    fn is_of_services(&self) -> bool {
        matches!(self, Self::Service { .. } | Self::Selected { kind: Kind::Service, .. })
    }

    /// Whether the Service of this name is asked about, or may be.
    fn concerns(&self, namespace: &str, service: &str) -> bool {
        match self {
            Self::Service { namespace: own, name } => own == namespace && name == service,
            _ => self.is_in(namespace),
        }
    }
}

/// The namespace and name of the Service, pod or slice that something tells of; no namespace for what is in none.
pub(super) type Told = (String, String);

/// What is known of a cluster, as far as it is asked about.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) subject: Subject,
    /// Whether objects come as a server has them: with all that it knows of who changed them.
    pub(super) of_server: bool,
    /// What the controllers know.
    pub index: Index,
    /// Namespace and name of every Service, for near names.
    pub(super) service_names: BTreeSet<(String, String)>,
    pub(crate) services: BTreeMap<(String, String), Service>,
    pub(super) pods: BTreeMap<(String, String), PodDetail>,
    pub(super) foreign: BTreeMap<(String, String), ForeignSlice>,
    pub(super) subsets: BTreeMap<(String, String), Vec<Subset>>,
    /// Who changed what, by what it tells of, and the kind and name of the object.
    pub(super) histories: BTreeMap<(Told, String), History>,
    pub(super) events: Vec<(Told, EventSeen)>,
    pub(crate) cidrs: Vec<ServiceCIDR>,
    pub(crate) addresses: BTreeMap<IpAddr, IPAddress>,
    pub(super) node_ports: BTreeMap<String, NodePort>,
    pub(crate) port_ranges: Vec<NodePortRange>,
    pub(super) pools: Vec<ServicePool>,
    /// Kinds that were looked at.
    known: BTreeSet<Kind>,
    /// Kinds that could not be, and why.
    unknown: BTreeMap<Kind, String>,
}

impl Snapshot {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            of_server: false,
            index: Index::default(),
            service_names: BTreeSet::new(),
            services: BTreeMap::new(),
            pods: BTreeMap::new(),
            foreign: BTreeMap::new(),
            subsets: BTreeMap::new(),
            histories: BTreeMap::new(),
            events: Vec::new(),
            cidrs: Vec::new(),
            addresses: BTreeMap::new(),
            node_ports: BTreeMap::new(),
            port_ranges: Vec::new(),
            pools: Vec::new(),
            known: BTreeSet::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// The same, of a server: what its objects do not say is not left out.
    #[must_use]
    pub fn of_server(subject: Subject) -> Self {
        Self { of_server: true, ..Self::new(subject) }
    }

    /// What is asked about.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// All objects of a kind that matter are there.
    pub fn know(&mut self, kind: Kind) {
        self.known.insert(kind);
    }

    /// The objects of a kind could not be looked at.
    pub fn miss(&mut self, kind: Kind, why: impl Into<String>) {
        self.unknown.insert(kind, why.into());
    }

    /// Whether the objects of a kind were looked at.
    #[must_use]
    pub fn knows(&self, kind: Kind) -> bool {
        self.known.contains(&kind)
    }

    /// The kinds that could not be looked at, and why.
    pub fn missing(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.unknown.iter().filter(|(kind, _)| !self.known.contains(kind)).map(|(k, why)| (*k, why.as_str()))
    }

    /// The names of the Services or pods that are selected by labels, in their order; none if one is asked for by its name.
    #[must_use]
    pub fn selected(&self) -> Vec<String> {
        let Subject::Selected { kind, namespace, selector } = &self.subject else { return Vec::new() };
        if *kind == Kind::Service {
            let own = self.services.iter().filter(|((own, _), _)| own == namespace);
            let labels = |service: &Service| service.metadata.labels.clone().unwrap_or_default();
            let meets = own.filter(|(_, service)| selector.matches(&labels(service)));
            return meets.map(|((_, name), _)| name.clone()).collect();
        }
        let Some(space) = self.index.namespace(namespace) else { return Vec::new() };
        let mut found = Vec::new();
        for name in space.pods.names() {
            let Some((_, labels)) = space.pods.get(name) else { continue };
            let meets =
                |requirement: &Requirement| requirement.holds(labels.get(&requirement.key).map(|v| &**v));
            if selector.requirements.iter().all(meets) {
                found.push(name.to_string());
            }
        }
        found.sort();
        found
    }

    /// The cluster IPs and node ports of a Service.
    #[must_use]
    pub fn values_of(&self, namespace: &str, name: &str) -> (Vec<IpAddr>, Vec<u16>) {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(service) = self.services.get(&key) else { return (Vec::new(), Vec::new()) };
        let spec = spec_of(service);
        let addresses = cluster_ips(spec).iter().filter_map(|ip| ip.parse().ok()).collect();
        let own = ports(spec).iter().filter_map(|port| port.node_port).chain(spec.health_check_node_port);
        let own: BTreeSet<u16> =
            own.filter_map(|port| u16::try_from(port).ok().filter(|port| *port != 0)).collect();
        (addresses, own.into_iter().collect())
    }

    /// The selector of a Service as a request has it, if it selects pods.
    #[must_use]
    pub fn selector_of(&self, namespace: &str, name: &str) -> Option<String> {
        let service = self.index.service(namespace, name).filter(|service| service.has_slices())?;
        let pairs = service.selector.as_ref()?.iter().map(|(key, value)| format!("{key}={value}"));
        Some(pairs.collect::<Vec<_>>().join(","))
    }

    /// Takes in an object.
    ///
    /// # Errors
    /// If it is not what its kind says.
    pub fn add(&mut self, kind: Kind, json: &[u8]) -> Result<(), serde_json::Error> {
        self.know(kind);
        match kind {
            Kind::Service => self.add_service(json),
            Kind::Pod => self.add_pod(json),
            Kind::Node => {
                self.index.apply_node(&read::<NodeWire>(json)?);
                Ok(())
            }
            Kind::EndpointSlice => self.add_slice(json),
            Kind::Endpoints => self.add_endpoints(json),
            Kind::Event => self.add_event(json),
            Kind::IpAddress => {
                self.index.apply_address(&read::<IpAddressWire>(json)?);
                let object: IPAddress = read(json)?;
                if let Some(ip) = object.metadata.name.as_deref().and_then(|name| name.parse().ok()) {
                    if self.subject == Subject::Address(ip) {
                        self.remember(("", &ip.to_string()), "IPAddress", &ip.to_string(), json)?;
                    }
                    self.addresses.insert(ip, object);
                }
                Ok(())
            }
            Kind::ServiceCidr => {
                let object: ServiceCIDR = read(json)?;
                let name = object.metadata.name.clone().unwrap_or_default();
                if matches!(&self.subject, Subject::Cidr(asked) if *asked == name) {
                    self.remember(("", &name), "ServiceCIDR", &name, json)?;
                }
                self.cidrs.push(object);
                Ok(())
            }
            Kind::NodePort => {
                let object: NodePort = read(json)?;
                let name = object.metadata.name.clone().unwrap_or_default();
                if matches!(self.subject, Subject::NodePort(port) if port_of(&name) == Some(port)) {
                    let port = port_of(&name).unwrap_or_default().to_string();
                    self.remember(("", &port), "NodePort", &name, json)?;
                }
                self.node_ports.insert(name, object);
                Ok(())
            }
            Kind::NodePortRange => {
                self.port_ranges.push(read(json)?);
                Ok(())
            }
            Kind::ServicePool => {
                self.pools.push(read(json)?);
                Ok(())
            }
        }
    }

    fn add_service(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let wire: ServiceWire = read(json)?;
        let key = (wire.metadata.namespace.clone(), wire.metadata.name.clone());
        if self.subject.concerns(&key.0, &key.1) {
            self.index.apply_service(&wire);
            let object: Service = read(json)?;
            // What it says of its values is their history, too.
            let told = match self.subject {
                Subject::Address(ip) => claims::has_address(&object, ip).then(|| ip.to_string()),
                Subject::NodePort(port) => claims::has_port(&object, port).then(|| port.to_string()),
                _ => None,
            };
            if let Some(told) = told {
                self.remember(("", &told), "Service", &format!("{}/{}", key.0, key.1), json)?;
            }
            self.services.insert(key.clone(), object);
            if self.subject.is_of_services() {
                self.remember((&key.0, &key.1), "Service", &key.1, json)?;
            }
        }
        self.service_names.insert(key);
        Ok(())
    }

    fn add_pod(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        // Of other namespaces the labels are enough, and those stand at the beginning of a large object.
        let (wire, is_in) = partial::pod_if(json, |metadata| self.subject.is_in(&metadata.namespace))?;
        if !is_in {
            if self.subject.is_of_services() {
                self.index.apply_pod(&wire);
            }
            return Ok(());
        }
        self.index.apply_pod(&wire);
        let ready = wire.status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True");
        let asked = match &self.subject {
            Subject::Pod { name, .. } => *name == wire.metadata.name,
            Subject::Selected { kind: Kind::Pod, selector, .. } => {
                let value = |key: &str| wire.metadata.labels.0.iter().find(|(own, _)| own == key);
                let meets = |requirement: &Requirement| {
                    requirement.holds(value(&requirement.key).map(|(_, value)| value.as_str()))
                };
                selector.requirements.iter().all(meets)
            }
            _ => false,
        };
        if (!ready || asked) && self.subject.namespace().is_some() {
            let detail: PodDetailWire = read(json)?;
            let key = (wire.metadata.namespace.clone(), wire.metadata.name.clone());
            if asked {
                self.remember((&key.0, &key.1), "Pod", &key.1, json)?;
            }
            self.pods.insert(key, PodDetail::from(detail));
        }
        Ok(())
    }

    fn add_slice(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let meta: MetaWire = partial::metadata(json)?;
        let service = label(&meta, keys::SERVICE_NAME).unwrap_or_default();
        if !self.subject.concerns(&meta.namespace, service) {
            return Ok(());
        }
        let wire: SliceWire = read(json)?;
        let key = (meta.namespace.clone(), meta.name.clone());
        match &self.subject {
            Subject::Slice { name, .. } if *name == key.1 => {
                self.remember((&key.0, &key.1), "EndpointSlice", &key.1, json)?;
            }
            subject if subject.is_of_services() => {
                self.remember((&key.0, service), "EndpointSlice", &key.1, json)?;
            }
            _ => {}
        }
        if crate::cache::keeper(&meta).is_none() {
            self.foreign.insert(key, ForeignSlice::new(&wire));
        }
        self.index.apply_slice(wire);
        Ok(())
    }

    fn add_endpoints(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let meta: MetaWire = partial::metadata(json)?;
        if !self.subject.concerns(&meta.namespace, &meta.name) {
            return Ok(());
        }
        let wire: EndpointsWire = read(json)?;
        let key = (meta.namespace.clone(), meta.name.clone());
        if self.subject.is_of_services() {
            let shared = &mut self.index.shared;
            let subsets = wire.subsets.iter().cloned();
            let subsets = subsets.map(|subset| Subset::read(subset, &key.0, shared)).collect();
            self.subsets.insert(key.clone(), subsets);
            self.remember((&key.0, &key.1), "Endpoints", &key.1, json)?;
        }
        self.index.apply_endpoints(wire);
        Ok(())
    }

    fn add_event(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let (kind, namespace, name) = match &self.subject {
            Subject::Service { namespace, name } => ("Service", Some(namespace), Some(name)),
            Subject::Pod { namespace, name } => ("Pod", Some(namespace), Some(name)),
            Subject::Slice { namespace, name } => ("EndpointSlice", Some(namespace), Some(name)),
            Subject::Cidr(name) => ("ServiceCIDR", None, Some(name)),
            Subject::Selected { kind, namespace, .. } => (kind.name(), Some(namespace), None),
            Subject::Address(_) | Subject::NodePort(_) | Subject::All => return Ok(()),
        };
        let wire: EventWire = read(json)?;
        let object = &wire.involved_object;
        let is_kind = object.kind == kind || (kind == "Service" && object.kind == "Endpoints");
        let is_named = name.is_none_or(|name| object.name == *name);
        if is_kind && is_named && namespace.is_none_or(|own| object.namespace == *own) {
            let told = (namespace.cloned().unwrap_or_default(), object.name.clone());
            self.events.push((told, wire.into()));
        }
        Ok(())
    }

    /// The pods that have an address, as `namespace/name`.
    pub(super) fn pods_with(&self, ip: IpAddr) -> Vec<String> {
        let mut found = Vec::new();
        for (namespace, space) in &self.index.namespaces {
            for (_, set) in space.pods.by_labels() {
                let having = set.filter(|pod| !pod.finished && pod.ips.iter().any(|own| *own == ip.into()));
                found.extend(having.map(|pod| format!("{namespace}/{}", pod.name)));
            }
        }
        found.sort();
        found
    }

    /// The names of the slices of a namespace.
    pub(super) fn slice_names<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a str> {
        let space = self.index.namespace(namespace).into_iter();
        let sets = space.flat_map(|space| space.slices.values().chain(space.mirrors.values()));
        let ours = sets.flat_map(SliceSet::slices).map(|slice| &*slice.name);
        let foreign = self.foreign.keys().filter(move |(own, _)| own == namespace);
        ours.chain(foreign.map(|(_, name)| name.as_str()))
    }

    /// All objects are in. Where nodes could not be looked at, those that pods and slices name are taken to exist.
    pub fn settle(&mut self) {
        if self.knows(Kind::Node) {
            return;
        }
        let mut nodes: BTreeMap<String, Option<String>> = BTreeMap::new();
        for space in self.index.namespaces.values() {
            for (_, set) in space.pods.by_labels() {
                nodes.extend(set.filter_map(|pod| Some((pod.node.as_deref()?.to_owned(), None))));
            }
        }
        for space in self.index.namespaces.values() {
            for slice in space.slices.values().flat_map(SliceSet::slices) {
                let placed =
                    slice.endpoints.iter().filter_map(|e| Some((e.node.as_deref()?, e.zone.as_deref()?)));
                nodes.extend(placed.map(|(node, zone)| (node.to_owned(), Some(zone.to_owned()))));
            }
        }
        for (name, zone) in nodes {
            let labels = Pairs(zone.map(|zone| (keys::ZONE.to_owned(), zone)).into_iter().collect());
            let metadata = MetaWire { name, labels, ..MetaWire::default() };
            self.index.apply_node(&NodeWire { metadata, status: NodeStatusWire::default() });
        }
    }

    /// Keeps who changed an object that tells of something.
    fn remember(
        &mut self,
        (namespace, told): (&str, &str),
        kind: &str,
        name: &str,
        json: &[u8],
    ) -> Result<(), serde_json::Error> {
        let wire: HistoryWire = partial::metadata(json)?;
        let told = (namespace.to_owned(), told.to_owned());
        self.histories.insert((told, format!("{kind} {name}")), wire.into());
        Ok(())
    }
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(json)
}
