//! The state that follows from the events of all kinds.
//!
//! Owns the live ledger, the entries by their parents, the Services, ranges, pools and labels of namespaces, and which of
//! them changed. It watches nothing and decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use service_allocators::pools::Seconds;
use service_allocators::port::DEFAULT_RANGE;
use service_allocators::{
    ClusterFamilies, Family, LiveLedger, NodePortRange, PortLedger, PortSharing, ServiceKey,
};
use service_api::crds::{self, Role, ServicePool};
use smallvec::SmallVec;

use super::entry::{Entry, Kind};
use super::services::Facts;

/// The ServiceCIDR that says which families the cluster has, as upstream.
const DEFAULT_CIDR: &str = "kubernetes";
/// So many of the Services that lack a value are told when one comes free: one gets it, and some may go meanwhile.
const WOKEN: usize = 4;

/// Kind and name of an entry.
type EntryId = (Kind, Box<str>);

/// What changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services that changed, or whose entries did.
    pub services: BTreeSet<ServiceKey>,
    /// Whether a ServiceCIDR, a NodePortRange or a ServicePool changed.
    pub ranges: bool,
    /// Whether something was taken or given back.
    pub fill: bool,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.ranges && !self.fill
    }
}

/// What is known of the cluster.
#[derive(Debug)]
pub struct Known {
    /// What is taken, and what pools keep back.
    pub live: LiveLedger,
    /// Those of the flag.
    node_ports: NodePortRange,
    services: HashMap<ServiceKey, Facts>,
    entries: HashMap<EntryId, Entry>,
    by_parent: HashMap<ServiceKey, SmallVec<[EntryId; 2]>>,
    /// Entries of living Services that went, until they are there again.
    lost: BTreeSet<EntryId>,
    /// Services that lack a value, and which of them is told next when one comes free.
    lacking: BTreeSet<ServiceKey>,
    woken: Option<ServiceKey>,
    cidrs: BTreeMap<String, ServiceCIDR>,
    port_ranges: BTreeMap<String, crds::NodePortRange>,
    pools: BTreeMap<String, ServicePool>,
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// Kinds whose first list is not complete yet.
    missing: BTreeSet<&'static str>,
    /// Kinds that the server does not have.
    absent: BTreeSet<&'static str>,
    changes: Changes,
    none: BTreeMap<String, String>,
}

impl Known {
    pub(super) fn new(node_ports: NodePortRange, sharing: PortSharing) -> Self {
        let ports = PortLedger::new(node_ports, sharing);
        Self {
            live: LiveLedger::new(ClusterFamilies::single(Family::V4), ports),
            node_ports,
            services: HashMap::new(),
            entries: HashMap::new(),
            by_parent: HashMap::new(),
            lost: BTreeSet::new(),
            lacking: BTreeSet::new(),
            woken: None,
            cidrs: BTreeMap::new(),
            port_ranges: BTreeMap::new(),
            pools: BTreeMap::new(),
            namespaces: HashMap::new(),
            missing: BTreeSet::new(),
            absent: BTreeSet::new(),
            changes: Changes::default(),
            none: BTreeMap::new(),
        }
    }

    /// What changed since this was asked last.
    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Whether every kind was listed once, or is known not to be there.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    pub(crate) fn awaits(&mut self, kind: &'static str) {
        self.missing.insert(kind);
    }

    pub(super) fn has(&mut self, kind: &'static str) {
        self.missing.remove(kind);
        self.absent.remove(kind);
    }

    pub(super) fn lacks(&mut self, kind: &'static str) {
        self.missing.remove(kind);
        self.absent.insert(kind);
    }

    /// Whether the server has a kind, by its plural name, as far as is known.
    pub fn serves(&self, kind: &str) -> bool {
        !self.absent.contains(kind)
    }

    /// The labels of a namespace.
    pub fn labels(&self, namespace: &str) -> &BTreeMap<String, String> {
        self.namespaces.get(namespace).unwrap_or(&self.none)
    }

    pub(crate) fn set_namespace(&mut self, name: String, labels: BTreeMap<String, String>) {
        self.namespaces.insert(name, labels);
    }

    pub(super) fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// What is known of a Service.
    pub fn service(&self, key: &ServiceKey) -> Option<&Facts> {
        self.services.get(key)
    }

    /// All Services.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &Facts)> {
        self.services.iter()
    }

    /// Services that lack a value.
    pub fn lacking(&self) -> &BTreeSet<ServiceKey> {
        &self.lacking
    }

    /// A Service is stored, new or changed. One that is older than what is known says nothing.
    pub fn set_service(&mut self, service: &Service, now: Seconds) {
        let mut facts = Facts::of(service);
        // A key that is shared is there once.
        if let Some((key, _)) = self.by_parent.get_key_value(&facts.claim.service) {
            facts.claim.service = key.clone();
        }
        let key = facts.claim.service.clone();
        let old = self.services.get(&key);
        if old.is_some_and(|old| old.version > facts.version) {
            return;
        }
        let (before, held) =
            old.map_or((Vec::new(), None), |old| (old.claim.addresses.clone(), old.held.clone()));
        self.live.set_service(held.as_deref(), facts.held.as_deref(), now);
        self.live.move_addresses(&key, &before, &facts.claim.addresses, now);
        self.follow_lack(&key, facts.lacking.is_some());
        let moved = before != facts.claim.addresses || held.is_some() || facts.held.is_some();
        self.services.insert(key.clone(), facts);
        self.changes.services.insert(key);
        self.changes.fill |= moved;
    }

    /// The version of a Service is gone that a watch or a list tells of; a younger one of that name stays.
    pub(super) fn service_gone(&mut self, key: &ServiceKey, version: Option<u64>, now: Seconds) {
        if self.services.get(key).is_some_and(|known| version.is_none_or(|gone| known.version <= gone)) {
            self.remove_service(key, now);
        }
    }

    /// A Service is gone.
    pub fn remove_service(&mut self, key: &ServiceKey, now: Seconds) {
        let Some(old) = self.services.remove(key) else { return };
        self.live.set_service(old.held.as_deref(), None, now);
        self.live.move_addresses(key, &old.claim.addresses, &[], now);
        self.follow_lack(key, false);
        self.changes.services.insert(key.clone());
        self.changes.fill = true;
        for address in &old.claim.addresses {
            self.call_those_with(*address);
            self.lost.remove(&(Kind::Address, address.to_string().into()));
        }
        for (port, _) in &old.claim.ports {
            self.call_holders(*port);
            let names = ["", "-sctp", "-tcp", "-udp"].map(|end| format!("{port}{end}"));
            self.lost.retain(|(kind, name)| *kind == Kind::Address || !names.iter().any(|n| **n == **name));
        }
        self.wake();
    }

    fn follow_lack(&mut self, key: &ServiceKey, lacks: bool) {
        if lacks {
            self.lacking.insert(key.clone());
        } else {
            self.lacking.remove(key);
        }
    }

    /// Something came free: some of those that lack a value are told, in turn.
    fn wake(&mut self) {
        let after = self.woken.take();
        let from = self.lacking.iter().filter(|key| after.as_ref().is_none_or(|after| *key > after));
        let woken: Vec<ServiceKey> = from.chain(self.lacking.iter()).take(WOKEN).cloned().collect();
        self.woken = woken.last().cloned();
        self.changes.services.extend(woken);
    }

    fn call_those_with(&mut self, address: IpAddr) {
        let with = self.live.services_with(address).to_vec();
        self.changes.services.extend(with);
    }

    fn call_holders(&mut self, port: u16) {
        let with: Vec<ServiceKey> =
            self.live.ledger.ports.holders(port).iter().map(|h| h.owner.clone()).collect();
        self.changes.services.extend(with);
    }

    /// The entries whose parent is this Service.
    pub fn entries_of(&self, key: &ServiceKey) -> impl Iterator<Item = &Entry> {
        let names = self.by_parent.get(key).into_iter().flatten();
        names.filter_map(|name| self.entries.get(name))
    }

    /// The entry of a value.
    pub fn entry(&self, kind: Kind, name: &str) -> Option<&Entry> {
        self.entries.get(&(kind, name.into()))
    }

    /// The names of all entries of a kind.
    pub(super) fn names_of(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.entries.keys().filter(move |(of, _)| *of == kind).map(|(_, name)| &**name)
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// An IPAddress is stored, new or changed. One that is older than what is known says nothing.
    pub fn set_address(&mut self, address: &IPAddress, now: Seconds) {
        self.set_entry(Entry::of_address(address), now);
    }

    /// A NodePort is stored, new or changed. One that is older than what is known says nothing.
    pub fn set_port(&mut self, port: &crds::NodePort, now: Seconds) {
        self.set_entry(Entry::of_port(port), now);
    }

    /// An entry is there, or shall be: of one that is being made, version and uid are not known yet.
    pub fn set_entry(&mut self, mut entry: Entry, now: Seconds) {
        if let Some(parent) = &mut entry.parent {
            let known = self.services.get_key_value(parent).map(|(key, _)| key);
            let known = known.or_else(|| self.by_parent.get_key_value(parent).map(|(key, _)| key));
            if let Some(key) = known {
                *parent = key.clone();
            }
        }
        let id = (entry.kind, entry.name.clone());
        let old = self.entries.get(&id);
        if old.is_some_and(|old| old.version > entry.version) {
            return;
        }
        let parent = old.and_then(|old| old.parent.clone());
        if parent != entry.parent {
            self.unlink(parent.as_ref(), &id);
            if let Some(parent) = &entry.parent {
                self.by_parent.entry(parent.clone()).or_default().push(id.clone());
            }
        }
        self.changes.services.extend(parent.into_iter().chain(entry.parent.clone()));
        self.changes.fill = true;
        match entry.kind {
            Kind::Address => {
                self.live.set_address(&entry.name, now);
                if let Some(address) = entry.address() {
                    self.call_those_with(address);
                }
            }
            Kind::Port => {
                if let Some(spec) = &entry.port {
                    self.live.set_port(&crds::NodePort::new(&entry.name, (**spec).clone()), now);
                }
                if let Some(port) = entry.number() {
                    self.call_holders(port);
                }
            }
        }
        self.lost.remove(&id);
        self.entries.insert(id, entry);
    }

    /// Whether there was an entry of a value that a Service still has.
    pub fn was_lost(&self, kind: Kind, name: &str) -> bool {
        self.lost.contains(&(kind, name.into()))
    }

    /// The version of an entry is gone that a watch or a list tells of; a younger one of that name stays.
    pub(super) fn entry_gone(&mut self, kind: Kind, name: &str, version: Option<u64>, now: Seconds) {
        if self.entry(kind, name).is_some_and(|known| version.is_none_or(|gone| known.version <= gone)) {
            self.remove_entry(kind, name, now);
        }
    }

    /// An entry is gone.
    pub fn remove_entry(&mut self, kind: Kind, name: &str, now: Seconds) {
        let id = (kind, name.into());
        let Some(old) = self.entries.remove(&id) else { return };
        self.unlink(old.parent.as_ref(), &id);
        self.changes.services.extend(old.parent.clone());
        self.changes.fill = true;
        match kind {
            Kind::Address => {
                self.live.remove_address(name, || old.parent.clone(), now);
                if let Some(address) = old.address() {
                    self.call_those_with(address);
                    if !self.live.services_with(address).is_empty() {
                        self.lost.insert(id);
                    }
                }
            }
            Kind::Port => {
                self.live.remove_port(name, now);
                if let Some(port) = old.number() {
                    self.call_holders(port);
                    if !self.live.ledger.ports.holders(port).is_empty() {
                        self.lost.insert(id);
                    }
                }
            }
        }
        self.wake();
    }

    fn unlink(&mut self, parent: Option<&ServiceKey>, id: &(Kind, Box<str>)) {
        let Some(parent) = parent else { return };
        if let Some(names) = self.by_parent.get_mut(parent) {
            names.retain(|name| name != id);
            if names.is_empty() {
                self.by_parent.remove(parent);
            }
        }
    }

    /// ServiceCIDRs by name.
    pub fn cidrs(&self) -> &BTreeMap<String, ServiceCIDR> {
        &self.cidrs
    }

    pub(crate) fn set_cidr(&mut self, cidr: &ServiceCIDR) {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        if let Err(error) = self.live.set_cidr(cidr) {
            tracing::warn!(servicecidr = name, %error, "a range can not give addresses");
        }
        let nets = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
        let family = |text: &String| text.parse::<ipnet::IpNet>().ok().map(|net| Family::of(net.addr()));
        if name == DEFAULT_CIDR
            && let Some(primary) = nets.first().and_then(family)
        {
            self.live.ledger.families = if nets.len() > 1 {
                ClusterFamilies::dual(primary)
            } else {
                ClusterFamilies::single(primary)
            };
        }
        self.cidrs.insert(name.to_owned(), cidr.clone());
        self.ranges_changed();
    }

    pub(super) fn remove_cidr(&mut self, name: &str) {
        self.live.remove_cidr(name);
        self.cidrs.remove(name);
        self.ranges_changed();
    }

    /// NodePortRanges by name.
    pub fn port_ranges(&self) -> &BTreeMap<String, crds::NodePortRange> {
        &self.port_ranges
    }

    /// A NodePortRange is stored; that of [`DEFAULT_RANGE`] takes the place of what the flag says.
    pub(crate) fn set_port_range(&mut self, range: &crds::NodePortRange) {
        let name = range.metadata.name.clone().unwrap_or_default();
        let same = |known: &crds::NodePortRange| {
            known.spec == range.spec && known.metadata.deletion_timestamp == range.metadata.deletion_timestamp
        };
        let only_status = self.port_ranges.get(&name).is_some_and(same);
        if !only_status && !self.live.set_port_range(range) {
            tracing::warn!(nodeportrange = name, "a range has no ports");
        }
        self.port_ranges.insert(name, range.clone());
        self.range_changed(only_status);
    }

    pub(super) fn remove_port_range(&mut self, name: &str) {
        self.live.remove_port_range(name);
        self.port_ranges.remove(name);
        if name == DEFAULT_RANGE {
            self.live.ledger.ports.set_range(DEFAULT_RANGE, self.node_ports, Role::Dynamic, None);
        }
        self.ranges_changed();
    }

    /// ServicePools by name.
    pub fn pools(&self) -> &BTreeMap<String, ServicePool> {
        &self.pools
    }

    pub(crate) fn set_pool(&mut self, pool: ServicePool) {
        for fault in self.live.set_pool(&pool) {
            tracing::warn!(servicepool = fault.pool, "{}", fault.text);
        }
        let name = pool.metadata.name.clone().unwrap_or_default();
        let same_spec = |known: &ServicePool| known.spec == pool.spec;
        let only_status = self.pools.get(&name).is_some_and(same_spec);
        self.pools.insert(name, pool);
        self.range_changed(only_status);
    }

    pub(super) fn remove_pool(&mut self, name: &str) {
        self.live.remove_pool(name);
        self.pools.remove(name);
        self.ranges_changed();
    }

    /// A range or pool is new or changed. What only says how full it is concerns nobody but who says so.
    fn range_changed(&mut self, only_status: bool) {
        if only_status {
            self.changes.fill = true;
        } else {
            self.ranges_changed();
        }
    }

    fn ranges_changed(&mut self) {
        self.changes.ranges = true;
        self.wake();
    }
}
