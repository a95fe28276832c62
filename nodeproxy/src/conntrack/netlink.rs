//! The kernel's connection tracking over netlink.

use std::net::IpAddr;

use netlink_bindings::{
    conntrack::{IterableTupleAttrs, OpGetDump},
    nftables::Nfgenmsg,
    utils::{finalize_nested_header, find_attr, push_nested_header},
};
use rustix::net::netlink;
use service_api::address::Family;

use super::Flow;
use crate::{
    endpoint::{Place, Protocol},
    nft::wire::{Socket, SocketError, family_number, message, of_family},
};

const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const DUMP: u16 = 0x300;
/// Attributes of an entry (`enum ctattr_type`).
const TUPLE_ORIGINAL: u16 = 1;
const ZONE: u16 = 18;
/// Deletions that go in one piece.
const BATCH: usize = 256;

/// An entry with what names it to the kernel.
#[derive(Debug, Clone)]
pub(super) struct TrackedFlow {
    pub(super) flow: Flow,
    original: Vec<u8>,
    zone: Option<Vec<u8>>,
}

/// A way to connection tracking.
#[derive(Debug)]
pub(super) struct Conntrack(Socket);

impl Conntrack {
    pub(super) fn open() -> Result<Self, SocketError> {
        Socket::open(Some(netlink::NETFILTER)).map(Self)
    }

    /// The UDP entries of a family that `keep` wants.
    pub(super) fn udp(
        &mut self,
        family: Family,
        keep: impl Fn(&Flow) -> bool,
    ) -> Result<Vec<TrackedFlow>, SocketError> {
        let mut buffer = Vec::new();
        message(&mut buffer, GET, DUMP, 0, &of_family(family_number(family)), |_| {});
        let mut found = Vec::new();
        self.0.ask(&buffer, |_, body| found.extend(read(body).filter(|entry| keep(&entry.flow))))?;
        Ok(found)
    }

    /// Removes entries; those that are gone by themselves are none the less.
    pub(super) fn delete(&mut self, family: Family, entries: &[TrackedFlow]) -> Result<(), SocketError> {
        for part in entries.chunks(BATCH) {
            let mut buffer = Vec::new();
            for (sequence, entry) in (0..).zip(part) {
                message(&mut buffer, DELETE, 0, sequence, &of_family(family_number(family)), |buffer| {
                    let start = push_nested_header(buffer, TUPLE_ORIGINAL);
                    buffer.extend_from_slice(&entry.original);
                    finalize_nested_header(buffer, start);
                    if let Some(zone) = &entry.zone {
                        let start = netlink_bindings::utils::write_header(buffer, ZONE);
                        buffer.extend_from_slice(zone);
                        finalize_nested_header(buffer, start);
                    }
                });
            }
            match self.0.transact(&buffer) {
                Err(SocketError::Refused { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                }
                done => done?,
            }
        }
        Ok(())
    }
}

fn read(body: &[u8]) -> Option<TrackedFlow> {
    let attrs_at = body.get(Nfgenmsg::len()..)?;
    let (_, attrs) = OpGetDump::decode_request(body);
    let original = attrs.get_tuple_orig().ok()?;
    if original.get_tuple_proto().ok()?.get_proto_num().ok()? != Protocol::Udp.number() {
        return None;
    }
    let (destination, _) = ends(&original)?;
    let (_, answers) = ends(&attrs.get_tuple_reply().ok()?)?;
    Some(TrackedFlow {
        flow: Flow { destination, answers },
        original: find_attr(attrs_at, TUPLE_ORIGINAL)?.to_vec(),
        zone: find_attr(attrs_at, ZONE).map(<[u8]>::to_vec),
    })
}

/// Destination and source of a direction.
fn ends(tuple: &IterableTupleAttrs<'_>) -> Option<(Place, Place)> {
    let (ip, ports) = (tuple.get_tuple_ip().ok()?, tuple.get_tuple_proto().ok()?);
    let v4 = |of: Result<std::net::Ipv4Addr, _>| of.ok().map(IpAddr::V4);
    let v6 = |of: Result<std::net::Ipv6Addr, _>| of.ok().map(IpAddr::V6);
    let to = v4(ip.get_ip_v4_dst()).or_else(|| v6(ip.get_ip_v6_dst()))?;
    let from = v4(ip.get_ip_v4_src()).or_else(|| v6(ip.get_ip_v6_src()))?;
    let to = Place { ip: to, port: ports.get_proto_dst_port().ok()? };
    let from = Place { ip: from, port: ports.get_proto_src_port().ok()? };
    Some((to, from))
}
