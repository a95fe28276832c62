//! Parts of the ranges for the Services of a selector.
//!
//! ```text
//!   ServicePools --> define: parts, reservations, faults
//!                        |
//!   taken, given back ---+--> Pools: a set of unavailable values for each part
//!                        |
//!   a Service, its namespace's labels --> find --> Steered: a plan's Source
//! ```
//!
//! Owns which pool a Service belongs to, what each part keeps back (values that are taken, reserved, cooling down or in
//! flight) and the choice among the rest. It never takes a value and reads no clock: the time is an argument. Without
//! a pool every choice is that of the whole ranges.

mod cooling;
mod define;
mod fill;
mod parts;
mod share;
mod steered;
mod users;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Service;
use service_api::crds::servicepool::CoolingValue;
use service_api::crds::{Fallback, ServicePool};

use crate::ip::AddressLedger;
use crate::plan::Ledger;
use crate::port::PortLedger;
use crate::prefix::Family;
use crate::service_key::ServiceKey;
use crate::value::Key;
use cooling::{Cooling, Freed};
use define::Definition;
use parts::Parts;

pub use crate::refusal::PoolRefusal;
pub use crate::value::{Kind, Seconds, Value};
pub use define::PoolFault;
pub use fill::{Level, PoolUsage};
pub use share::{Share, ShareError};
pub use steered::Steered;
pub use users::PoolUsers;

/// One pool of [`Pools`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(usize);

fn is_taken(value: Value, ledger: &Ledger) -> bool {
    match value {
        Value::Address(address) => ledger.addresses.contains(address),
        Value::Port(port) => ledger.ports.contains(port),
    }
}

#[derive(Debug, Clone)]
struct Reserved {
    pool: PoolId,
    owner: ServiceKey,
    until: Option<Seconds>,
}

impl Reserved {
    fn is_over(&self, now: Seconds) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// One value that was chosen and is not stored yet.
#[derive(Debug, Clone)]
struct Held {
    until: Seconds,
}

/// All pools, and what they keep back.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    /// In the order in which they are asked whether they are for a Service.
    all: Vec<Definition>,
    faults: Vec<PoolFault>,
    parts: BTreeMap<Kind, Parts>,
    cooling: Vec<Cooling>,
    reserved: BTreeMap<(Kind, Key), Reserved>,
    reserved_for: HashMap<ServiceKey, Vec<(Kind, Key)>>,
    reserved_until: BTreeSet<(Seconds, Kind, Key)>,
    held: BTreeMap<(Kind, Key), Held>,
    held_until: BTreeSet<(Seconds, Kind, Key)>,
}

impl Pools {
    /// The pools of these objects, from which nothing is taken yet. What is wrong with one is in [`Self::faults`], and
    /// the parts of it that are right are in use.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a ServicePool>) -> Self {
        let mut pools = Self::default();
        let mut definitions: Vec<(Definition, &ServicePool)> = Vec::new();
        for object in objects {
            let (definition, faults) = Definition::of(object);
            pools.faults.extend(faults);
            definitions.push((definition, object));
        }
        definitions.sort_by(|(a, _), (b, _)| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        for (i, (definition, object)) in definitions.into_iter().enumerate() {
            pools.add(PoolId(i), definition, object);
        }
        pools
    }

    fn add(&mut self, id: PoolId, definition: Definition, object: &ServicePool) {
        for stretch in &definition.stretches {
            let parts = self.parts.entry(stretch.kind).or_default();
            if let Some(other) = parts.add(id, stretch) {
                let other = self.all.get(other.0).map_or(definition.name.as_str(), |p| p.name.as_str());
                self.faults.push(PoolFault {
                    pool: definition.name.clone(),
                    text: format!("{} overlaps a part of ServicePool {other}; it is left out", stretch.text),
                });
            }
        }
        let cool_down = definition.cool_down;
        self.all.push(definition);
        self.cooling.push(Cooling::new(cool_down));
        self.reserve(id, object);
    }

    fn reserve(&mut self, id: PoolId, object: &ServicePool) {
        for reservation in &object.spec.reservations {
            let Some(value) = define::value_of(reservation) else { continue };
            let (kind, key) = value.locate();
            let owner = ServiceKey::new(&*reservation.namespace, &*reservation.name);
            let name = self.all[id.0].name.clone();
            if self.part_of(kind, key) != Some(id) {
                let text = format!("the reservation of {value} for Service {owner} is outside of the pool");
                self.faults.push(PoolFault { pool: name, text });
                continue;
            }
            if let Some(other) = self.reserved.get(&(kind, key)) {
                let text = format!("{value} is reserved for Service {} as well as for {owner}", other.owner);
                self.faults.push(PoolFault { pool: name, text });
                continue;
            }
            let until = reservation.until.as_ref().map(|time| time.0.as_second());
            self.reserved.insert((kind, key), Reserved { pool: id, owner: owner.clone(), until });
            self.reserved_for.entry(owner).or_default().push((kind, key));
            self.reserved_until.extend(until.map(|until| (until, kind, key)));
            self.refresh(kind, key, false);
        }
    }

    /// Takes up what is taken in `ledger`, and what was cooling down and in flight in `before`, the pools as they were
    /// before one of their objects changed. A value keeps its place where the pool of that name has it still.
    pub fn adopt(&mut self, before: &Self, ledger: &Ledger) {
        for ((kind, key), held) in &before.held {
            self.hold_key(*kind, *key, held.until);
        }
        for (definition, cooling) in before.all.iter().zip(&before.cooling) {
            let Some(id) = self.all.iter().position(|p| p.name == definition.name) else { continue };
            for (kind, key, freed) in cooling.iter() {
                if self.part_of(kind, key) == Some(PoolId(id)) && self.all[id].cool_down > 0 {
                    self.cooling[id].insert(kind, key, freed.clone());
                    self.refresh(kind, key, false);
                }
            }
        }
        for address in ledger.addresses.iter() {
            self.take(Value::Address(address));
        }
        for (port, _) in ledger.ports.held() {
            self.take(Value::Port(port));
        }
    }

    /// Takes up what the pool's status says is cooling down: after a restart nothing else knows. What is known to be taken,
    /// or to have been given back later, stays as it is.
    pub fn restore(&mut self, object: &ServicePool, ledger: &Ledger) {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let Some(id) = self.all.iter().position(|pool| pool.name == name) else { return };
        let said = object.status.iter().flat_map(|status| &status.cooling_down);
        for (value, cooling) in said.filter_map(|cooling| Some((Value::parse(&cooling.value)?, cooling))) {
            let (kind, key) = value.locate();
            let is_ours = self.part_of(kind, key) == Some(PoolId(id)) && self.all[id].cool_down > 0;
            let later = self.cooling[id].since(kind, key).is_some_and(|since| since >= cooling.since);
            if !is_ours || later || is_taken(value, ledger) {
                continue;
            }
            let owner = cooling.service.split_once('/').map(|(ns, name)| ServiceKey::new(ns, name));
            self.cooling[id].insert(kind, key, Freed { owner, at: cooling.since });
            self.refresh(kind, key, false);
        }
    }

    /// What a pool keeps from others at `now` because it was given back, the latest first and at most `most` of them.
    pub fn cooling_down(&self, pool: &str, now: Seconds, most: usize) -> Vec<CoolingValue> {
        let Some(id) = self.all.iter().position(|known| known.name == pool) else { return Vec::new() };
        let last = self.cooling[id].last(now, most);
        last.filter_map(|(kind, key, freed)| {
            Some(CoolingValue {
                value: Value::at(kind, key)?.to_string(),
                service: freed.owner.as_ref().map(ToString::to_string).unwrap_or_default(),
                since: freed.at,
            })
        })
        .collect()
    }

    /// Whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What is wrong with pools by themselves and with each other.
    pub fn faults(&self) -> &[PoolFault] {
        &self.faults
    }

    /// What is wrong with pools beside the ranges that there are: parts that lie outside of all of them.
    pub fn outside(&self, ledger: &Ledger) -> Vec<PoolFault> {
        let all = self.all.iter().flat_map(|pool| pool.stretches.iter().map(move |s| (pool, s)));
        let outside = all.filter(|(_, stretch)| !stretch.is_inside(ledger));
        outside
            .map(|(pool, stretch)| PoolFault {
                pool: pool.name.clone(),
                text: format!("{} is in no {}", stretch.text, stretch.range_kind()),
            })
            .collect()
    }

    /// The names of all pools.
    pub fn names(&self) -> impl Iterator<Item = (PoolId, &str)> {
        self.all.iter().enumerate().map(|(i, pool)| (PoolId(i), pool.name.as_str()))
    }

    /// The pool that is for `service`, whose namespace has these labels.
    pub fn find(&self, service: &Service, namespace: &BTreeMap<String, String>) -> Option<PoolId> {
        let none = BTreeMap::new();
        let labels = service.metadata.labels.as_ref().unwrap_or(&none);
        self.all.iter().position(|pool| pool.is_for(labels, namespace)).map(PoolId)
    }

    /// Whether the choice of a value of this kind is any other for the Service than that of the whole ranges: its pool
    /// has some, or pools keep some from it or for it.
    pub fn steers(&self, pool: Option<PoolId>, service: &ServiceKey, kind: Kind) -> bool {
        let reserved = || self.reserved_for.get(service).into_iter().flatten().any(|(k, _)| *k == kind);
        pool.is_some_and(|id| self.all[id.0].has(kind))
            || self.all.iter().any(|p| p.exclusive && p.has(kind))
            || reserved()
    }

    /// The value is taken.
    pub fn take(&mut self, value: Value) {
        let (kind, key) = value.locate();
        if let Some(held) = self.held.remove(&(kind, key)) {
            self.held_until.remove(&(held.until, kind, key));
        }
        if let Some(id) = self.part_of(kind, key) {
            self.cooling[id.0].remove(kind, key);
        }
        self.refresh(kind, key, true);
    }

    /// The value was given back, by `owner` where that is known, at `now`.
    pub fn give_back(&mut self, value: Value, owner: Option<&ServiceKey>, now: Seconds) {
        let (kind, key) = value.locate();
        if let Some(id) = self.part_of(kind, key)
            && self.all[id.0].cool_down > 0
        {
            let freed = Freed { owner: owner.cloned(), at: now };
            if let Some((kind, key)) = self.cooling[id.0].insert(kind, key, freed) {
                self.refresh(kind, key, false);
            }
        }
        self.refresh(kind, key, false);
    }

    /// Keeps a chosen value from being chosen again before `until`; taking it ends that.
    pub fn hold(&mut self, value: Value, until: Seconds) {
        let (kind, key) = value.locate();
        self.hold_key(kind, key, until);
    }

    fn hold_key(&mut self, kind: Kind, key: Key, until: Seconds) {
        if let Some(old) = self.held.insert((kind, key), Held { until }) {
            self.held_until.remove(&(old.until, kind, key));
        }
        self.held_until.insert((until, kind, key));
        self.refresh(kind, key, false);
    }

    /// Forgets what is over at `now`: values in flight that nobody stored, and reservations.
    pub fn advance(&mut self, now: Seconds, ledger: &Ledger) {
        while let Some(&(until, kind, key)) = self.held_until.first()
            && until <= now
        {
            self.held_until.pop_first();
            self.held.remove(&(kind, key));
            let taken = Value::at(kind, key).is_some_and(|value| is_taken(value, ledger));
            self.refresh(kind, key, taken);
        }
        while let Some(&(until, kind, key)) = self.reserved_until.first()
            && until <= now
        {
            self.reserved_until.pop_first();
            if let Some(reserved) = self.reserved.remove(&(kind, key))
                && let Some(all) = self.reserved_for.get_mut(&reserved.owner)
            {
                all.retain(|at| *at != (kind, key));
                if all.is_empty() {
                    self.reserved_for.remove(&reserved.owner);
                }
            }
            let taken = Value::at(kind, key).is_some_and(|value| is_taken(value, ledger));
            self.refresh(kind, key, taken);
        }
    }

    /// How full each pool is, in the order of [`Self::names`].
    pub fn usage<'a>(&'a self, ledger: &'a Ledger) -> impl Iterator<Item = PoolUsage> + 'a {
        self.names().map(|(id, name)| self.fill(id, name, ledger))
    }

    /// How full the pool of that name is.
    pub fn usage_of(&self, name: &str, ledger: &Ledger) -> Option<PoolUsage> {
        let (id, name) = self.names().find(|(_, own)| *own == name)?;
        Some(self.fill(id, name, ledger))
    }

    fn fill(&self, id: PoolId, name: &str, ledger: &Ledger) -> PoolUsage {
        let of_kind = |kind| Some((kind, self.parts.get(&kind)?.fill(id, kind, ledger)?));
        PoolUsage { pool: name.to_owned(), kinds: Kind::ALL.into_iter().filter_map(of_kind).collect() }
    }

    /// The pool that a value is part of, by name.
    pub fn pool_of(&self, value: Value) -> Option<&str> {
        let (kind, key) = value.locate();
        self.part_of(kind, key).map(|id| self.all[id.0].name.as_str())
    }

    fn part_of(&self, kind: Kind, key: Key) -> Option<PoolId> {
        self.parts.get(&kind)?.pool_of(key)
    }

    /// Sets whether automatic choice may have the value, from all that can keep it back.
    fn refresh(&mut self, kind: Kind, key: Key, taken: bool) {
        let Some(id) = self.part_of(kind, key) else { return };
        let unavailable = taken
            || self.cooling[id.0].contains(kind, key)
            || self.reserved.contains_key(&(kind, key))
            || self.held.contains_key(&(kind, key));
        if let Some(parts) = self.parts.get_mut(&kind) {
            parts.set(key, unavailable);
        }
    }

    fn allows_fallback(&self, id: PoolId) -> bool {
        self.all[id.0].fallback == Fallback::Allowed
    }
}

/// What can be chosen from automatically, as stretches of keys with what is taken in each.
trait Open {
    /// The stretches of the upper bands, or those of the lower ones; the end is not included.
    fn open(&self, kind: Kind, upper: bool) -> Vec<(Key, Key, &crate::free::FreeSet)>;
}

impl Open for AddressLedger {
    fn open(&self, kind: Kind, upper: bool) -> Vec<(Key, Key, &crate::free::FreeSet)> {
        let family = if kind == Kind::V6 { Family::V6 } else { Family::V4 };
        self.stretches(family, upper).collect()
    }
}

impl Open for PortLedger {
    fn open(&self, _kind: Kind, upper: bool) -> Vec<(Key, Key, &crate::free::FreeSet)> {
        self.stretches(upper).collect()
    }
}

#[cfg(test)]
mod tests;
