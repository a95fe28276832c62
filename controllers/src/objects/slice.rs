//! EndpointSlices and Endpoints on the wire.

use serde::Deserialize;

use super::{KindWire, MetaWire, list};

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceWire {
    /// Whether it is metadata alone.
    pub kind: KindWire,
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
    /// Whether it is metadata alone.
    pub kind: KindWire,
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
