//! All that the controllers know of the cluster, and which keys an event calls for.
//!
//! Events come in one at a time and change the caches, the indexes and the lists of what is out of
//! date; plans are made from the same state. Nothing here does I/O or looks at a clock.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::cache::{Node, Pod, Service, Shared, SliceKeeper};
use super::dirty::Effect;
use super::index::{PodChange, Population, Shelf};
use super::objects::{NodeWire, PodMetaWire, PodWire, ServiceWire};
use super::relist::Relists;
use crate::endpoints::state::{EndpointsObject, EndpointsState};
use crate::endpointslice::inputs::Topology;
use crate::endpointslice::state::SliceState;
use crate::mirroring::state::MirrorState;
use crate::servicecidr::state::Cidr;
use crate::text::{Labels, Text, Uid};

/// A controller of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    /// endpointslice-controller
    Slices,
    /// endpoints-controller
    Endpoints,
    /// endpointslice-mirroring-controller
    Mirrors,
    /// service-cidr-controller
    Cidrs,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Slices, Self::Endpoints, Self::Mirrors, Self::Cidrs];

    /// The name upstream knows it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slices => "endpointslice-controller",
            Self::Endpoints => "endpoints-controller",
            Self::Mirrors => "endpointslice-mirroring-controller",
            Self::Cidrs => "service-cidr-controller",
        }
    }
}

/// What a controller is asked to look at: a Service, or what bears its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Who looks.
    pub controller: Controller,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.controller.name(), self.namespace, self.name)
    }
}

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// At once.
    Now,
    /// After the batch period of changes of pods.
    Batch,
    /// When no further such change comes: many endpoints are being replaced, somebody writes slices,
    /// or an owner may be gone. A longer batch period counts instead; that of the mirroring
    /// controller is about slices alone.
    Gather,
}

/// Something a person should be told on an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Kind of the object.
    pub kind: &'static str,
    /// API version of the object.
    pub api_version: &'static str,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Whether it needs attention.
    pub warning: bool,
    /// A stable word for what happened.
    pub reason: &'static str,
    /// What happened, with numbers.
    pub message: String,
    /// Who tells it.
    pub controller: Controller,
}

impl Note {
    /// A note on a Service.
    pub(crate) fn on(
        service: &Service,
        controller: Controller,
        reason: &'static str,
        message: String,
    ) -> Self {
        Self {
            kind: "Service",
            api_version: "v1",
            namespace: Arc::clone(&service.namespace),
            name: Arc::clone(&service.name),
            uid: service.uid.clone(),
            warning: true,
            reason,
            message,
            controller,
        }
    }
}

/// The limits and switches that plans depend on.
#[derive(Clone, Debug)]
pub struct Limits {
    /// At most so many endpoints are put into one slice.
    pub max_per_slice: usize,
    /// At most so many addresses of a subset are mirrored.
    pub max_mirrored: usize,
    /// Which controllers run.
    pub enabled: BTreeSet<Controller>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_per_slice: 100, max_mirrored: 1000, enabled: Controller::ALL.into_iter().collect() }
    }
}

/// The state of one namespace.
#[derive(Debug, Default)]
pub struct Space {
    /// Pods and selectors.
    pub population: Population,
    /// Services by name.
    pub services: HashMap<Text, Arc<Service>>,
    /// Slices made from pods, by Service.
    pub slices: HashMap<Text, Shelf>,
    /// Mirrored slices, by Service.
    pub mirrors: HashMap<Text, Shelf>,
    /// Who keeps a slice, and for which Service.
    pub(crate) homes: HashMap<Text, (SliceKeeper, Text)>,
    /// `Endpoints` by name.
    pub endpoints: HashMap<Text, EndpointsObject>,
    pub(crate) slice_states: HashMap<Text, SliceState>,
    pub(crate) endpoints_states: HashMap<Text, EndpointsState>,
    pub(crate) mirror_states: HashMap<Text, MirrorState>,
}

impl Space {
    /// The shelf of a Service.
    pub(crate) fn shelf(&mut self, keeper: SliceKeeper, service: &Text) -> &mut Shelf {
        match keeper {
            SliceKeeper::Slices => self.slices.entry(Arc::clone(service)).or_insert_with(Shelf::indexed),
            SliceKeeper::Mirrors => self.mirrors.entry(Arc::clone(service)).or_default(),
        }
    }
}

/// The caches, indexes and states of all controllers.
#[derive(Debug, Default)]
pub struct World {
    /// Limits and switches.
    pub limits: Limits,
    /// Namespaces by name.
    pub spaces: HashMap<Text, Space>,
    /// Nodes by name.
    pub nodes: HashMap<Text, Node>,
    /// ServiceCIDRs by name.
    pub cidrs: HashMap<Text, Cidr>,
    /// Addresses allocated for Services.
    pub addresses: BTreeSet<IpAddr>,
    pub(crate) topology: Topology,
    pub(crate) shared: Shared,
    pub(crate) relists: Relists,
    /// Slices that we deleted and whose end has not been seen yet.
    pub(crate) buried: HashSet<Uid>,
    /// Whether the first lists are being read.
    pub(crate) starting: bool,
    auto_services: BTreeSet<(Text, Text)>,
    wakes: Vec<(Key, Pace)>,
    notes: Vec<Note>,
}

impl World {
    /// An empty cluster.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, starting: true, ..Self::default() }
    }

    /// The first lists are complete.
    pub fn started(&mut self) {
        self.starting = false;
    }

    /// The keys that events called for since the last time.
    pub fn take_wakes(&mut self) -> Vec<(Key, Pace)> {
        std::mem::take(&mut self.wakes)
    }

    /// What is to be told since the last time.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    pub(crate) fn wake(&mut self, controller: Controller, namespace: &Text, name: &Text, pace: Pace) {
        if self.limits.enabled.contains(&controller) {
            let key = Key { controller, namespace: Arc::clone(namespace), name: Arc::clone(name) };
            self.wakes.push((key, pace));
        }
    }

    pub(crate) fn space(&mut self, namespace: &str) -> (Text, &mut Space) {
        let namespace = self.shared.texts.text(namespace);
        let space = self.spaces.entry(Arc::clone(&namespace)).or_default();
        (namespace, space)
    }

    /// A node as it is now.
    pub fn node(&mut self, wire: &NodeWire) {
        let name = self.shared.texts.text(&wire.metadata.name);
        self.relists.nodes.see("", &name);
        let node = Node::read(wire, &mut self.shared);
        let old = self.nodes.insert(Arc::clone(&name), node);
        let node = &self.nodes[&name];
        if old.as_ref() == Some(node) {
            return;
        }
        if old.is_none_or(|old| old.zone != node.zone) {
            self.pods_moved(&name, true);
        }
        self.topology_changed();
    }

    /// A node that is gone. Its pods' endpoints stay until their Service is looked at again: the
    /// object alone says nothing about the pods.
    pub fn node_deleted(&mut self, name: &str) {
        if let Some((name, _)) = self.nodes.remove_entry(name) {
            self.pods_moved(&name, false);
            self.topology_changed();
        }
    }

    /// The node of some pods appeared, vanished or changed its zone.
    fn pods_moved(&mut self, node: &Text, wake: bool) {
        let mut wakes = Vec::new();
        for (namespace, space) in &mut self.spaces {
            for service in space.population.services_with(|pod| pod.node.as_ref() == Some(node)) {
                space.slice_states.entry(Arc::clone(&service)).or_default().dirty.all(wake);
                wakes.push((Arc::clone(namespace), service));
            }
        }
        if wake {
            for (namespace, service) in wakes {
                self.wake(Controller::Slices, &namespace, &service, Pace::Now);
            }
        }
    }

    fn topology_changed(&mut self) {
        if self.auto_services.is_empty() {
            return;
        }
        let topology = Topology::of(&self.nodes);
        if topology == self.topology {
            return;
        }
        self.topology = topology;
        for (namespace, name) in self.auto_services.clone() {
            if let Some(space) = self.spaces.get_mut(&namespace) {
                space.slice_states.entry(Arc::clone(&name)).or_default().dirty.all(true);
            }
            self.wake(Controller::Slices, &namespace, &name, Pace::Now);
        }
    }

    /// A Service as it is now.
    pub fn service(&mut self, wire: &ServiceWire) {
        let service = Arc::new(Service::read(wire, &mut self.shared));
        let name = Arc::clone(&service.name);
        let (namespace, space) = self.space(&wire.metadata.namespace);
        let old = space.services.insert(Arc::clone(&name), Arc::clone(&service));
        let changed = old.as_ref() != Some(&service);
        let selector = service.selector.as_ref().filter(|_| service.has_slices());
        space.population.select(&name, selector);
        let slices = space.slice_states.entry(Arc::clone(&name)).or_default().dirty.touch(changed);
        let endpoints = space.endpoints_states.entry(Arc::clone(&name)).or_default().dirty.touch(changed);
        // Of a Service a mirror depends on nothing but whether it has a selector.
        let turned = old.is_none_or(|old| old.selector.is_none() != service.selector.is_none());
        let mirrored = turned && (space.endpoints.contains_key(&name) || space.mirrors.contains_key(&name));
        self.relists.services.see(&namespace, &name);
        if slices {
            self.wake(Controller::Slices, &namespace, &name, Pace::Now);
        }
        if endpoints {
            self.wake(Controller::Endpoints, &namespace, &name, Pace::Now);
        }
        if mirrored {
            self.wake(Controller::Mirrors, &namespace, &name, Pace::Now);
        }
        let key = (namespace, name);
        if !service.topology_auto {
            self.auto_services.remove(&key);
        } else if self.auto_services.insert(key) && self.auto_services.len() == 1 {
            self.topology = Topology::of(&self.nodes);
        }
    }

    /// A Service that is gone.
    pub fn service_deleted(&mut self, namespace: &str, name: &str) {
        let (namespace, space) = self.space(namespace);
        let Some((name, _)) = space.services.remove_entry(name) else { return };
        space.population.select(&name, None);
        // What is under way ends first: its answer is still wanted.
        if !space.slice_states.get(&name).is_some_and(|state| state.traffic.open) {
            space.slice_states.remove(&name);
        }
        let writing = space.endpoints_states.get(&name).is_some_and(EndpointsState::is_writing);
        let leftover = writing || space.endpoints.contains_key(&name);
        let mirrored = space.mirrors.contains_key(&name);
        if leftover {
            space.endpoints_states.entry(Arc::clone(&name)).or_default().dirty.all(true);
            self.wake(Controller::Endpoints, &namespace, &name, Pace::Now);
        } else {
            space.endpoints_states.remove(&name);
        }
        if mirrored {
            self.wake(Controller::Mirrors, &namespace, &name, Pace::Now);
        }
        self.auto_services.remove(&(namespace, name));
    }

    /// A pod as it is now.
    pub fn pod(&mut self, wire: &PodWire) {
        let known = self.spaces.get_key_value(wire.metadata.namespace.as_str());
        let known = known.and_then(|(namespace, space)| {
            let (pod, labels) = space.population.get(&wire.metadata.name)?;
            labels.are(&wire.metadata.labels.0).then_some((namespace, pod, labels))
        });
        if let Some((namespace, pod, labels)) = known
            && pod.is_bound_as_before(wire)
        {
            if pod.is_as_before(wire) {
                // Most updates of a pod change nothing that an endpoint depends on.
                self.relists.pods.see(namespace, &pod.name);
                return;
            }
            let (namespace, pod, labels) = (Arc::clone(namespace), pod.moved_on(wire), labels.clone());
            return self.pod_seen(&namespace, pod, &labels);
        }
        let (pod, labels) = Pod::read(wire, &mut self.shared);
        let (namespace, _) = self.space(&wire.metadata.namespace);
        self.pod_seen(&namespace, pod, &labels);
    }

    fn pod_seen(&mut self, namespace: &Text, pod: Pod, labels: &Labels) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let name = Arc::clone(&pod.name);
        let change = space.population.apply(pod, labels);
        self.relists.pods.see(namespace, &name);
        self.pod_changed(namespace, &name, &change);
    }

    /// A pod that is gone.
    pub fn pod_deleted(&mut self, meta: &PodMetaWire) {
        self.pod_gone(&meta.namespace, &meta.name);
    }

    pub(crate) fn pod_gone(&mut self, namespace: &str, name: &str) {
        let name = self.shared.texts.text(name);
        let (namespace, space) = self.space(namespace);
        let change = space.population.remove(&name);
        self.pod_changed(&namespace, &name, &change);
    }

    /// How many pods a Service selects.
    #[must_use]
    pub fn pods_of(&self, namespace: &str, service: &str) -> u32 {
        let pods = self.spaces.get(namespace).map_or(0, |space| space.population.count(service));
        u32::try_from(pods).unwrap_or(u32::MAX)
    }

    fn pod_changed(&mut self, namespace: &Text, name: &Text, change: &PodChange) {
        let effect = Effect::of(change);
        if effect == Effect::None {
            return;
        }
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let mut wakes = Vec::new();
        for (service, moved) in &change.services {
            let effect = if *moved { Effect::of_moving(change) } else { effect };
            let large =
                effect == Effect::Member && space.population.count(service) > self.limits.max_per_slice;
            let slices = &mut space.slice_states.entry(Arc::clone(service)).or_default().dirty;
            let slices = slices.pod_changed(name, effect, change);
            let endpoints = &mut space.endpoints_states.entry(Arc::clone(service)).or_default().dirty;
            let endpoints = endpoints.pod_changed(name, effect, change);
            let pace = if large { Pace::Gather } else { Pace::Batch };
            wakes.extend(slices.then(|| (Controller::Slices, Arc::clone(service), pace)));
            wakes.extend(endpoints.then(|| (Controller::Endpoints, Arc::clone(service), pace)));
        }
        for (controller, service, pace) in wakes {
            self.wake(controller, namespace, &service, pace);
        }
    }
}
