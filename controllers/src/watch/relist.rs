//! What vanished while a watch was down: a list that starts anew ends in explicit deletions.
//!
//! Owns the names seen in the list under way; never the objects.

use std::sync::Arc;

use foldhash::HashSet;

use super::cache::UNKNOWN_VERSION;
use super::objects::MetaWire;
use super::world::World;
use crate::text::{Text, Uid};

/// The list of one kind that is under way, if one is.
#[derive(Debug, Default)]
pub struct Relist {
    seen: Option<HashSet<(Text, Text)>>,
}

impl Relist {
    /// A list begins.
    pub fn begin(&mut self) {
        self.seen = Some(HashSet::default());
    }

    /// An object is in the list, or was written by us while it was read.
    pub fn see(&mut self, namespace: &str, name: &Text) {
        if let Some(seen) = &mut self.seen {
            seen.insert((namespace.into(), Arc::clone(name)));
        }
    }

    /// Whether a list is being read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.seen.is_some()
    }

    /// The list ends; gives which of the known objects it did not have.
    fn missing(&mut self, known: impl Iterator<Item = (Text, Text)>) -> Vec<(Text, Text)> {
        let Some(seen) = self.seen.take() else { return Vec::new() };
        known.filter(|key| !seen.contains(key)).collect()
    }
}

/// The lists of all kinds.
#[derive(Debug, Default)]
pub struct Relists {
    /// Nodes.
    pub nodes: Relist,
    /// Services.
    pub services: Relist,
    /// Pods.
    pub pods: Relist,
    /// Slices.
    pub slices: Relist,
    /// Endpoints.
    pub endpoints: Relist,
    /// ServiceCIDRs.
    pub cidrs: Relist,
    /// IPAddresses.
    pub addresses: Relist,
    /// Slices that were deleted before the list of slices began: it can not have them.
    pub(crate) buried_before: HashSet<Uid>,
    /// The list of Endpoints is the first of a server that was put back to an earlier state.
    endpoints_restored: bool,
}

/// A kind that is listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Nodes.
    Nodes,
    /// Services.
    Services,
    /// Pods.
    Pods,
    /// Slices.
    Slices,
    /// Endpoints.
    Endpoints,
    /// ServiceCIDRs.
    Cidrs,
    /// IPAddresses.
    Addresses,
}

impl Kind {
    /// The path of all objects of this kind.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Nodes => "/api/v1/nodes",
            Self::Services => "/api/v1/services",
            Self::Pods => "/api/v1/pods",
            Self::Slices => "/apis/discovery.k8s.io/v1/endpointslices",
            Self::Endpoints => "/api/v1/endpoints",
            Self::Cidrs => "/apis/networking.k8s.io/v1/servicecidrs",
            Self::Addresses => "/apis/networking.k8s.io/v1/ipaddresses",
        }
    }

    /// The resource, as roles and metrics name it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Services => "services",
            Self::Pods => "pods",
            Self::Slices => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::Cidrs => "servicecidrs",
            Self::Addresses => "ipaddresses",
        }
    }
}

impl Relists {
    /// The list of a kind.
    pub(super) fn of(&mut self, kind: Kind) -> &mut Relist {
        match kind {
            Kind::Nodes => &mut self.nodes,
            Kind::Services => &mut self.services,
            Kind::Pods => &mut self.pods,
            Kind::Slices => &mut self.slices,
            Kind::Endpoints => &mut self.endpoints,
            Kind::Cidrs => &mut self.cidrs,
            Kind::Addresses => &mut self.addresses,
        }
    }
}

impl World {
    /// A list of this kind begins.
    pub fn list_begins(&mut self, kind: Kind) {
        self.relists.of(kind).begin();
        if kind == Kind::Slices {
            self.relists.buried_before = self.buried.clone();
        }
    }

    /// The server was put back to an earlier state: no version that is known says anything about those
    /// to come, and what is awaited or was deleted may be otherwise.
    pub fn restored(&mut self, kind: Kind) {
        match kind {
            Kind::Slices => {
                self.buried.clear();
                self.relists.buried_before.clear();
                for space in self.spaces.values_mut() {
                    for shelf in space.slices.values_mut().chain(space.mirrors.values_mut()) {
                        shelf.forget_versions();
                    }
                    let traffic = space.slice_states.values_mut().map(|state| &mut state.traffic);
                    let mirrors = space.mirror_states.values_mut().map(|state| &mut state.traffic);
                    for traffic in traffic.chain(mirrors) {
                        traffic.waiting.clear();
                    }
                }
            }
            Kind::Endpoints => {
                self.relists.endpoints_restored = true;
                for space in self.spaces.values_mut() {
                    for object in space.endpoints.values_mut() {
                        object.version = UNKNOWN_VERSION;
                    }
                    for state in space.endpoints_states.values_mut() {
                        state.waiting.clear();
                    }
                }
            }
            Kind::Nodes | Kind::Services | Kind::Pods | Kind::Cidrs | Kind::Addresses => {}
        }
    }

    /// The list of this kind is complete: what it did not have is gone.
    pub fn list_ends(&mut self, kind: Kind) {
        match kind {
            Kind::Nodes => {
                let known = self.nodes.keys().map(|name| ("".into(), Arc::clone(name)));
                for (_, name) in self.relists.nodes.missing(known) {
                    self.node_deleted(&name);
                }
            }
            Kind::Services => {
                let known = self.spaces.iter().flat_map(|(ns, s)| pairs(ns, s.services.keys()));
                for (namespace, name) in self.relists.services.missing(known) {
                    self.service_deleted(&namespace, &name);
                }
            }
            Kind::Pods => {
                let known = self.spaces.iter().flat_map(|(ns, s)| pairs(ns, s.population.names()));
                for (namespace, name) in self.relists.pods.missing(known) {
                    self.pod_gone(&namespace, &name);
                }
            }
            Kind::Slices => {
                let known = self.spaces.iter().flat_map(|(ns, s)| pairs(ns, s.homes.keys()));
                for (namespace, name) in self.relists.slices.missing(known) {
                    self.slice_gone(&namespace, &name);
                }
                let before = std::mem::take(&mut self.relists.buried_before);
                self.buried.retain(|uid| !before.contains(uid));
            }
            Kind::Endpoints => {
                let known = self.spaces.iter().flat_map(|(ns, s)| pairs(ns, s.endpoints.keys()));
                for (namespace, name) in self.relists.endpoints.missing(known) {
                    self.endpoints_gone(&namespace, &name);
                }
                if std::mem::take(&mut self.relists.endpoints_restored) {
                    self.endpoints_doubted();
                }
            }
            Kind::Cidrs => {
                let known = self.cidrs.keys().map(|name| ("".into(), Arc::clone(name)));
                for (_, name) in self.relists.cidrs.missing(known) {
                    self.cidr_deleted(&name);
                }
            }
            Kind::Addresses => {
                let known = self.addresses.iter().map(|ip| ("".into(), ip.to_string().into()));
                for (_, name) in self.relists.addresses.missing(known) {
                    self.ip_address_deleted(&MetaWire { name: name.to_string(), ..MetaWire::default() });
                }
            }
        }
    }
}

fn pairs<'a>(
    namespace: &'a Text,
    names: impl Iterator<Item = &'a Text> + 'a,
) -> impl Iterator<Item = (Text, Text)> + 'a {
    names.map(|name| (Arc::clone(namespace), Arc::clone(name)))
}
