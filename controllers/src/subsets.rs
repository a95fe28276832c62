//! The subsets of an `Endpoints` object: addresses that share their ports (core/v1 API reference).
//!
//! Owns their canonical form, shared by the controller that writes Endpoints and the one that
//! mirrors them; never which addresses there should be.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};

use foldhash::HashMap;
use foldhash::quality::FixedState;
use serde::{Serialize, Serializer};

use crate::cache::{Interners, Port, Protocol, RefBody, Target};
use crate::objects::{AddressWire, PortWire, SubsetWire};
use crate::text::{Address, Text, Uid};

/// An address of a subset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubsetAddress {
    /// The address.
    pub ip: Address,
    /// Host name.
    pub hostname: Option<Text>,
    /// Node.
    pub node: Option<Text>,
    /// What it stands for.
    pub target: Option<Target>,
}

impl SubsetAddress {
    fn read(wire: AddressWire, namespace: &str, shared: &mut Interners) -> Self {
        Self {
            ip: wire.ip.as_str().into(),
            hostname: (!wire.hostname.is_empty()).then(|| shared.texts.text(&wire.hostname)),
            node: wire.node_name.as_deref().map(|n| shared.texts.text(n)),
            target: wire.target_ref.map(|t| Target::read(t, namespace, shared)),
        }
    }

    /// What makes two addresses the same: the address and the uid of the object behind it.
    fn key(&self) -> (Address, Uid) {
        (self.ip.clone(), self.target.as_ref().map_or(Uid::Absent, Target::uid))
    }
}

/// Addresses that share their ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subset {
    /// Ready addresses.
    pub ready: Vec<SubsetAddress>,
    /// Addresses that are not ready.
    pub not_ready: Vec<SubsetAddress>,
    /// Ports.
    pub ports: Vec<Port>,
}

impl Subset {
    /// Reads a subset of an object in `namespace`.
    pub(crate) fn read(wire: SubsetWire, namespace: &str, shared: &mut Interners) -> Self {
        Self {
            ready: wire.addresses.into_iter().map(|a| SubsetAddress::read(a, namespace, shared)).collect(),
            not_ready: wire
                .not_ready_addresses
                .into_iter()
                .map(|a| SubsetAddress::read(a, namespace, shared))
                .collect(),
            ports: wire.ports.iter().map(|p| port(p, shared)).collect(),
        }
    }

    /// How many addresses it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len() + self.not_ready.len()
    }

    /// Whether it has no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn port(wire: &PortWire, shared: &mut Interners) -> Port {
    Port {
        name: shared.texts.text(wire.name.as_deref().unwrap_or_default()),
        protocol: wire.protocol.as_deref().into(),
        port: wire.port,
        app_protocol: wire.app_protocol.as_deref().map(|a| shared.texts.text(a)),
    }
}

/// Collects addresses by port and puts them together again, so that each port of each address is
/// there once and ports with the same addresses share a subset. Of two readinesses of one address at
/// one port "not ready" wins.
#[derive(Debug, Default)]
pub(crate) struct Repacker {
    addresses: Vec<SubsetAddress>,
    known: HashMap<(Address, Uid), usize>,
    by_port: BTreeMap<Option<Port>, BTreeMap<usize, bool>>,
}

impl Repacker {
    /// Adds an address at these ports; at none, if there are none.
    pub(crate) fn add(&mut self, address: SubsetAddress, ready: bool, ports: &[Port]) {
        let fresh = self.addresses.len();
        let index = *self.known.entry(address.key()).or_insert(fresh);
        if index == fresh {
            self.addresses.push(address);
        }
        if ports.is_empty() {
            self.at(None, index, ready);
        }
        for port in ports {
            self.at(Some(port), index, ready);
        }
    }

    fn at(&mut self, port: Option<&Port>, index: usize, ready: bool) {
        let key = port.cloned();
        let entry = self.by_port.entry(key).or_default().entry(index).or_insert(ready);
        *entry &= ready;
    }

    /// The subsets, in a fixed order.
    #[must_use]
    pub(crate) fn finish(self) -> Vec<Subset> {
        let mut grouped: BTreeMap<BTreeMap<usize, bool>, Vec<Port>> = BTreeMap::new();
        for (port, addresses) in self.by_port {
            grouped.entry(addresses).or_default().extend(port);
        }
        let subset = |(addresses, ports): (BTreeMap<usize, bool>, Vec<Port>)| {
            let mut subset = Subset { ports, ..Subset::default() };
            for (index, ready) in addresses {
                let address = self.addresses[index].clone();
                if ready { subset.ready.push(address) } else { subset.not_ready.push(address) }
            }
            sort(&mut subset.ready);
            sort(&mut subset.not_ready);
            subset
        };
        let mut subsets: Vec<Subset> = grouped.into_iter().map(subset).collect();
        subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
        subsets
    }
}

/// Puts addresses into the order of their spelling, then of the uid behind them. The order decides
/// which of them are left out where there are too many.
fn sort(addresses: &mut [SubsetAddress]) {
    addresses.sort_by_cached_key(|address| {
        let (_, uid) = address.key();
        (address.ip.spelling(), address.target.is_some(), uid)
    });
}

/// Only compared within a process, but the same in all of its digests.
const DIGEST: FixedState = FixedState::with_seed(0);

/// A number that is the same for all ways to write down the same addresses at the same ports,
/// whatever the versions of the objects behind them, and in all likelihood another for everything
/// else.
#[must_use]
pub(crate) fn digest(subsets: &[Subset]) -> u64 {
    let mut sum = 0_u64;
    for subset in subsets {
        let mut ports: Vec<&Port> = subset.ports.iter().collect();
        ports.sort();
        let ports = DIGEST.hash_one(ports);
        for (ready, addresses) in [(true, &subset.ready), (false, &subset.not_ready)] {
            for address in addresses {
                let target = address.target.as_ref().map(Target::unversioned);
                let all = (ports, ready, &address.ip, &address.hostname, &address.node, target);
                sum = sum.wrapping_add(DIGEST.hash_one(all));
            }
        }
    }
    sum
}

/// Subsets in the form they have on the wire.
pub(crate) struct SubsetsBody<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) subsets: &'a [Subset],
}

impl Serialize for SubsetsBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.subsets.iter().map(|s| SubsetBody {
            addresses: s.ready.iter().map(|a| AddressBody::new(a, self.namespace)).collect(),
            not_ready_addresses: s.not_ready.iter().map(|a| AddressBody::new(a, self.namespace)).collect(),
            ports: s.ports.iter().map(PortBody::new).collect(),
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubsetBody<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<AddressBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_ready_addresses: Vec<AddressBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortBody<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressBody<'a> {
    ip: &'a Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<RefBody<'a>>,
}

impl<'a> AddressBody<'a> {
    fn new(address: &'a SubsetAddress, namespace: &'a str) -> Self {
        Self {
            ip: &address.ip,
            hostname: address.hostname.as_deref(),
            node_name: address.node.as_deref(),
            target_ref: address.target.as_ref().map(|t| RefBody::new(t, namespace)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PortBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i32>,
    protocol: Protocol,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<&'a str>,
}

impl<'a> PortBody<'a> {
    fn new(port: &'a Port) -> Self {
        Self {
            name: &port.name,
            port: port.port,
            protocol: port.protocol,
            app_protocol: port.app_protocol.as_deref(),
        }
    }
}
