//! The choice for one Service where there are pools.
//!
//! Owns the order: what is reserved for the Service, what it had before, what its pool has, and only then what all
//! others have. It takes nothing.

use std::net::IpAddr;

use rand::Rng;

use super::{Kind, Open, PoolId, PoolRefusal, Pools, Seconds, Share, Value};
use crate::error::AddressError;
use crate::ip::AddressLedger;
use crate::pick;
use crate::plan::Source;
use crate::port::{PortError, PortLedger};
use crate::prefix::Family;
use crate::service_key::ServiceKey;

/// A [`Source`] that heeds pools.
#[derive(Debug)]
pub struct Steered<'a, R> {
    /// All pools.
    pub pools: &'a Pools,
    /// The one that is for the Service.
    pub pool: Option<PoolId>,
    /// The Service.
    pub service: ServiceKey,
    /// The part of the free values that is chosen from.
    pub share: Share,
    /// The time.
    pub now: Seconds,
    /// Chance.
    pub rng: &'a mut R,
}

/// What is asked of a ledger about one value.
struct Asked<'a> {
    kind: Kind,
    open: &'a dyn Open,
    /// Whether the value could be chosen automatically and nobody has it.
    is_free: &'a dyn Fn(Value) -> bool,
    except: &'a [u128],
}

impl<R: Rng> Source for Steered<'_, R> {
    fn choose_address(&mut self, ledger: &AddressLedger, family: Family) -> Result<IpAddr, AddressError> {
        if self.pools.is_empty() {
            return ledger.choose(family, self.rng);
        }
        let is_free = |value: Value| match value {
            Value::Address(address) => ledger.is_usable(address) && !ledger.contains(address),
            Value::Port(_) => false,
        };
        let asked = Asked { kind: Kind::of(family), open: ledger, is_free: &is_free, except: &[] };
        match self.choose(&asked)? {
            Some(Value::Address(address)) => Ok(address),
            _ => Err(AddressError::Full),
        }
    }

    fn choose_port(&mut self, ledger: &PortLedger, except: &[u16]) -> Result<u16, PortError> {
        if self.pools.is_empty() {
            return ledger.choose(except, self.rng);
        }
        let is_free = |value: Value| match value {
            Value::Port(port) => {
                ledger.is_dynamic(port) && !ledger.contains(port) && except.binary_search(&port).is_err()
            }
            Value::Address(_) => false,
        };
        let numbers: Vec<u128> = except.iter().map(|port| u128::from(*port)).collect();
        let asked = Asked { kind: Kind::Port, open: ledger, is_free: &is_free, except: &numbers };
        match self.choose(&asked)? {
            Some(Value::Port(port)) => Ok(port),
            _ => Err(PortError::Full),
        }
    }

    fn admit_address(&self, address: IpAddr) -> Result<(), AddressError> {
        Ok(self.admit(Value::Address(address))?)
    }

    fn admit_port(&self, port: u16) -> Result<(), PortError> {
        Ok(self.admit(Value::Port(port))?)
    }
}

impl<R: Rng> Steered<'_, R> {
    fn choose(&mut self, asked: &Asked<'_>) -> Result<Option<Value>, PoolRefusal> {
        let pool = self.own_pool(asked.kind);
        if let Some(value) = self.reserved(asked).or_else(|| self.had_before(asked, pool)) {
            return Ok(Some(value));
        }
        if let Some(id) = pool {
            if let Some(value) = self.own(asked, id).or_else(|| self.cooled(asked, id)) {
                return Ok(Some(value));
            }
            if !self.pools.allows_fallback(id) {
                return Err(PoolRefusal::Full { pool: self.pools.all[id.0].name.clone() });
            }
        }
        if let Some(value) = self.others(asked) {
            return Ok(Some(value));
        }
        let open = self.pools.names().filter(|(id, _)| Some(*id) != pool && !self.pools.all[id.0].exclusive);
        Ok(open.map(|(id, _)| id).find_map(|id| self.cooled(asked, id)))
    }

    /// The Service's pool, if it has values of this kind.
    fn own_pool(&self, kind: Kind) -> Option<PoolId> {
        self.pool.filter(|id| self.pools.all[id.0].has(kind))
    }

    fn reserved(&self, asked: &Asked<'_>) -> Option<Value> {
        let own = self.pools.reserved_for.get(&self.service)?.iter().filter(|(kind, _)| *kind == asked.kind);
        let open = own.filter(|at| self.pools.reserved.get(at).is_some_and(|r| !r.is_over(self.now)));
        open.filter_map(|(kind, key)| Value::at(*kind, *key)).find(|value| (asked.is_free)(*value))
    }

    /// The value that a Service of this name gave back last.
    fn had_before(&self, asked: &Asked<'_>, pool: Option<PoolId>) -> Option<Value> {
        let own = self.pools.cooling[pool?.0].of(&self.service, asked.kind);
        own.filter_map(|key| Value::at(asked.kind, key)).find(|value| {
            let (kind, key) = value.locate();
            (asked.is_free)(*value)
                && !self.pools.held.contains_key(&(kind, key))
                && self.admit(*value).is_ok()
        })
    }

    fn own(&mut self, asked: &Asked<'_>, id: PoolId) -> Option<Value> {
        let parts = self.pools.parts.get(&asked.kind)?;
        let mut open = asked.open.open(asked.kind, true);
        open.extend(asked.open.open(asked.kind, false));
        [true, false].into_iter().find_map(|upper| {
            let pieces = parts.own(id, &open, upper, self.share);
            pick::uniform(&pieces, asked.except, self.rng).and_then(|key| Value::at(asked.kind, key))
        })
    }

    /// The value of a pool that was given back first, of those that anybody may have again.
    fn cooled(&self, asked: &Asked<'_>, id: PoolId) -> Option<Value> {
        let parts = self.pools.parts.get(&asked.kind)?;
        self.pools.cooling[id.0].cooled(asked.kind, self.now).find_map(|(_, key)| {
            let value = Value::at(asked.kind, key)?;
            let mine = parts.is_in_share(key, self.share);
            let kept = self.pools.held.contains_key(&(asked.kind, key));
            (mine && !kept && (asked.is_free)(value) && self.admit(value).is_ok()).then_some(value)
        })
    }

    fn others(&mut self, asked: &Asked<'_>) -> Option<Value> {
        let none = super::Parts::default();
        let parts = self.pools.parts.get(&asked.kind).unwrap_or(&none);
        let is_open = |id: PoolId| !self.pools.all[id.0].exclusive && Some(id) != self.pool;
        let held = self.pools.held.keys().filter(|(kind, _)| *kind == asked.kind).map(|(_, key)| *key);
        let mut except: Vec<u128> = asked.except.iter().copied().chain(held).collect();
        except.sort_unstable();
        [true, false].into_iter().find_map(|upper| {
            let open = asked.open.open(asked.kind, upper);
            let pieces = parts.others(&open, is_open, self.share);
            pick::uniform(&pieces, &except, self.rng).and_then(|key| Value::at(asked.kind, key))
        })
    }

    /// Whether the Service may have a free value that it asks for.
    fn admit(&self, value: Value) -> Result<(), PoolRefusal> {
        let (kind, key) = value.locate();
        let name = |id: PoolId| self.pools.all[id.0].name.clone();
        if let Some(reserved) = self.pools.reserved.get(&(kind, key)).filter(|r| !r.is_over(self.now)) {
            if reserved.owner == self.service {
                return Ok(());
            }
            let (owner, pool) = (reserved.owner.clone(), name(reserved.pool));
            return Err(PoolRefusal::Reserved { value, owner, pool });
        }
        let holder = self.pools.part_of(kind, key);
        if let Some(id) = holder {
            if self.pools.all[id.0].exclusive && self.pool != holder {
                return Err(PoolRefusal::Exclusive { value, pool: name(id) });
            }
            if let Some((left, owner)) = self.pools.cooling[id.0].keeps(kind, key, &self.service, self.now) {
                return Err(PoolRefusal::Cooling { value, owner: owner.cloned(), pool: name(id), left });
            }
        }
        match self.own_pool(kind) {
            Some(own) if holder != Some(own) && !self.pools.allows_fallback(own) => {
                Err(PoolRefusal::Outside { value, pool: name(own) })
            }
            _ => Ok(()),
        }
    }
}
