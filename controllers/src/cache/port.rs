//! Ports of slices and subsets.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use smallvec::SmallVec;

use super::Interners;
use crate::objects::PortWire;
use crate::text::Text;

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

impl Protocol {
    /// The name the API uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
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

    pub(super) fn read(wire: &[PortWire], shared: &mut Interners) -> Self {
        let ports = wire
            .iter()
            .map(|p| Port {
                name: shared.texts.text(p.name.as_deref().unwrap_or_default()),
                protocol: p.protocol.as_deref().into(),
                port: p.port,
                app_protocol: p.app_protocol.as_deref().map(|a| shared.texts.text(a)),
            })
            .collect();
        shared.ports(ports)
    }
}
