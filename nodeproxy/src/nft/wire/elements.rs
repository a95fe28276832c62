//! Elements of sets and maps as bytes: keys, places, ranges.

use std::net::IpAddr;

use ipnet::IpNet;
use service_api::address::Family;
use smallvec::SmallVec;

use super::super::model::{Container, Element, Key, KeyShape, Verdict};
use crate::{
    endpoint::{Place, Protocol},
    names::Name,
};

const WORD: usize = 4;

/// Bytes of a value; most are addresses.
pub(crate) type Bytes = SmallVec<[u8; 16]>;

/// Where an instruction or an element leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RawVerdict {
    /// Nowhere.
    Drop,
    /// To a chain and back.
    Jump(Name),
    /// To a chain.
    Goto(Name),
}

/// An element as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Raw {
    /// Its key.
    pub key: Bytes,
    /// Whether a range ends before it.
    pub ends: bool,
    /// What it stands for, in a map of values.
    pub data: Option<Bytes>,
    /// Where it leads, in a map of verdicts.
    pub jump: Option<RawVerdict>,
    /// What it is for.
    pub comment: Option<Name>,
}

/// An address in the order of the network.
pub(crate) fn address_bytes(ip: IpAddr) -> Bytes {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..].into(),
        IpAddr::V6(ip) => ip.octets()[..].into(),
    }
}

fn fill(bytes: &mut Bytes) {
    bytes.resize(bytes.len().next_multiple_of(WORD), 0);
}

/// A place as the value of a map: each part fills whole words.
pub(crate) fn place_bytes(place: Place) -> Bytes {
    let mut bytes = address_bytes(place.ip);
    bytes.extend_from_slice(&place.port.to_be_bytes());
    fill(&mut bytes);
    bytes
}

/// A number as the key of a map, in the machine's order.
pub(crate) fn index_key(index: u32) -> Bytes {
    index.to_ne_bytes()[..].into()
}

/// The key of an element of a container.
pub(crate) fn raw_key(key: Key) -> Bytes {
    let mut bytes = Bytes::new();
    let (ips, port): (&[IpAddr], Option<(Protocol, u16)>) = match &key {
        Key::Address(ip) => (&[*ip], None),
        Key::AddressAndPort(ip, protocol, port) => (&[*ip], Some((*protocol, *port))),
        Key::Port(protocol, port) => (&[], Some((*protocol, *port))),
        Key::Connection(ip, protocol, port) => (&[*ip, *ip], Some((*protocol, *port))),
    };
    for ip in ips {
        bytes.extend_from_slice(&address_bytes(*ip));
    }
    if let Some((protocol, port)) = port {
        bytes.push(protocol.number());
        fill(&mut bytes);
        bytes.extend_from_slice(&port.to_be_bytes());
        fill(&mut bytes);
    }
    bytes
}

/// The key that these bytes are in a container; none if they are none.
pub(crate) fn key_of(container: Container, bytes: &[u8], family: Family) -> Option<Key> {
    let length = if family == Family::V4 { 4 } else { 16 };
    let address = |bytes: &[u8]| -> Option<IpAddr> {
        match family {
            Family::V4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            Family::V6 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        }
    };
    let port = |bytes: &[u8]| -> Option<(Protocol, u16)> {
        let [protocol, _, _, _, high, low, ..] = bytes else { return None };
        Some((Protocol::by_number(*protocol)?, u16::from_be_bytes([*high, *low])))
    };
    Some(match container.shape() {
        KeyShape::Address => Key::Address(address(bytes)?),
        KeyShape::AddressAndPort => {
            let (protocol, number) = port(bytes.get(length..)?)?;
            Key::AddressAndPort(address(bytes.get(..length)?)?, protocol, number)
        }
        KeyShape::Port => {
            let (protocol, number) = port(bytes)?;
            Key::Port(protocol, number)
        }
        KeyShape::Connection => {
            let (protocol, number) = port(bytes.get(2 * length..)?)?;
            Key::Connection(address(bytes.get(..length)?)?, protocol, number)
        }
    })
}

/// An element of a container as the kernel has it.
pub(crate) fn raw_element(element: &Element) -> Raw {
    let jump = element.verdict.as_ref().map(|verdict| match verdict {
        Verdict::Drop => RawVerdict::Drop,
        Verdict::Goto(chain) => RawVerdict::Goto(chain.clone()),
    });
    Raw { key: raw_key(element.key), ends: false, data: None, jump, comment: element.comment.clone() }
}

/// Networks as ranges: an element where each begins and one after its end, none overlapping or touching another. An end opens the
/// row unless a range begins at zero, as the `nft` tool has it.
pub(crate) fn intervals(nets: &[IpNet]) -> Vec<Raw> {
    let mut ranges: Vec<(u128, Option<u128>, bool)> = nets
        .iter()
        .map(|net| {
            let (first, last, most) = match (net.network(), net.broadcast()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    (u32::from(first).into(), u32::from(last).into(), u32::MAX.into())
                }
                (first, last) => (as_v6(first), as_v6(last), u128::MAX),
            };
            (first, (last != most).then(|| last + 1), net.addr().is_ipv4())
        })
        .collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u128, Option<u128>, bool)> = Vec::new();
    for (first, after, v4) in ranges {
        match merged.last_mut() {
            Some((_, end, _)) if end.is_none_or(|end| first <= end) => {
                *end = end.and_then(|end| after.map(|after| after.max(end)));
            }
            _ => merged.push((first, after, v4)),
        }
    }
    let mut elements = Vec::with_capacity(merged.len() * 2 + 1);
    let edge = |at: u128, v4: bool, ends: bool| Raw { key: edge_bytes(at, v4), ends, ..Raw::default() };
    if let Some((first, _, v4)) = merged.first()
        && *first != 0
    {
        elements.push(edge(0, *v4, true));
    }
    for (first, after, v4) in merged {
        elements.push(edge(first, v4, false));
        elements.extend(after.map(|after| edge(after, v4, true)));
    }
    elements
}

fn as_v6(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

fn edge_bytes(at: u128, v4: bool) -> Bytes {
    let bytes = at.to_be_bytes();
    if v4 { bytes[12..].into() } else { bytes[..].into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_and_end_where_the_next_begins() {
        let nets: Vec<IpNet> =
            ["10.1.0.0/16", "10.0.0.0/16", "192.168.1.1/32", "10.0.1.0/24", "255.255.255.255/32"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let shown: Vec<_> = intervals(&nets)
            .iter()
            .map(|raw| {
                format!(
                    "{}{}",
                    if raw.ends { "]" } else { "[" },
                    raw.key.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
                )
            })
            .collect();
        assert_eq!(
            shown,
            ["]0.0.0.0", "[10.0.0.0", "]10.2.0.0", "[192.168.1.1", "]192.168.1.2", "[255.255.255.255"]
        );
    }
}
