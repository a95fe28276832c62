//! What the controllers read of each kind, decoded straight from the wire.
//!
//! A pod is some 5 KB of JSON of which an endpoint needs a twentieth: everything else is skipped by
//! the parser and never allocated. These types live for one event; the caches keep smaller ones.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use kube::api::ObjectMeta;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// String pairs in the order of their keys, as labels and annotations are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((key, value)) = map.next_entry::<String, Option<String>>()? {
                    pairs.push((key, value.unwrap_or_default()));
                }
                pairs.sort();
                Ok(Pairs(pairs))
            }
            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }
        }
        deserializer.deserialize_any(PairsVisitor)
    }
}

/// A list that the API may leave out or give as `null`.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// An owner reference.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerWire {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner.
    pub uid: String,
    /// Whether the owner is the managing controller.
    pub controller: Option<bool>,
    /// Whether the owner's deletion waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// Object metadata as far as a controller needs it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaWire {
    /// Name of the object.
    pub name: String,
    /// Prefix the name was generated from.
    pub generate_name: Option<String>,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Uid of the object.
    pub uid: String,
    /// Version of the object; a decimal number.
    pub resource_version: String,
    /// Counts the changes of the desired state.
    pub generation: i64,
    /// When it was made, RFC 3339.
    pub creation_timestamp: Option<String>,
    /// When its deletion was asked for, RFC 3339.
    pub deletion_timestamp: Option<String>,
    /// Labels by key.
    pub labels: Pairs,
    /// Annotations by key.
    pub annotations: Pairs,
    /// Owners.
    #[serde(deserialize_with = "list")]
    pub owner_references: Vec<OwnerWire>,
    /// Finalizers.
    #[serde(deserialize_with = "list")]
    pub finalizers: Vec<String>,
}

/// A value of which only the presence counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredValue;

impl<'de> Deserialize<'de> for IgnoredValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// A pod's metadata: no annotations, no owners, no managed fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetaWire {
    /// Name of the pod.
    pub name: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Uid of the pod.
    pub uid: String,
    /// Version of the object.
    pub resource_version: String,
    /// Present when the pod is being deleted.
    pub deletion_timestamp: Option<IgnoredValue>,
    /// Labels by key.
    pub labels: Pairs,
}

/// What the metadata types have in common.
pub trait WireMeta {
    /// The part of the metadata that kube's watcher wants.
    fn kube_meta(&self) -> ObjectMeta;
}

impl WireMeta for MetaWire {
    fn kube_meta(&self) -> ObjectMeta {
        ObjectMeta { resource_version: Some(self.resource_version.clone()), ..ObjectMeta::default() }
    }
}

impl WireMeta for PodMetaWire {
    fn kube_meta(&self) -> ObjectMeta {
        ObjectMeta { resource_version: Some(self.resource_version.clone()), ..ObjectMeta::default() }
    }
}

/// A kind that the controllers watch: where it is served and how it is decoded.
pub trait Watched: Clone + fmt::Debug + Send + Sync + DeserializeOwned + 'static {
    /// The metadata read of this kind.
    type Meta: WireMeta;
    /// API group, empty for the core group.
    const GROUP: &'static str;
    /// API version.
    const VERSION: &'static str;
    /// Kind.
    const KIND: &'static str;
    /// Plural name in paths.
    const PLURAL: &'static str;
    /// The metadata of this object.
    fn wire_meta(&self) -> &Self::Meta;
}

/// A watched object in the shape that kube's watcher asks for.
#[derive(Clone, Debug)]
pub struct Seen<W> {
    /// The object.
    pub object: W,
    meta: ObjectMeta,
}

impl<'de, W: Watched> Deserialize<'de> for Seen<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = W::deserialize(deserializer)?;
        let meta = object.wire_meta().kube_meta();
        Ok(Self { object, meta })
    }
}

impl<W: Watched> kube::Resource for Seen<W> {
    type DynamicType = ();
    type Scope = kube::core::DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        W::KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        W::GROUP.into()
    }
    fn version((): &()) -> Cow<'_, str> {
        W::VERSION.into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        W::PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

macro_rules! watched {
    ($type:ident, $meta:ident, $group:literal, $kind:literal, $plural:literal) => {
        impl Watched for $type {
            type Meta = $meta;
            const GROUP: &'static str = $group;
            const VERSION: &'static str = "v1";
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            fn wire_meta(&self) -> &$meta {
                &self.metadata
            }
        }
    };
}

watched!(PodWire, PodMetaWire, "", "Pod", "pods");
watched!(NodeWire, MetaWire, "", "Node", "nodes");
watched!(ServiceWire, MetaWire, "", "Service", "services");
watched!(SliceWire, MetaWire, "discovery.k8s.io", "EndpointSlice", "endpointslices");
watched!(EndpointsWire, MetaWire, "", "Endpoints", "endpoints");
watched!(CidrWire, MetaWire, "networking.k8s.io", "ServiceCIDR", "servicecidrs");
watched!(IpAddressWire, MetaWire, "networking.k8s.io", "IPAddress", "ipaddresses");

/// A ServiceCIDR.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CidrWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// Spec.
    pub spec: CidrSpecWire,
    /// Status.
    pub status: CidrStatusWire,
}

/// A ServiceCIDR's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CidrSpecWire {
    /// Ranges.
    #[serde(deserialize_with = "list")]
    pub cidrs: Vec<String>,
}

/// A ServiceCIDR's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CidrStatusWire {
    /// Conditions, as they were written.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<serde_json::Value>,
}

/// An `IPAddress`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpAddressWire {
    /// Metadata; the name is the address.
    pub metadata: MetaWire,
}

/// A condition of a pod or node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionWire {
    /// Its type, such as `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status last changed, RFC 3339.
    pub last_transition_time: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    /// Metadata.
    pub metadata: PodMetaWire,
    /// Spec.
    pub spec: PodSpecWire,
    /// Status.
    pub status: PodStatusWire,
}

/// A pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecWire {
    /// Node the pod is bound to.
    pub node_name: String,
    /// Host name asked for.
    pub hostname: String,
    /// Subdomain asked for.
    pub subdomain: String,
    /// Containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<ContainerWire>,
    /// Init containers; those with restart policy Always are sidecars.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<ContainerWire>,
}

/// A container, as far as its ports.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerWire {
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ContainerPortWire>,
}

/// A container's port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPortWire {
    /// Name, may be empty.
    pub name: String,
    /// Number.
    pub container_port: i32,
    /// Protocol, TCP if missing.
    pub protocol: Option<String>,
}

/// A pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusWire {
    /// Phase.
    pub phase: String,
    /// First address.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs", deserialize_with = "list")]
    pub pod_ips: Vec<IpWire>,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<ConditionWire>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpWire {
    /// The address.
    pub ip: String,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// Status.
    pub status: NodeStatusWire,
}

/// A node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusWire {
    /// What pods may use.
    pub allocatable: AllocatableWire,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<ConditionWire>,
}

/// A node's allocatable resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatableWire {
    /// CPU as a quantity.
    pub cpu: Option<String>,
}

/// A Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// Spec.
    pub spec: ServiceSpecWire,
}

/// A Service's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpecWire {
    /// Type.
    pub r#type: String,
    /// First cluster IP, `None` for headless.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// Families.
    #[serde(deserialize_with = "list")]
    pub ip_families: Vec<String>,
    /// Selector.
    pub selector: Option<Pairs>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ServicePortWire>,
    /// Whether pods count as ready whatever they say.
    pub publish_not_ready_addresses: bool,
    /// Traffic distribution preference.
    pub traffic_distribution: Option<String>,
}

/// A Service's port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePortWire {
    /// Name, may be empty.
    pub name: String,
    /// Protocol, TCP if missing.
    pub protocol: Option<String>,
    /// Number.
    pub port: i32,
    /// Number or name of the pods' port.
    pub target_port: Option<IntOrText>,
    /// Application protocol.
    pub app_protocol: Option<String>,
}

/// A port by number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrText {
    /// A number.
    Int(i32),
    /// A name.
    Text(String),
}

impl<'de> Deserialize<'de> for IntOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either(PhantomData<()>);
        impl Visitor<'_> for Either {
            type Value = IntOrText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number or a port name")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<IntOrText, E> {
                i32::try_from(value).map(IntOrText::Int).map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<IntOrText, E> {
                i32::try_from(value).map(IntOrText::Int).map_err(E::custom)
            }
            fn visit_str<E>(self, value: &str) -> Result<IntOrText, E> {
                Ok(IntOrText::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints.
    #[serde(deserialize_with = "list")]
    pub endpoints: Vec<EndpointWire>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<PortWire>,
}

/// A port of a slice or of an Endpoints subset.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortWire {
    /// Name.
    pub name: Option<String>,
    /// Protocol.
    pub protocol: Option<String>,
    /// Number.
    pub port: Option<i32>,
    /// Application protocol.
    pub app_protocol: Option<String>,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointWire {
    /// Addresses.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<String>,
    /// Conditions.
    pub conditions: EndpointConditionsWire,
    /// Host name.
    pub hostname: Option<String>,
    /// What it stands for.
    pub target_ref: Option<RefWire>,
    /// Node.
    pub node_name: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Whom it should serve.
    pub hints: Option<HintsWire>,
}

/// An endpoint's conditions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointConditionsWire {
    /// Ready for traffic.
    pub ready: Option<bool>,
    /// Serving, terminating or not.
    pub serving: Option<bool>,
    /// Terminating.
    pub terminating: Option<bool>,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct RefWire {
    /// Kind.
    pub kind: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Uid.
    pub uid: Option<String>,
    /// Group and version.
    pub api_version: Option<String>,
    /// Version of the object.
    pub resource_version: Option<String>,
    /// Part of the object.
    pub field_path: Option<String>,
}

/// Hints of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HintsWire {
    /// Zones to serve.
    #[serde(deserialize_with = "list")]
    pub for_zones: Vec<NamedWire>,
    /// Nodes to serve.
    #[serde(deserialize_with = "list")]
    pub for_nodes: Vec<NamedWire>,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedWire {
    /// The name.
    pub name: String,
}

/// An `Endpoints` object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointsWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// Subsets.
    #[serde(deserialize_with = "list")]
    pub subsets: Vec<SubsetWire>,
}

/// A subset of an `Endpoints` object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetWire {
    /// Ready addresses.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<AddressWire>,
    /// Addresses that are not ready.
    #[serde(deserialize_with = "list")]
    pub not_ready_addresses: Vec<AddressWire>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<PortWire>,
}

/// An address of a subset.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressWire {
    /// The address.
    pub ip: String,
    /// Host name.
    pub hostname: String,
    /// Node.
    pub node_name: Option<String>,
    /// What it stands for.
    pub target_ref: Option<RefWire>,
}
