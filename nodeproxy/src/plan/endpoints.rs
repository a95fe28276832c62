//! Which endpoints of a Service's port a node sends packets to: readiness, traffic policies, topology hints.

use std::collections::BTreeMap;

use service_api::address::Family;

use crate::{
    endpoint::Place,
    track::{EndpointInfo, NodeInfo, PortInfo, ServiceInfo, Slices},
};

/// The endpoints of a port, one for each place, in the order of their places.
///
/// A place may stand in two slices while an endpoint moves, or belong to two pods while one of them ends: what is on its way out
/// never hides what is not.
pub fn of_port<'a>(
    slices: Option<&'a Slices>,
    port: &PortInfo,
    family: Family,
) -> BTreeMap<Place, &'a EndpointInfo> {
    let mut endpoints = BTreeMap::new();
    for slice in slices.into_iter().flat_map(Slices::values).filter(|slice| slice.family == family) {
        let ports = slice.ports.iter().filter(|of| of.name == port.name && of.protocol == port.protocol);
        for number in ports.map(|of| of.port) {
            for endpoint in &slice.endpoints {
                let place = Place { ip: endpoint.ip, port: number };
                if !endpoint.terminating || !endpoints.contains_key(&place) {
                    endpoints.insert(place, endpoint);
                }
            }
        }
    }
    endpoints
}

/// What a node does with a port's endpoints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Where traffic goes under the policy `Cluster`.
    pub cluster: Vec<Place>,
    /// Where traffic goes under the policy `Local`.
    pub local: Vec<Place>,
    /// Those of both that are on this node.
    pub here: Vec<Place>,
    /// Whether anything in the cluster takes traffic.
    pub any: bool,
}

/// Whether packets can reach a port otherwise than by the cluster IP.
pub fn from_outside(service: &ServiceInfo, port: &PortInfo) -> bool {
    port.node_port.is_some() || !service.vips.is_empty() || !service.external_ips.is_empty()
}

/// Chooses among the endpoints of a port.
///
/// Endpoints that end are only chosen when there are no others, for each policy by itself. Hints count only if every ready endpoint
/// has one and one of them names this node or its zone: else they would send all to few.
pub fn choose(
    endpoints: &BTreeMap<Place, &EndpointInfo>,
    service: &ServiceInfo,
    port: &PortInfo,
    node: &NodeInfo,
) -> Choice {
    let outside = from_outside(service, port);
    // The way in from outside leads past the policy for the node's own pods, so it needs all endpoints even if it is `Local`.
    let uses_cluster = !service.internal_local || outside;
    let uses_local = service.internal_local || (service.external_local && outside);
    let mut choice = Choice::default();
    if uses_cluster {
        let topology = Topology::of(endpoints, node);
        choice.cluster = best(endpoints, |endpoint| topology.takes(endpoint, node), |_| true);
        choice.any = !choice.cluster.is_empty();
    }
    if uses_local {
        choice.any |= endpoints.values().any(|endpoint| endpoint.ready || ends(endpoint));
        choice.local = best(endpoints, |endpoint| endpoint.local, |endpoint| endpoint.local);
    }
    let local = |place: &&Place| endpoints.get(place).is_some_and(|endpoint| endpoint.local);
    choice.here = choice.cluster.iter().chain(&choice.local).filter(local).copied().collect();
    choice.here.sort_unstable();
    choice.here.dedup();
    choice
}

const fn ends(endpoint: &EndpointInfo) -> bool {
    endpoint.serving && endpoint.terminating
}

/// The ready ones that are wanted, or those that end if there are none.
fn best(
    endpoints: &BTreeMap<Place, &EndpointInfo>,
    wanted: impl Fn(&EndpointInfo) -> bool,
    ending_wanted: impl Fn(&EndpointInfo) -> bool,
) -> Vec<Place> {
    let places = |keep: &dyn Fn(&EndpointInfo) -> bool| -> Vec<Place> {
        endpoints.iter().filter(|(_, endpoint)| keep(endpoint)).map(|(place, _)| *place).collect()
    };
    let ready = places(&|endpoint| endpoint.ready && wanted(endpoint));
    if ready.is_empty() { places(&|endpoint| ends(endpoint) && ending_wanted(endpoint)) } else { ready }
}

/// How near an endpoint must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topology {
    Anywhere,
    SameZone,
    SameNode,
}

impl Topology {
    fn of(endpoints: &BTreeMap<Place, &EndpointInfo>, node: &NodeInfo) -> Self {
        let ready = || endpoints.values().filter(|endpoint| endpoint.ready);
        if ready().next().is_none() {
            return Self::Anywhere;
        }
        let named = |near: Self| ready().any(|endpoint| near.takes(endpoint, node));
        if ready().all(|endpoint| endpoint.node_hint.is_some()) && named(Self::SameNode) {
            Self::SameNode
        } else if ready().all(|endpoint| !endpoint.zones.is_empty()) && named(Self::SameZone) {
            Self::SameZone
        } else {
            Self::Anywhere
        }
    }

    fn takes(self, endpoint: &EndpointInfo, node: &NodeInfo) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameNode => endpoint.node_hint == Some(true),
            Self::SameZone => node.zone.as_ref().is_some_and(|zone| endpoint.zones.contains(zone)),
        }
    }
}
