//! The state that follows from the events of all kinds.
//!
//! Owns the live ledger, the entries by their parents, the Services, ranges, pools and labels of namespaces, and which of
//! them changed. It watches nothing and decides nothing.

mod answers;
mod entries;
mod ranges;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use foldhash::HashMap;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use service_allocators::pools::Seconds;
use service_allocators::{
    ClusterFamilies, Family, LiveLedger, NodePortRange, PortLedger, PortSharing, ServiceKey,
};
use service_api::crds::{self, ServicePool};
use smallvec::SmallVec;

use self::entries::Entries;
use super::entry::{Became, Entry, EntryKind, version_of};
use super::services::Facts;
use crate::report::trigger::Event;
use crate::text::{Text, Uid};

pub use answers::Mark;

/// So many of the Services that lack a value are told when one comes free: one gets it, and some may go meanwhile.
const WOKEN: usize = 4;

/// EntryKind and name of an entry.
type EntryId = (EntryKind, Box<str>);

/// What happened, and to the object of which name if it is not the Service itself.
pub type Happened = (Event, Option<Text>);

/// What changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services that changed, or whose entries did, and what happened first.
    pub services: BTreeMap<ServiceKey, Happened>,
    /// Whether a ServiceCIDR, a NodePortRange or a ServicePool changed, or the server has a kind that it did not have before.
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
    services: HashMap<ServiceKey, Box<Facts>>,
    entries: Entries,
    /// Entries of living Services that went, until they are there again.
    lost: BTreeSet<EntryId>,
    /// What is known from before the server was put back to an earlier state: its version counts for nothing.
    doubted: answers::Doubted,
    /// Services that lack a value, and which of them is told next when one comes free.
    lacking: BTreeSet<ServiceKey>,
    woken: Option<ServiceKey>,
    cidrs: BTreeMap<String, ServiceCIDR>,
    port_ranges: BTreeMap<String, crds::NodePortRange>,
    pools: BTreeMap<String, ServicePool>,
    users: users::Users,
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// Kinds whose first list is not complete yet.
    missing: BTreeSet<&'static str>,
    /// Kinds that the server does not have.
    absent: BTreeSet<&'static str>,
    changes: Changes,
    /// Nobody is told of changes yet.
    silent: bool,
    none: BTreeMap<String, String>,
}

impl Known {
    pub(super) fn new(node_ports: NodePortRange, sharing: PortSharing) -> Self {
        let ports = PortLedger::new(node_ports, sharing);
        Self {
            live: LiveLedger::new(ClusterFamilies::single(Family::V4), ports),
            node_ports,
            services: HashMap::default(),
            entries: Entries::default(),
            lost: BTreeSet::new(),
            doubted: answers::Doubted::default(),
            lacking: BTreeSet::new(),
            woken: None,
            cidrs: BTreeMap::new(),
            port_ranges: BTreeMap::new(),
            pools: BTreeMap::new(),
            users: users::Users::default(),
            namespaces: HashMap::default(),
            missing: BTreeSet::new(),
            absent: BTreeSet::new(),
            changes: Changes::default(),
            silent: false,
            none: BTreeMap::new(),
        }
    }

    /// What changed since this was asked last; nothing as long as nobody is told.
    pub(super) fn take_changes(&mut self) -> Changes {
        let changes = std::mem::take(&mut self.changes);
        if self.silent { Changes::default() } else { changes }
    }

    /// Whether changes are noted for whoever is told of them.
    pub(super) fn keep_silent(&mut self, silent: bool) {
        self.silent = silent;
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
        // What was in order without it need not be with it.
        self.changes.ranges |= self.absent.remove(kind);
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
        self.services.get(key).map(|facts| &**facts)
    }

    /// All Services.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &Facts)> {
        self.services.iter().map(|(key, facts)| (key, &**facts))
    }

    /// Services that lack a value.
    pub fn lacking(&self) -> &BTreeSet<ServiceKey> {
        &self.lacking
    }

    /// A Service is stored, new or changed. One that is as old as what is known, or older, says nothing.
    pub fn set_service(&mut self, service: &Service, now: Seconds) {
        let meta = &service.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let key = ServiceKey::new(text(&meta.namespace), text(&meta.name));
        let is_doubted = self.doubted.services.remove(&key);
        let (version, uid) = (version_of(meta), Uid::from(meta.uid.as_deref().unwrap_or_default()));
        // An answer is mostly there before the watch tells of the same.
        let is_same = |old: &Facts| old.version == version && version < u64::MAX && old.uid == uid;
        let says_nothing = |old: &Facts| old.version > version || is_same(old);
        if !is_doubted && self.service(&key).is_some_and(says_nothing) {
            return;
        }
        // A key that is shared is there once.
        let key = self.entries.shared_key(&key).cloned().unwrap_or(key);
        let facts = Box::new(Facts::of(&key, uid, service));
        let old = self.services.get(&key);
        self.users.follow(&self.live.pools, &key, old.map(|old| &**old), Some(&facts));
        let event = if old.is_some() { Event::ServiceChanged } else { Event::ServiceAdded };
        let before: SmallVec<[IpAddr; 2]> = old.map(|old| old.addresses().into()).unwrap_or_default();
        let held = old.and_then(|old| old.held().cloned());
        self.live.set_service(held.as_ref(), facts.held(), now);
        self.live.move_addresses(&key, &before, facts.addresses(), now);
        self.follow_lack(&key, facts.lacking().is_some());
        let moved = *before != *facts.addresses() || held.is_some() || facts.held().is_some();
        self.services.insert(key.clone(), facts);
        self.call(key, (event, None));
        self.changes.fill |= moved;
    }

    /// The version of a Service is gone that a watch or a list tells of; a younger one of that name stays.
    pub(super) fn service_gone(&mut self, key: &ServiceKey, version: Option<u64>, now: Seconds) {
        let is_doubted = self.doubted.services.contains(key);
        let is_older = |known: &Facts| is_doubted || version.is_none_or(|gone| known.version <= gone);
        if self.service(key).is_some_and(is_older) {
            self.remove_service(key, now);
        }
    }

    /// A Service is gone.
    pub fn remove_service(&mut self, key: &ServiceKey, now: Seconds) {
        self.doubted.services.remove(key);
        let Some(old) = self.services.remove(key) else { return };
        self.users.follow(&self.live.pools, key, Some(&old), None);
        self.live.set_service(old.held(), None, now);
        self.live.move_addresses(key, old.addresses(), &[], now);
        self.follow_lack(key, false);
        self.call(key.clone(), (Event::ServiceDeleted, None));
        self.changes.fill = true;
        for address in old.addresses() {
            self.call_those_with(*address, &(Event::CameFree, None));
            self.lost.remove(&(EntryKind::Address, address.to_string().into()));
        }
        for (port, _) in old.ports() {
            self.call_holders(*port, &(Event::CameFree, None));
            let names = ["", "-sctp", "-tcp", "-udp"].map(|end| format!("{port}{end}"));
            self.lost
                .retain(|(kind, name)| *kind == EntryKind::Address || !names.iter().any(|n| **n == **name));
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

    /// A Service is to be looked at.
    fn call(&mut self, key: ServiceKey, happened: Happened) {
        if self.silent {
            return;
        }
        self.changes.services.entry(key).or_insert(happened);
    }

    /// Something came free: some of those that lack a value are told, in turn.
    fn wake(&mut self) {
        let from = self.woken.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.lacking.range((from, Bound::Unbounded)).chain(self.lacking.iter());
        let woken: Vec<ServiceKey> = next.take(WOKEN).cloned().collect();
        self.woken = woken.last().cloned();
        for key in woken {
            self.call(key, (Event::CameFree, None));
        }
    }

    fn call_those_with(&mut self, address: IpAddr, happened: &Happened) {
        if self.silent {
            return;
        }
        for key in self.live.services_with(address) {
            self.changes.services.entry(key.clone()).or_insert_with(|| happened.clone());
        }
    }

    fn call_holders(&mut self, port: u16, happened: &Happened) {
        if self.silent {
            return;
        }
        for holder in self.live.ledger.ports.holders(port) {
            self.changes.services.entry(holder.owner.clone()).or_insert_with(|| happened.clone());
        }
    }

    /// The entries whose parent is this Service.
    pub fn entries_of(&self, key: &ServiceKey) -> impl Iterator<Item = &Entry> {
        self.entries.of(key)
    }

    /// The entry of a value.
    pub fn entry(&self, kind: EntryKind, name: &str) -> Option<&Entry> {
        self.entries.get(kind, name)
    }

    /// The names of all entries of a kind.
    pub(super) fn names_of(&self, kind: EntryKind) -> impl Iterator<Item = &str> {
        self.entries().filter(move |entry| entry.kind == kind).map(|entry| &*entry.name)
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
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
            if let Some(key) = known.or_else(|| self.entries.shared_key(parent)) {
                *parent = key.clone();
            }
        }
        let is_doubted = self.doubted.forget(entry.kind, &entry.name);
        let old = self.entries.get(entry.kind, &entry.name);
        if old.is_some_and(|old| *old == entry || (!is_doubted && old.version > entry.version)) {
            return;
        }
        let is_new = old.is_none();
        let parent = old.and_then(|old| old.parent.clone()).filter(|old| Some(old) != entry.parent.as_ref());
        self.changes.fill |= old.is_none_or(|old| old.port != entry.port);
        let became = if is_new { Became::There } else { Became::Another };
        let name = (!self.silent).then(|| (*entry.name).into());
        let happened = (entry.kind.event(became), name);
        for key in parent.into_iter().chain(entry.parent.clone()) {
            self.call(key, happened.clone());
        }
        match entry.kind {
            EntryKind::Address => {
                self.live.set_address(&entry.name, now);
                if let Some(address) = entry.address() {
                    self.call_those_with(address, &happened);
                }
            }
            EntryKind::Port => {
                if let Some(spec) = &entry.port {
                    self.live.set_port(&crds::NodePort::new(&entry.name, (**spec).clone()), now);
                }
                if let Some(port) = entry.number() {
                    self.call_holders(port, &happened);
                }
            }
        }
        if !self.lost.is_empty() {
            self.lost.remove(&(entry.kind, entry.name.clone()));
        }
        self.entries.insert(entry);
    }

    /// Whether there was an entry of a value that a Service still has.
    pub fn was_lost(&self, kind: EntryKind, name: &str) -> bool {
        self.lost.contains(&(kind, name.into()))
    }

    /// The version of an entry is gone that a watch or a list tells of; a younger one of that name stays, and so does one that
    /// is being made, as long as its answer is awaited.
    pub(super) fn entry_gone(&mut self, kind: EntryKind, name: &str, version: Option<u64>, now: Seconds) {
        let is_doubted = self.doubted.is_of(kind, name);
        let is_older = |known: &Entry| {
            is_doubted || (known.version > 0 && version.is_none_or(|gone| known.version <= gone))
        };
        if self.entry(kind, name).is_some_and(is_older) {
            self.remove_entry(kind, name, now);
        }
    }

    /// An entry is gone.
    pub fn remove_entry(&mut self, kind: EntryKind, name: &str, now: Seconds) {
        self.doubted.forget(kind, name);
        let Some(old) = self.entries.remove(kind, name) else { return };
        let happened = (kind.event(Became::Gone), Some(name.into()));
        if let Some(parent) = &old.parent {
            self.call(parent.clone(), happened.clone());
        }
        self.changes.fill = true;
        match kind {
            EntryKind::Address => {
                self.live.remove_address(name, || old.parent.clone(), now);
                if let Some(address) = old.address() {
                    self.call_those_with(address, &happened);
                    if !self.live.services_with(address).is_empty() {
                        self.lost.insert((kind, name.into()));
                    }
                }
            }
            EntryKind::Port => {
                self.live.remove_port(name, now);
                if let Some(port) = old.number() {
                    self.call_holders(port, &happened);
                    if !self.live.ledger.ports.holders(port).is_empty() {
                        self.lost.insert((kind, name.into()));
                    }
                }
            }
        }
        self.wake();
    }
}
