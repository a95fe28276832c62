//! What is given out: an address or a node port, and the same as a number.
//!
//! Owns how values are counted. It knows no range and nothing that is taken.

use std::net::IpAddr;

use crate::prefix::{self, Family, number};

/// A time, in whole seconds since 1970.
pub type Seconds = i64;

/// What kind of value a part consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
    /// Node ports.
    Port,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V4, Self::V6, Self::Port];

    /// `ipv4`, `ipv6` or `nodePorts`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
            Self::Port => "nodePorts",
        }
    }

    /// The kind of the addresses of a family.
    pub fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self::V4,
            Family::V6 => Self::V6,
        }
    }
}

/// An address or a node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// A cluster IP.
    Address(IpAddr),
    /// A node port.
    Port(u16),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Port(port) => port.fmt(f),
        }
    }
}

/// A value as a number: an address less one, as the address ledger counts, and a port as it is.
pub(crate) type Key = u128;

impl Value {
    /// The value that a text says; `None` for what is neither an address nor a port.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().map(Self::Address).or_else(|_| text.parse().map(Self::Port)).ok()
    }

    /// What kind of value it is.
    pub fn kind(self) -> Kind {
        self.locate().0
    }

    pub(crate) fn locate(self) -> (Kind, Key) {
        match self {
            Self::Address(address) => (Kind::of(Family::of(address)), number(address).wrapping_sub(1)),
            Self::Port(port) => (Kind::Port, Key::from(port)),
        }
    }

    pub(crate) fn at(kind: Kind, key: Key) -> Option<Self> {
        let address = |family| prefix::address(family, key.wrapping_add(1)).map(Self::Address);
        match kind {
            Kind::V4 => address(Family::V4),
            Kind::V6 => address(Family::V6),
            Kind::Port => u16::try_from(key).ok().map(Self::Port),
        }
    }
}
