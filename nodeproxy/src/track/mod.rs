//! What the proxy knows of the cluster, kept small, and which Services a change touches.
//!
//! Owns the cached Services, slices, ranges and the Node, fed with one event at a time. It never plans, never does I/O, and has no
//! clock. A list that begins after a watch was lost is compared with what is here: what vanished meanwhile is removed at its end.

mod node;
mod service;
mod slice;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use ipnet::IpNet;
use service_api::address::{Cidr, Family};

pub use node::NodeInfo;
pub use service::{PortInfo, ServiceInfo};
pub use slice::{EndpointInfo, SliceInfo, SlicePort};

use crate::{
    endpoint::ServiceKey,
    objects::{NodeWire, ServiceCidrWire, ServiceWire, SliceWire},
};

/// The label that gives a Service to another proxy.
pub const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// The label of a Service that no proxy serves.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The label that ties a slice to its Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// An event of a watch.
#[derive(Debug)]
pub enum Seen<K> {
    /// A list begins.
    ListBegins,
    /// An object as it is now, listed or changed.
    Object(K),
    /// An object that is gone.
    Gone(K),
    /// The list is complete: what it did not name is gone.
    ListEnds,
}

/// What changed by an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// These Services, or endpoints of them.
    pub services: BTreeSet<ServiceKey>,
    /// All Services look different from this node now.
    pub everything: bool,
    /// What is the same for all Services.
    pub base: bool,
}

impl Touched {
    /// Adds what another event touched.
    pub fn merge(&mut self, other: Self) {
        self.services.extend(other.services);
        self.everything |= other.everything;
        self.base |= other.base;
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.everything && !self.base
    }
}

/// The slices of a Service by name.
pub type Slices = BTreeMap<Arc<str>, SliceInfo>;

/// What is known of a cluster by one node.
#[derive(Debug)]
pub struct Cluster {
    node_name: Arc<str>,
    /// Whose Services these are: without the label, or with this name in it.
    proxy_name: Option<String>,
    services: HashMap<ServiceKey, ServiceInfo>,
    slices: HashMap<ServiceKey, Slices>,
    /// Which Service a slice belongs to, by `namespace/name`: a deleted slice may have lost its label.
    owners: HashMap<Arc<str>, ServiceKey>,
    node: Option<NodeInfo>,
    cidrs: BTreeMap<String, Vec<IpNet>>,
    services_listed: Option<HashSet<ServiceKey>>,
    slices_listed: Option<HashSet<Arc<str>>>,
    cidrs_listed: Option<BTreeSet<String>>,
}

impl Cluster {
    /// Nothing, as a node of this name sees it.
    pub fn new(node_name: &str) -> Self {
        Self {
            node_name: node_name.into(),
            proxy_name: None,
            services: HashMap::new(),
            slices: HashMap::new(),
            owners: HashMap::new(),
            node: None,
            cidrs: BTreeMap::new(),
            services_listed: None,
            slices_listed: None,
            cidrs_listed: None,
        }
    }

    /// The same for Services that a label gives to the proxy of this name.
    #[must_use]
    pub fn for_proxy(mut self, name: Option<String>) -> Self {
        self.proxy_name = name;
        self
    }

    /// The node's name.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// The Node, once it is known.
    pub const fn node(&self) -> Option<&NodeInfo> {
        self.node.as_ref()
    }

    /// A Service.
    pub fn service(&self, key: &ServiceKey) -> Option<&ServiceInfo> {
        self.services.get(key)
    }

    /// All Services, in no order.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceInfo)> {
        self.services.iter()
    }

    /// The slices of a Service.
    pub fn slices(&self, key: &ServiceKey) -> Option<&Slices> {
        self.slices.get(key)
    }

    /// The ranges that cluster IPs come from, of one family, in order.
    pub fn cidrs(&self, family: Family) -> Vec<IpNet> {
        let all: BTreeSet<IpNet> =
            self.cidrs.values().flatten().copied().filter(|net| Family::of(net.addr()) == family).collect();
        all.into_iter().collect()
    }

    /// Takes in an event of the Services.
    pub fn on_service(&mut self, seen: Seen<ServiceWire>) -> Touched {
        let mut touched = Touched::default();
        match seen {
            Seen::ListBegins => self.services_listed = Some(HashSet::new()),
            Seen::Object(wire) => {
                let Some(key) = key_of(&wire.metadata) else { return touched };
                if let Some(listed) = &mut self.services_listed {
                    listed.insert(key.clone());
                }
                let info = self.ours(&wire.metadata).then(|| ServiceInfo::read(&wire)).flatten();
                if self.put_service(key.clone(), info) {
                    touched.services.insert(key);
                }
            }
            Seen::Gone(wire) => {
                if let Some(key) = key_of(&wire.metadata)
                    && self.put_service(key.clone(), None)
                {
                    touched.services.insert(key);
                }
            }
            Seen::ListEnds => {
                let Some(listed) = self.services_listed.take() else { return touched };
                let gone: Vec<_> =
                    self.services.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    self.put_service(key.clone(), None);
                    touched.services.insert(key);
                }
            }
        }
        touched
    }

    /// Takes in an event of the slices.
    pub fn on_slice(&mut self, seen: Seen<SliceWire>) -> Touched {
        let mut touched = Touched::default();
        match seen {
            Seen::ListBegins => self.slices_listed = Some(HashSet::new()),
            Seen::Object(wire) => {
                let Some(slice) = key_of(&wire.metadata) else { return touched };
                let path: Arc<str> = slice.as_str().into();
                if let Some(listed) = &mut self.slices_listed {
                    listed.insert(Arc::clone(&path));
                }
                let owner = owner_of(&wire).filter(|_| self.ours(&wire.metadata));
                // A slice that changes hands leaves its former Service.
                if self.owners.get(&path) != owner.as_ref() {
                    self.drop_slice(&path, &mut touched);
                }
                if let Some(owner) = owner
                    && let Some(info) = SliceInfo::read(&wire, &self.node_name)
                {
                    self.put_slice(path, owner, info, &mut touched);
                }
            }
            Seen::Gone(wire) => {
                if let Some(slice) = key_of(&wire.metadata) {
                    self.drop_slice(slice.as_str(), &mut touched);
                }
            }
            Seen::ListEnds => {
                let Some(listed) = self.slices_listed.take() else { return touched };
                let gone: Vec<_> =
                    self.owners.keys().filter(|path| !listed.contains(*path)).cloned().collect();
                for path in gone {
                    self.drop_slice(&path, &mut touched);
                }
            }
        }
        touched
    }

    /// Takes in an event of the node's own object. One that is gone stays as it was last: its addresses still lead here.
    pub fn on_node(&mut self, seen: Seen<NodeWire>) -> Touched {
        let mut touched = Touched::default();
        match seen {
            Seen::Object(wire) if wire.metadata.name.as_deref() == Some(&self.node_name) => {
                let info = NodeInfo::read(&wire);
                let before = self.node.replace(info.clone());
                touched.everything = before.as_ref().is_none_or(|before| {
                    before.zone != info.zone
                        || before.pod_cidrs != info.pod_cidrs
                        || before.addresses != info.addresses
                });
                touched.base = touched.everything;
            }
            Seen::Gone(wire) if wire.metadata.name.as_deref() == Some(&self.node_name) => {
                if let Some(node) = &mut self.node {
                    node.leaving = true;
                }
            }
            _ => {}
        }
        touched
    }

    /// Takes in an event of the ServiceCIDRs.
    pub fn on_cidr(&mut self, seen: Seen<ServiceCidrWire>) -> Touched {
        let before = self.cidrs.clone();
        match seen {
            Seen::ListBegins => self.cidrs_listed = Some(BTreeSet::new()),
            Seen::Object(wire) => {
                let name = wire.metadata.name.unwrap_or_default();
                if let Some(listed) = &mut self.cidrs_listed {
                    listed.insert(name.clone());
                }
                let nets = wire.spec.cidrs.iter().filter_map(|text| net(text)).collect();
                self.cidrs.insert(name, nets);
            }
            Seen::Gone(wire) => {
                self.cidrs.remove(&wire.metadata.name.unwrap_or_default());
            }
            Seen::ListEnds => {
                if let Some(listed) = self.cidrs_listed.take() {
                    self.cidrs.retain(|name, _| listed.contains(name));
                }
            }
        }
        Touched { base: before != self.cidrs, ..Touched::default() }
    }

    /// Whether the labels leave an object to this proxy.
    fn ours(&self, meta: &kube::core::ObjectMeta) -> bool {
        let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name));
        label(PROXY_NAME_LABEL) == self.proxy_name.as_ref() && label(HEADLESS_LABEL).is_none()
    }

    /// Whether it changed.
    fn put_service(&mut self, key: ServiceKey, info: Option<ServiceInfo>) -> bool {
        match info {
            None => self.services.remove(&key).is_some(),
            Some(info) if self.services.get(&key) == Some(&info) => false,
            Some(info) => {
                self.services.insert(key, info);
                true
            }
        }
    }

    fn put_slice(&mut self, path: Arc<str>, owner: ServiceKey, info: SliceInfo, touched: &mut Touched) {
        let slices = self.slices.entry(owner.clone()).or_default();
        if slices.get(&path) != Some(&info) {
            slices.insert(Arc::clone(&path), info);
            touched.services.insert(owner.clone());
        }
        self.owners.insert(path, owner);
    }

    fn drop_slice(&mut self, path: &str, touched: &mut Touched) {
        let Some(owner) = self.owners.remove(path) else { return };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(path);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        touched.services.insert(owner);
    }
}

fn key_of(meta: &kube::core::ObjectMeta) -> Option<ServiceKey> {
    Some(ServiceKey::new(meta.namespace.as_deref()?, meta.name.as_deref()?))
}

fn owner_of(wire: &SliceWire) -> Option<ServiceKey> {
    let name = wire.metadata.labels.as_ref()?.get(SERVICE_LABEL).filter(|name| !name.is_empty())?;
    Some(ServiceKey::new(wire.metadata.namespace.as_deref()?, name))
}

/// A range as the API takes it: spaces around it and host bits in it are let through by its validation.
pub(crate) fn net(text: &str) -> Option<IpNet> {
    let cidr = Cidr::parse_lenient(text.trim())?;
    IpNet::new(cidr.ip, cidr.prefix).ok().map(|net| net.trunc())
}

#[cfg(test)]
mod tests;
