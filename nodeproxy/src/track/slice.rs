//! A slice as the proxy of one node keeps it.

use std::{net::IpAddr, sync::Arc};

use service_api::address::{Family, parse_lenient};
use smallvec::SmallVec;

use crate::{
    endpoint::Protocol,
    objects::{EndpointWire, SliceWire},
};

/// A slice of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceInfo {
    /// The family of its addresses.
    pub family: Family,
    /// Its ports.
    pub ports: SmallVec<[SlicePort; 1]>,
    /// Its endpoints.
    pub endpoints: Box<[EndpointInfo]>,
    /// How many endpoints have no address of this family and are left out.
    pub unusable: u32,
}

/// A port of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// Its name: that of the Service's port.
    pub name: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
}

/// An endpoint as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointInfo {
    /// Its address.
    pub ip: IpAddr,
    /// It takes new connections.
    pub ready: bool,
    /// It answers, on its way out or not.
    pub serving: bool,
    /// It is on its way out.
    pub terminating: bool,
    /// It is on this node.
    pub local: bool,
    /// It is hinted to nodes: whether this node is one of them.
    pub node_hint: Option<bool>,
    /// The zones it is hinted to.
    pub zones: SmallVec<[Arc<str>; 1]>,
}

impl SliceInfo {
    /// The slice of the wire, as a node of this name sees it; none if it holds names and not addresses.
    pub fn read(wire: &SliceWire, node: &str) -> Option<Self> {
        let family = Family::parse(&wire.address_type)?;
        let endpoints: Box<[_]> =
            wire.endpoints.iter().filter_map(|endpoint| EndpointInfo::read(endpoint, family, node)).collect();
        let unusable = u32::try_from(wire.endpoints.len() - endpoints.len()).unwrap_or(u32::MAX);
        let ports = wire.ports.iter().filter_map(|port| {
            Some(SlicePort {
                name: port.name.as_deref().unwrap_or_default().into(),
                protocol: Protocol::parse(port.protocol.as_deref())?,
                port: u16::try_from(port.port?).ok().filter(|port| *port != 0)?,
            })
        });
        Some(Self { family, ports: ports.collect(), endpoints, unusable })
    }
}

impl EndpointInfo {
    fn read(wire: &EndpointWire, family: Family, node: &str) -> Option<Self> {
        let ip = parse_lenient(wire.addresses.first()?).filter(|ip| Family::of(*ip) == family)?;
        let hints = wire.hints.as_ref();
        let nodes = hints.map_or(&[][..], |hints| &hints.for_nodes);
        Some(Self {
            ip,
            ready: wire.conditions.ready.unwrap_or(true),
            serving: wire.conditions.serving.unwrap_or(true),
            terminating: wire.conditions.terminating.unwrap_or(false),
            local: wire.node_name.as_deref() == Some(node),
            node_hint: (!nodes.is_empty()).then(|| nodes.iter().any(|hint| hint.name == node)),
            zones: hints
                .map_or(&[][..], |hints| &hints.for_zones)
                .iter()
                .map(|zone| zone.name.as_str().into())
                .collect(),
        })
    }
}
