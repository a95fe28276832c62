//! Services and IPAddresses on the wire.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use super::{MetaWire, Pairs, list};

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
        struct Either;
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
        deserializer.deserialize_any(Either)
    }
}

/// An `IPAddress`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpAddressWire {
    /// Metadata; the name is the address.
    pub metadata: MetaWire,
    /// Spec.
    pub spec: IpAddressSpecWire,
}

/// An `IPAddress`'s spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpAddressSpecWire {
    /// Whose it is.
    pub parent_ref: ParentWire,
}

/// Whose an address is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ParentWire {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}
