//! A Service as it is kept.

use smallvec::SmallVec;

use super::{AddressType, Interners, Protocol, Seconds, seconds};
use crate::keys;
use crate::objects::{IntOrText, ServiceWire};
use crate::text::{Address, Labels, Text, Uid};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// `PreferClose`: the endpoint's zone.
    Close,
    /// `PreferSameZone`: the same.
    SameZone,
    /// `PreferSameNode`: the endpoint's zone and node.
    SameNode,
}

impl Traffic {
    /// All that is known; any other value asks for nothing.
    pub const ALL: [Self; 3] = [Self::Close, Self::SameZone, Self::SameNode];

    /// The name the API uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "PreferClose",
            Self::SameZone => "PreferSameZone",
            Self::SameNode => "PreferSameNode",
        }
    }
}

/// What a Service's endpoints get their hints from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hinting {
    /// Nothing: they have none.
    #[default]
    Off,
    /// The annotation topology-mode; it comes before the field.
    TopologyMode,
    /// The field `trafficDistribution`.
    Field(Traffic),
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
    pub fn read(wire: &ServiceWire, shared: &mut Interners) -> Self {
        let annotation =
            |key: &str| wire.metadata.annotations.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let mode = annotation(keys::TOPOLOGY_HINTS).or_else(|| annotation(keys::TOPOLOGY_MODE));
        let headless = matches!(wire.spec.cluster_ip.as_str(), "None" | "");
        Self {
            namespace: shared.texts.text(&wire.metadata.namespace),
            name: shared.texts.text(&wire.metadata.name),
            uid: wire.metadata.uid.as_str().into(),
            created: seconds(wire.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            labels: shared.texts.labels(&wire.metadata.labels.0),
            selector: wire
                .spec
                .selector
                .as_ref()
                .filter(|s| !s.0.is_empty())
                .map(|s| shared.texts.labels(&s.0)),
            ports: wire
                .spec
                .ports
                .iter()
                .map(|p| ServicePort {
                    name: shared.texts.text(&p.name),
                    protocol: p.protocol.as_deref().into(),
                    target: match &p.target_port {
                        None => TargetPort::Number(p.port),
                        Some(IntOrText::Int(number)) => TargetPort::Number(*number),
                        Some(IntOrText::Text(name)) => TargetPort::Name(shared.texts.text(name)),
                    },
                    app_protocol: p.app_protocol.as_deref().map(|a| shared.texts.text(a)),
                })
                .collect(),
            families: families(wire),
            headless,
            external_name: wire.spec.r#type == "ExternalName",
            publish_not_ready: wire.spec.publish_not_ready_addresses,
            traffic: wire
                .spec
                .traffic_distribution
                .as_deref()
                .and_then(|asked| Traffic::ALL.into_iter().find(|traffic| traffic.name() == asked)),
            topology_auto: matches!(mode, Some("Auto" | "auto")),
        }
    }

    /// What its endpoints get their hints from.
    #[must_use]
    pub fn hinting(&self) -> Hinting {
        match self.traffic {
            _ if self.topology_auto => Hinting::TopologyMode,
            Some(traffic) => Hinting::Field(traffic),
            None => Hinting::Off,
        }
    }

    /// Whether slices are made for it from pods.
    #[must_use]
    pub fn has_slices(&self) -> bool {
        self.selector.is_some() && !self.external_name
    }
}

/// The families of a Service; for one older than dual-stack those of its cluster IP, for a headless
/// one both.
fn families(wire: &ServiceWire) -> SmallVec<[AddressType; 2]> {
    let stated: SmallVec<[AddressType; 2]> = wire
        .spec
        .ip_families
        .iter()
        .filter_map(|f| match f.as_str() {
            "IPv4" => Some(AddressType::IPv4),
            "IPv6" => Some(AddressType::IPv6),
            _ => None,
        })
        .collect();
    if !stated.is_empty() {
        return stated;
    }
    match Address::from(wire.spec.cluster_ip.as_str()).is_ipv6() {
        Some(true) => [AddressType::IPv6].into_iter().collect(),
        Some(false) => [AddressType::IPv4].into_iter().collect(),
        None => [AddressType::IPv4, AddressType::IPv6].into_iter().collect(),
    }
}
