//! The caches' own small structs: what a controller reads of each object, with shared strings.
//!
//! Owns the conversion from the wire; never an index and never a decision.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use smallvec::SmallVec;

use super::objects::{
    ContainerWire, EndpointWire, IntOrText, MetaWire, NodeWire, OwnerWire, PodWire, PortWire, RefWire, ServiceWire,
    SliceWire,
};
use crate::keys;
use crate::text::{Address, Interner, Labels, Text, Uid};

/// The tables of values that objects share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Strings and label sets.
    pub texts: Interner,
    named_ports: HashSet<Arc<[NamedPort]>>,
    ports: HashSet<Ports>,
    hints: HashSet<Arc<Hints>>,
}

fn share<T: Hash + Eq + Clone>(table: &mut HashSet<T>, value: T) -> T {
    if let Some(known) = table.get(&value) {
        return known.clone();
    }
    table.insert(value.clone());
    value
}

impl Shared {
    fn optional(&mut self, text: &str) -> Option<Text> {
        (!text.is_empty()).then(|| self.texts.text(text))
    }

    /// The shared copy of a list of ports.
    pub fn ports(&mut self, ports: Ports) -> Ports {
        share(&mut self.ports, ports)
    }

    /// The shared copy of hints.
    pub fn hints(&mut self, hints: Hints) -> Arc<Hints> {
        share(&mut self.hints, Arc::new(hints))
    }
}

/// An IP protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, the default.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl From<Option<&str>> for Protocol {
    fn from(name: Option<&str>) -> Self {
        match name {
            Some("UDP") => Self::Udp,
            Some("SCTP") => Self::Sctp,
            _ => Self::Tcp,
        }
    }
}

/// A container port that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPort {
    /// The name.
    pub name: Text,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: i32,
}

/// Seconds since 1970.
pub type Seconds = i64;

/// Reads an RFC 3339 time.
pub(crate) fn seconds(text: Option<&String>) -> Option<Seconds> {
    text.and_then(|t| t.parse::<jiff::Timestamp>().ok()).map(jiff::Timestamp::as_second)
}

/// Writes a time as the API spells it; an impossible one as the epoch.
#[must_use]
pub fn rfc3339(time: Seconds) -> String {
    jiff::Timestamp::from_second(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Node it is bound to.
    pub node: Option<Text>,
    /// Addresses in the order of its status.
    pub ips: SmallVec<[Address; 1]>,
    /// Host name asked for.
    pub hostname: Option<Text>,
    /// Subdomain asked for.
    pub subdomain: Option<Text>,
    /// Ports with names, containers first, then sidecars.
    pub named_ports: Arc<[NamedPort]>,
    /// When the Ready condition last changed.
    pub ready_since: Option<Seconds>,
    /// Whether the Ready condition is True.
    pub ready: bool,
    /// Whether deletion has been asked for.
    pub terminating: bool,
    /// Whether its phase is Succeeded or Failed.
    pub finished: bool,
}

impl Pod {
    /// Reads a pod; its labels are returned beside it, since they are kept per set of labels.
    pub fn read(wire: &PodWire, shared: &mut Shared) -> (Self, Labels) {
        let ready = wire.status.conditions.iter().find(|c| c.r#type == "Ready");
        let mut ips: SmallVec<[Address; 1]> =
            wire.status.pod_ips.iter().filter(|ip| !ip.ip.is_empty()).map(|ip| ip.ip.as_str().into()).collect();
        if ips.is_empty() && !wire.status.pod_ip.is_empty() {
            ips.push(wire.status.pod_ip.as_str().into());
        }
        let sidecars = wire.spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let pod = Self {
            name: shared.texts.text(&wire.metadata.name),
            uid: wire.metadata.uid.as_str().into(),
            node: shared.optional(&wire.spec.node_name),
            ips,
            hostname: shared.optional(&wire.spec.hostname),
            subdomain: shared.optional(&wire.spec.subdomain),
            named_ports: named_ports(wire.spec.containers.iter().chain(sidecars), shared),
            ready_since: ready.and_then(|c| seconds(c.last_transition_time.as_ref())),
            ready: ready.is_some_and(|c| c.status == "True"),
            terminating: wire.metadata.deletion_timestamp.is_some(),
            finished: matches!(wire.status.phase.as_str(), "Succeeded" | "Failed"),
        };
        (pod, shared.texts.labels(&wire.metadata.labels.0))
    }

    /// Whether the pod can be an endpoint at all: it has an address and has not finished.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        !self.finished && !self.ips.is_empty()
    }
}

fn named_ports<'a>(containers: impl Iterator<Item = &'a ContainerWire>, shared: &mut Shared) -> Arc<[NamedPort]> {
    let mut ports = Vec::new();
    for port in containers.flat_map(|c| &c.ports).filter(|p| !p.name.is_empty()) {
        ports.push(NamedPort {
            name: shared.texts.text(&port.name),
            protocol: port.protocol.as_deref().into(),
            number: port.container_port,
        });
    }
    share(&mut shared.named_ports, ports.into())
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Zone, if it has one.
    pub zone: Option<Text>,
    /// Allocatable CPU in thousandths; 0 if not given.
    pub cpu: i64,
    /// Whether the Ready condition is True.
    pub ready: bool,
    /// Whether it belongs to the control plane and is left out of the topology account.
    pub control_plane: bool,
    /// Hints of an endpoint here that should serve its zone; none without a zone.
    pub zone_hints: Option<Arc<Hints>>,
    /// Hints of an endpoint here that should serve its node, and its zone if there is one.
    pub node_hints: Arc<Hints>,
}

impl Node {
    /// Reads a node.
    pub fn read(wire: &NodeWire, shared: &mut Shared) -> Self {
        let label = |key: &str| wire.metadata.labels.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let zone = label(keys::ZONE).and_then(|zone| shared.optional(zone));
        let zones: SmallVec<[Text; 1]> = zone.iter().cloned().collect();
        let name = shared.texts.text(&wire.metadata.name);
        let node_hints = Hints { zones: zones.clone(), nodes: [name].into_iter().collect() };
        Self {
            zone_hints: zone.as_ref().map(|_| shared.hints(Hints { zones, ..Hints::default() })),
            node_hints: shared.hints(node_hints),
            zone,
            cpu: wire.status.allocatable.cpu.as_deref().map_or(0, milli),
            ready: wire.status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"),
            control_plane: keys::CONTROL_PLANE_ROLES.iter().any(|role| label(role).is_some()),
        }
    }
}

/// A quantity in thousandths, rounded up; 0 for what is none. (API reference, "Quantity".)
#[must_use]
pub fn milli(quantity: &str) -> i64 {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| quantity.strip_suffix(suffix).map(|number| (number, *factor)))
        .unwrap_or((quantity, 1.0));
    let value = number.parse::<f64>().unwrap_or(0.0) * factor * 1000.0;
    #[allow(clippy::cast_possible_truncation)] // saturates, which is what a quantity should do
    {
        (value - 1e-6).ceil().max(0.0) as i64
    }
}

/// The family or kind of the addresses in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum AddressType {
    /// IPv4 addresses.
    IPv4,
    /// IPv6 addresses.
    IPv6,
    /// Host names; no controller of ours makes these.
    #[serde(rename = "FQDN")]
    Fqdn,
}

impl AddressType {
    /// The name the API uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }

    /// Whether `address` belongs to this family.
    #[must_use]
    pub fn holds(self, address: &Address) -> bool {
        address.is_ipv6() == Some(self == Self::IPv6)
    }
}

/// The port of the pods that a Service's port leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// This number on every pod.
    Number(i32),
    /// Whatever number the pod's port of this name has.
    Name(Text),
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Name, may be empty.
    pub name: Text,
    /// Protocol.
    pub protocol: Protocol,
    /// Where it leads.
    pub target: TargetPort,
    /// Application protocol.
    pub app_protocol: Option<Text>,
}

/// The hints a Service asks for by its field `trafficDistribution` (KEP-3015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// `PreferClose` or `PreferSameZone`: the endpoint's zone.
    SameZone,
    /// `PreferSameNode`: the endpoint's zone and node.
    SameNode,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// When it was made.
    pub created: Seconds,
    /// Whether deletion has been asked for.
    pub deleting: bool,
    /// Labels.
    pub labels: Labels,
    /// Selector; none if there is none or it is empty.
    pub selector: Option<Labels>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Families that its slices come in.
    pub families: SmallVec<[AddressType; 2]>,
    /// Whether it has no cluster IP.
    pub headless: bool,
    /// Whether it is of type `ExternalName`.
    pub external_name: bool,
    /// Whether pods count as ready whatever they say.
    pub publish_not_ready: bool,
    /// Hints by field.
    pub traffic: Option<Traffic>,
    /// Hints by annotation: topology-mode Auto.
    pub topology_auto: bool,
}

impl Service {
    /// Reads a Service.
    pub fn read(wire: &ServiceWire, shared: &mut Shared) -> Self {
        let annotation = |key: &str| wire.metadata.annotations.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let mode = annotation(keys::TOPOLOGY_HINTS).or_else(|| annotation(keys::TOPOLOGY_MODE));
        let headless = matches!(wire.spec.cluster_ip.as_str(), "None" | "");
        Self {
            namespace: shared.texts.text(&wire.metadata.namespace),
            name: shared.texts.text(&wire.metadata.name),
            uid: wire.metadata.uid.as_str().into(),
            created: seconds(wire.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            labels: shared.texts.labels(&wire.metadata.labels.0),
            selector: wire.spec.selector.as_ref().filter(|s| !s.0.is_empty()).map(|s| shared.texts.labels(&s.0)),
            ports: wire.spec.ports.iter().map(|p| ServicePort {
                name: shared.texts.text(&p.name),
                protocol: p.protocol.as_deref().into(),
                target: match &p.target_port {
                    None => TargetPort::Number(p.port),
                    Some(IntOrText::Int(number)) => TargetPort::Number(*number),
                    Some(IntOrText::Text(name)) => TargetPort::Name(shared.texts.text(name)),
                },
                app_protocol: p.app_protocol.as_deref().map(|a| shared.texts.text(a)),
            }).collect(),
            families: families(wire),
            headless,
            external_name: wire.spec.r#type == "ExternalName",
            publish_not_ready: wire.spec.publish_not_ready_addresses,
            traffic: match wire.spec.traffic_distribution.as_deref() {
                Some("PreferClose" | "PreferSameZone") => Some(Traffic::SameZone),
                Some("PreferSameNode") => Some(Traffic::SameNode),
                _ => None,
            },
            topology_auto: matches!(mode, Some("Auto" | "auto")),
        }
    }
}

/// The families of a Service; for one older than dual-stack those of its cluster IP, for a headless
/// one both.
fn families(wire: &ServiceWire) -> SmallVec<[AddressType; 2]> {
    let stated: SmallVec<[AddressType; 2]> = wire.spec.ip_families.iter().filter_map(|f| match f.as_str() {
        "IPv4" => Some(AddressType::IPv4),
        "IPv6" => Some(AddressType::IPv6),
        _ => None,
    }).collect();
    if !stated.is_empty() {
        return stated;
    }
    match Address::from(wire.spec.cluster_ip.as_str()).is_ipv6() {
        Some(true) => [AddressType::IPv6].into_iter().collect(),
        Some(false) => [AddressType::IPv4].into_iter().collect(),
        None => [AddressType::IPv4, AddressType::IPv6].into_iter().collect(),
    }
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Name, may be empty.
    pub name: Text,
    /// Protocol.
    pub protocol: Protocol,
    /// Number; none means all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

/// The ports of a slice in the order of the Service; lists that differ in order only are equal.
#[derive(Clone, Debug, Serialize)]
pub struct Ports(Arc<[Port]>);

impl Default for Ports {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl FromIterator<Port> for Ports {
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        Self(ports.into_iter().collect())
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0 {
            return true;
        }
        self.0.len() == other.0.len() && self.0.len() > 1 && self.sorted() == other.sorted()
    }
}

impl Eq for Ports {}

impl Hash for Ports {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sorted().hash(state);
    }
}

impl Ports {
    fn sorted(&self) -> SmallVec<[&Port; 4]> {
        let mut ports: SmallVec<[&Port; 4]> = self.0.iter().collect();
        ports.sort();
        ports
    }

    /// The ports.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Port> {
        self.0.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read(wire: &[PortWire], shared: &mut Shared) -> Self {
        let ports = wire.iter().map(|p| Port {
            name: shared.texts.text(p.name.as_deref().unwrap_or_default()),
            protocol: p.protocol.as_deref().into(),
            port: p.port,
            app_protocol: p.app_protocol.as_deref().map(|a| shared.texts.text(a)),
        }).collect();
        shared.ports(ports)
    }
}

/// Whom an endpoint should serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Zones.
    pub zones: SmallVec<[Text; 1]>,
    /// Nodes.
    pub nodes: SmallVec<[Text; 1]>,
}

/// What an endpoint stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A pod in the slice's own namespace.
    Pod {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Uid,
    },
    /// Anything else, as it was written.
    Other(Box<RefWire>),
}

impl Target {
    /// Reads a reference found in an object of `namespace`.
    pub(crate) fn read(wire: RefWire, namespace: &str, shared: &mut Shared) -> Self {
        match &wire {
            RefWire {
                kind: Some(kind),
                namespace: Some(ns),
                name: Some(name),
                uid,
                api_version: None,
                resource_version: None,
                field_path: None,
            } if kind == "Pod" && ns == namespace => Self::Pod {
                name: shared.texts.text(name),
                uid: uid.as_deref().unwrap_or_default().into(),
            },
            _ => Self::Other(Box::new(wire)),
        }
    }
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Addresses, one in practice.
    pub addresses: SmallVec<[Address; 1]>,
    /// Ready for traffic.
    pub ready: Option<bool>,
    /// Serving, terminating or not.
    pub serving: Option<bool>,
    /// Terminating.
    pub terminating: Option<bool>,
    /// Host name.
    pub hostname: Option<Text>,
    /// What it stands for.
    pub target: Option<Target>,
    /// Node.
    pub node: Option<Text>,
    /// Zone.
    pub zone: Option<Text>,
    /// Whom it should serve.
    pub hints: Option<Arc<Hints>>,
}

impl Endpoint {
    /// Reads an endpoint of a slice in `namespace`.
    pub(crate) fn read(wire: EndpointWire, namespace: &str, shared: &mut Shared) -> Self {
        let hints = wire.hints.map(|h| Hints {
            zones: h.for_zones.iter().map(|z| shared.texts.text(&z.name)).collect(),
            nodes: h.for_nodes.iter().map(|n| shared.texts.text(&n.name)).collect(),
        });
        Self {
            addresses: wire.addresses.iter().map(|a| a.as_str().into()).collect(),
            ready: wire.conditions.ready,
            serving: wire.conditions.serving,
            terminating: wire.conditions.terminating,
            hostname: wire.hostname.as_deref().map(|h| shared.texts.text(h)),
            target: wire.target_ref.map(|t| Target::read(t, namespace, shared)),
            node: wire.node_name.as_deref().map(|n| shared.texts.text(n)),
            zone: wire.zone.as_deref().map(|z| shared.texts.text(z)),
            hints: hints.map(|h| shared.hints(h)),
        }
    }

    /// The name of the pod it stands for.
    #[must_use]
    pub fn pod(&self) -> Option<&Text> {
        match &self.target {
            Some(Target::Pod { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Whether proxies may send traffic here; an unknown condition counts as ready (API reference).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready != Some(false)
    }

    /// Whether both stand for the same thing: addresses, host name and the object referred to.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.hostname == other.hostname && self.pod() == other.pod()
    }

    /// Whether both are equal but for their hints.
    #[must_use]
    pub fn equals_beside_hints(&self, other: &Self) -> bool {
        self.is_same(other)
            && (self.ready, self.serving, self.terminating) == (other.ready, other.serving, other.terminating)
            && self.node == other.node
            && self.zone == other.zone
            && self.target == other.target
    }
}

/// A controller of ours that keeps slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SliceKeeper {
    /// The EndpointSlice controller.
    Slices,
    /// The mirroring controller.
    Mirrors,
}

/// An `EndpointSlice` that a controller of ours keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Version of the object.
    pub version: u64,
    /// Counts changes of content and labels.
    pub generation: i64,
    /// Prefix the name was generated from.
    pub generate_name: Option<Text>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Owners.
    pub owners: Arc<[Owner]>,
    /// Finalizers.
    pub finalizers: Arc<[Text]>,
    /// Whether deletion has been asked for.
    pub deleting: bool,
    /// Family.
    pub family: AddressType,
    /// Ports.
    pub ports: Ports,
    /// Endpoints.
    pub endpoints: Arc<Vec<Endpoint>>,
}

/// An owner of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Group and version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Whether it is the managing controller.
    pub controller: Option<bool>,
    /// Whether its deletion waits for the object.
    pub block: Option<bool>,
}

impl Owner {
    pub(crate) fn read(wire: &OwnerWire, shared: &mut Shared) -> Self {
        Self {
            api_version: shared.texts.text(&wire.api_version),
            kind: shared.texts.text(&wire.kind),
            name: shared.texts.text(&wire.name),
            uid: wire.uid.as_str().into(),
            controller: wire.controller,
            block: wire.block_owner_deletion,
        }
    }

    /// The reference that a controller puts on what it makes for an object of API version v1.
    #[must_use]
    pub fn controller(kind: &str, name: &Text, uid: &Uid) -> Self {
        Self {
            api_version: "v1".into(),
            kind: kind.into(),
            name: Arc::clone(name),
            uid: uid.clone(),
            controller: Some(true),
            block: Some(true),
        }
    }
}

/// The version of an object as a number; 0 if it is none.
#[must_use]
pub fn version(meta: &MetaWire) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}

/// Who keeps a slice with these labels.
#[must_use]
pub fn keeper(meta: &MetaWire) -> Option<SliceKeeper> {
    match label(meta, keys::MANAGED_BY) {
        Some(keys::SLICE_MANAGER) => Some(SliceKeeper::Slices),
        Some(keys::MIRROR_MANAGER) => Some(SliceKeeper::Mirrors),
        _ => None,
    }
}

/// A label of an object.
#[must_use]
pub fn label<'a>(meta: &'a MetaWire, key: &str) -> Option<&'a str> {
    meta.labels.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

impl Slice {
    /// Reads a slice.
    pub fn read(wire: SliceWire, shared: &mut Shared) -> Self {
        let meta = &wire.metadata;
        Self {
            name: shared.texts.text(&meta.name),
            uid: meta.uid.as_str().into(),
            version: version(meta),
            generation: meta.generation,
            generate_name: meta.generate_name.as_deref().map(|g| shared.texts.text(g)),
            labels: shared.texts.labels(&meta.labels.0),
            annotations: shared.texts.labels(&meta.annotations.0),
            owners: meta.owner_references.iter().map(|o| Owner::read(o, shared)).collect(),
            finalizers: meta.finalizers.iter().map(|f| shared.texts.text(f)).collect(),
            deleting: meta.deletion_timestamp.is_some(),
            family: match wire.address_type.as_str() {
                "IPv4" => AddressType::IPv4,
                "IPv6" => AddressType::IPv6,
                _ => AddressType::Fqdn,
            },
            ports: Ports::read(&wire.ports, shared),
            endpoints: Arc::new(wire.endpoints.into_iter().map(|e| Endpoint::read(e, &wire.metadata.namespace, shared)).collect()),
        }
    }

    /// Whether the object with this uid owns the slice.
    #[must_use]
    pub fn is_owned_by(&self, kind: &str, uid: &Uid) -> bool {
        self.owners.iter().any(|o| &*o.kind == kind && &*o.api_version == "v1" && o.uid == *uid)
    }

    /// The Service it belongs to, by its label.
    #[must_use]
    pub fn service(&self) -> Option<&Text> {
        self.labels.get(keys::SERVICE_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("4", 4000)]
    #[case("3900m", 3900)]
    #[case("0.5", 500)]
    #[case("1500u", 2)]
    #[case("2k", 2_000_000)]
    #[case("0", 0)]
    #[case("junk", 0)]
    #[case("1e1", 10_000)]
    fn quantities_count_thousandths(#[case] quantity: &str, #[case] thousandths: i64) {
        assert_eq!(milli(quantity), thousandths);
    }

    #[test]
    fn an_endpoint_is_small() {
        assert!(size_of::<Endpoint>() <= 200, "{} bytes", size_of::<Endpoint>());
        assert!(size_of::<Pod>() <= 200, "{} bytes", size_of::<Pod>());
    }
}
