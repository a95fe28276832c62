//! The caches' own small structs: what a controller reads of each object, with shared strings.
//!
//! Owns the conversion from the wire; never an index and never a decision.

mod endpoint;
mod node;
mod pod;
mod port;
mod service;
mod slice;
mod target;

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashSet;

pub use endpoint::{Endpoint, Hints};
pub use node::{Node, milli};
pub use pod::{NamedPort, Pod};
pub use port::{Port, Ports, Protocol};
pub use service::{Hinting, Service, ServicePort, TargetPort, Traffic};
pub use slice::{AddressType, Owner, Slice, SliceKeeper, keeper};
pub(crate) use target::RefBody;
pub use target::{PodAt, Target};

use crate::objects::MetaWire;
use crate::text::{Interner, Text};

/// The tables of values that objects share.
#[derive(Debug, Default)]
pub struct Interners {
    /// Strings and label sets.
    pub texts: Interner,
    pub(super) named_ports: HashSet<Arc<[NamedPort]>>,
    ports: HashSet<Ports>,
    hints: HashSet<Arc<Hints>>,
}

pub(super) fn share<T: Hash + Eq + Clone>(table: &mut HashSet<T>, value: T) -> T {
    if let Some(known) = table.get(&value) {
        return known.clone();
    }
    table.insert(value.clone());
    value
}

impl Interners {
    pub(super) fn optional(&mut self, text: &str) -> Option<Text> {
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

/// Stands for a version that is not known: any other is newer, and a write that bears it is refused
/// (0 would make it unconditional).
pub(crate) const UNKNOWN_VERSION: u64 = 1;

/// The version of an object as a number; 0 if it is none.
#[must_use]
pub fn version(meta: &MetaWire) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}

/// A label of an object.
#[must_use]
pub fn label<'a>(meta: &'a MetaWire, key: &str) -> Option<&'a str> {
    meta.labels.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_small() {
        assert!(size_of::<Endpoint>() <= 200, "{} bytes", size_of::<Endpoint>());
        assert!(size_of::<Pod>() <= 200, "{} bytes", size_of::<Pod>());
    }
}
