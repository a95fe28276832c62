//! What the controllers read of each kind, decoded straight from the wire.
//!
//! A pod is some 5 KB of JSON of which an endpoint needs a twentieth: everything else is skipped by
//! the parser and never allocated. These types live for one event; the caches keep smaller ones.

pub(crate) mod kind;
pub(crate) mod lenient;
pub(crate) mod partial;
mod pod;
mod service;
mod slice;

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub use self::kind::ObjectKind;
pub use self::lenient::{Lenient, Read, Watched};
pub use self::pod::{
    AllocatableWire, ConditionWire, ContainerPortWire, ContainerWire, IpWire, NodeStatusWire, NodeWire,
    PodSpecWire, PodStatusWire, PodWire,
};
pub use self::service::{
    IntOrText, IpAddressSpecWire, IpAddressWire, ParentWire, ServicePortWire, ServiceSpecWire, ServiceWire,
};
pub use self::slice::{
    AddressWire, EndpointConditionsWire, EndpointWire, EndpointsWire, HintsWire, NamedWire, PortWire,
    RefWire, SliceWire, SubsetWire,
};

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
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
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

/// Which object, and which version of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IdentityWire {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Uid.
    pub uid: String,
    /// Version of the object.
    pub resource_version: String,
}

impl From<IdentityWire> for MetaWire {
    fn from(identity: IdentityWire) -> Self {
        let IdentityWire { name, namespace, uid, resource_version } = identity;
        Self { name, namespace, uid, resource_version, ..Self::default() }
    }
}

/// Whether an object says of itself that it is metadata alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindWire {
    /// Its kind is `PartialObjectMetadata`.
    pub is_partial: bool,
}

impl<'de> Deserialize<'de> for KindWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindVisitor;
        impl Visitor<'_> for KindVisitor {
            type Value = KindWire;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind")
            }
            fn visit_str<E>(self, kind: &str) -> Result<KindWire, E> {
                Ok(KindWire { is_partial: kind == "PartialObjectMetadata" })
            }
            fn visit_unit<E>(self) -> Result<KindWire, E> {
                Ok(KindWire::default())
            }
        }
        deserializer.deserialize_any(KindVisitor)
    }
}

macro_rules! watched {
    ($($wire:ty: $kind:ident $(, $alone:ident)?);* $(;)?) => {
        $(impl Watched for $wire {
            const KIND: ObjectKind = ObjectKind::$kind;

            fn version(&self) -> &str {
                &self.metadata.resource_version
            }

            fn identity(&self) -> IdentityWire {
                let meta = &self.metadata;
                IdentityWire {
                    name: meta.name.clone(),
                    namespace: meta.namespace.clone(),
                    uid: meta.uid.clone(),
                    resource_version: meta.resource_version.clone(),
                }
            }

            $(fn $alone(&mut self) -> Option<MetaWire> {
                self.kind.is_partial.then(|| std::mem::take(&mut self.metadata))
            })?
        })*
    };
}

watched! {
    NodeWire: Nodes;
    ServiceWire: Services;
    PodWire: Pods;
    SliceWire: Slices, metadata_alone;
    EndpointsWire: Endpoints, metadata_alone;
    IpAddressWire: Addresses;
}
