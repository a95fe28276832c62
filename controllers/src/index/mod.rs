//! All that is known of the cluster: caches of small structs, and the look-ups that plans are made from.
//!
//! Events come in one at a time. Each gives what it changed as a fact (of which Services, to what effect); what follows
//! from it is for the controllers to say, of which nothing is known here. Does no I/O and looks at no clock.

pub(crate) mod addresses;
pub(crate) mod effect;
pub(crate) mod endpoints;
pub mod events;
pub(crate) mod listing;
pub mod oddities;
pub mod pods;
pub mod sizes;
pub mod slice_set;
pub(crate) mod slices;
pub(crate) mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use self::addresses::Parent;
use self::endpoints::EndpointsObject;
use self::listing::Listings;
use self::pods::{PodChange, PodIndex};
use self::slice_set::SliceSet;
use self::topology::Topology;
use crate::cache::{Interners, Node, Pod, Service, SliceKeeper};
use crate::objects::{NodeWire, PodWire, ServiceWire};
use crate::text::{Labels, Text, Uid};

/// What is known of one namespace.
#[derive(Debug, Default)]
pub struct Namespace {
    /// Pods and selectors.
    pub pods: PodIndex,
    /// Services by name.
    pub services: HashMap<Text, Arc<Service>>,
    /// Slices made from pods, by Service.
    pub slices: HashMap<Text, SliceSet>,
    /// Mirrored slices, by Service.
    pub mirrors: HashMap<Text, SliceSet>,
    /// Who keeps a slice, and for which Service.
    homes: HashMap<Text, Home>,
    /// `Endpoints` by name.
    pub endpoints: HashMap<Text, EndpointsObject>,
}

/// Who keeps a slice, and for which Service.
pub type Home = (SliceKeeper, Text);

impl Namespace {
    /// The slices that are kept for a Service.
    pub(crate) fn set(&mut self, keeper: SliceKeeper, service: &Text) -> &mut SliceSet {
        match keeper {
            SliceKeeper::Slices => self.slices.entry(Arc::clone(service)).or_insert_with(SliceSet::indexed),
            SliceKeeper::Mirrors => self.mirrors.entry(Arc::clone(service)).or_default(),
        }
    }

    /// The slices that are kept for a Service, in no order.
    #[must_use]
    pub fn slices_of(&self, keeper: SliceKeeper, service: &str) -> &[Arc<crate::cache::Slice>] {
        let sets = match keeper {
            SliceKeeper::Slices => &self.slices,
            SliceKeeper::Mirrors => &self.mirrors,
        };
        sets.get(service).map_or(&[], SliceSet::slices)
    }
}

/// What a Service was and is.
#[derive(Debug)]
pub struct ServiceChange {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// The Service before; none if it is new.
    pub old: Option<Arc<Service>>,
    /// The Service after; none if it is gone.
    pub new: Option<Arc<Service>>,
}

/// What became of a node.
#[derive(Debug, Default)]
pub struct NodeChange {
    /// Its name.
    pub name: Text,
    /// Services with a pod on a node that came, went or changed its zone: namespace and name.
    pub services: Vec<(Text, Text)>,
    /// Whether the node is gone.
    pub gone: bool,
    /// Whether nothing but the zone changed of a node that was there.
    pub moved: bool,
    /// Services whose zones' shares of the CPU are not what they were: namespace and name.
    pub shares: Vec<(Text, Text)>,
}

/// What became of a pod, and in which namespace.
#[derive(Debug)]
pub struct PodFact {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// The pod before and after, and the Services that it concerns.
    pub change: PodChange,
}

/// The caches and their indexes.
#[derive(Debug, Default)]
pub struct Index {
    /// Namespaces by name.
    pub namespaces: HashMap<Text, Namespace>,
    /// Nodes by name.
    pub nodes: HashMap<Text, Node>,
    /// How many of them are in no zone.
    zoneless: usize,
    /// Addresses allocated for Services, and for which.
    pub addresses: BTreeMap<IpAddr, Parent>,
    /// The zones' shares of the cluster's CPU; kept up while some Service asks for them.
    pub topology: Topology,
    /// Strings, labels and ports that objects share.
    pub(crate) shared: Interners,
    pub(crate) listings: Listings,
    /// Slices that we deleted and whose end has not been seen yet.
    pub(crate) tombstones: HashSet<Uid>,
    topology_services: BTreeSet<(Text, Text)>,
}

impl Index {
    /// The shared copies of a namespace's and an object's name.
    pub fn names(&mut self, namespace: &str, name: &str) -> (Text, Text) {
        (self.shared.texts.text(namespace), self.shared.texts.text(name))
    }

    /// A namespace, if anything is known of it.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// A Service.
    #[must_use]
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Arc<Service>> {
        self.namespaces.get(namespace)?.services.get(name)
    }

    /// How many pods a Service selects.
    #[must_use]
    pub fn pods_of(&self, namespace: &str, service: &str) -> u32 {
        let pods = self.namespaces.get(namespace).map_or(0, |space| space.pods.count(service));
        u32::try_from(pods).unwrap_or(u32::MAX)
    }

    pub(crate) fn open_namespace(&mut self, namespace: &str) -> (Text, &mut Namespace) {
        let namespace = self.shared.texts.text(namespace);
        let space = self.namespaces.entry(Arc::clone(&namespace)).or_default();
        (namespace, space)
    }

    /// A node as it is now.
    pub fn apply_node(&mut self, wire: &NodeWire) -> NodeChange {
        let name = self.shared.texts.text(&wire.metadata.name);
        self.listings.nodes.see("", &name);
        let node = Node::read(wire, &mut self.shared);
        self.zoneless += usize::from(node.zone.is_none());
        let old = self.nodes.insert(Arc::clone(&name), node);
        self.zoneless -= usize::from(old.as_ref().is_some_and(|old| old.zone.is_none()));
        let node = &self.nodes[&name];
        if old.as_ref() == Some(node) {
            return NodeChange::default();
        }
        let moved = old.is_some();
        let elsewhere = old.is_none_or(|old| old.zone != node.zone);
        let services = if elsewhere { self.services_on(&name) } else { Vec::new() };
        NodeChange { name, services, gone: false, moved, shares: self.shares_changed() }
    }

    /// A node that is gone.
    pub fn delete_node(&mut self, name: &str) -> NodeChange {
        let Some((name, old)) = self.nodes.remove_entry(name) else { return NodeChange::default() };
        self.zoneless -= usize::from(old.zone.is_none());
        let services = self.services_on(&name);
        NodeChange { name, services, gone: true, moved: false, shares: self.shares_changed() }
    }

    /// Whether every node is in some zone.
    #[must_use]
    pub fn all_nodes_have_zones(&self) -> bool {
        self.zoneless == 0
    }

    /// The Services with a pod on a node.
    fn services_on(&self, node: &Text) -> Vec<(Text, Text)> {
        let mut found = Vec::new();
        for (namespace, space) in &self.namespaces {
            let services = space.pods.services_with(|pod| pod.node.as_ref() == Some(node));
            found.extend(services.into_iter().map(|service| (Arc::clone(namespace), service)));
        }
        found
    }

    /// Puts the shares right; gives whom it concerns if they are not what they were.
    fn shares_changed(&mut self) -> Vec<(Text, Text)> {
        if self.topology_services.is_empty() {
            return Vec::new();
        }
        let topology = Topology::of(&self.nodes);
        if topology == self.topology {
            return Vec::new();
        }
        self.topology = topology;
        self.topology_services.iter().cloned().collect()
    }

    /// A Service as it is now.
    pub fn apply_service(&mut self, wire: &ServiceWire) -> ServiceChange {
        let new = Arc::new(Service::read(wire, &mut self.shared));
        let name = Arc::clone(&new.name);
        let (namespace, space) = self.open_namespace(&wire.metadata.namespace);
        let old = space.services.insert(Arc::clone(&name), Arc::clone(&new));
        let selector = new.selector.as_ref().filter(|_| new.has_slices());
        space.pods.select(&name, selector);
        self.listings.services.see(&namespace, &name);
        let key = (Arc::clone(&namespace), Arc::clone(&name));
        if !new.topology_auto {
            self.topology_services.remove(&key);
        } else if self.topology_services.insert(key) && self.topology_services.len() == 1 {
            self.topology = Topology::of(&self.nodes);
        }
        ServiceChange { namespace, name, old, new: Some(new) }
    }

    /// A Service that is gone; nothing if it was not known.
    pub fn delete_service(&mut self, namespace: &str, name: &str) -> Option<ServiceChange> {
        let (namespace, space) = self.open_namespace(namespace);
        let (name, old) = space.services.remove_entry(name)?;
        space.pods.select(&name, None);
        self.topology_services.remove(&(Arc::clone(&namespace), Arc::clone(&name)));
        Some(ServiceChange { namespace, name, old: Some(old), new: None })
    }

    /// A pod as it is now; nothing if that changes nothing that an endpoint depends on.
    pub fn apply_pod(&mut self, wire: &PodWire) -> Option<PodFact> {
        let known = self.namespaces.get_key_value(wire.metadata.namespace.as_str());
        let known = known.and_then(|(namespace, space)| {
            let (pod, labels) = space.pods.get(&wire.metadata.name)?;
            labels.are(&wire.metadata.labels.0).then_some((namespace, pod, labels))
        });
        if let Some((namespace, pod, labels)) = known
            && pod.is_bound_as_before(wire)
        {
            if pod.is_as_before(wire) {
                // Most updates of a pod change nothing that an endpoint depends on.
                self.listings.pods.see(namespace, &pod.name);
                return None;
            }
            let (namespace, pod, labels) = (Arc::clone(namespace), pod.moved_on(wire), labels.clone());
            return self.put_pod(namespace, pod, &labels);
        }
        let (pod, labels) = Pod::read(wire, &mut self.shared);
        let (namespace, _) = self.open_namespace(&wire.metadata.namespace);
        self.put_pod(namespace, pod, &labels)
    }

    fn put_pod(&mut self, namespace: Text, pod: Pod, labels: &Labels) -> Option<PodFact> {
        let space = self.namespaces.get_mut(&namespace)?;
        let name = Arc::clone(&pod.name);
        let change = space.pods.apply(pod, labels);
        self.listings.pods.see(&namespace, &name);
        Some(PodFact { namespace, name, change })
    }

    /// A pod that is gone.
    pub fn delete_pod(&mut self, namespace: &str, name: &str) -> PodFact {
        let name = self.shared.texts.text(name);
        let (namespace, space) = self.open_namespace(namespace);
        let change = space.pods.remove(&name);
        PodFact { namespace, name, change }
    }
}
