//! A slice as it is kept.

use std::sync::Arc;

use serde::Serialize;

use super::{Endpoint, Interners, Ports, label, version};
use crate::keys;
use crate::objects::{MetaWire, OwnerWire, SliceWire};
use crate::text::{Address, Labels, Text, Uid};

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
    pub(crate) fn read(wire: &OwnerWire, shared: &mut Interners) -> Self {
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

/// Who keeps a slice with these labels.
#[must_use]
pub fn keeper(meta: &MetaWire) -> Option<SliceKeeper> {
    match label(meta, keys::MANAGED_BY) {
        Some(keys::SLICE_MANAGER) => Some(SliceKeeper::Slices),
        Some(keys::MIRROR_MANAGER) => Some(SliceKeeper::Mirrors),
        _ => None,
    }
}

impl Slice {
    /// Reads a slice.
    pub fn read(wire: SliceWire, shared: &mut Interners) -> Self {
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
            endpoints: Arc::new(
                wire.endpoints
                    .into_iter()
                    .map(|e| Endpoint::read(e, &wire.metadata.namespace, shared))
                    .collect(),
            ),
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
