//! Which node ports are taken, by which Service and for which protocols.
//!
//! Owns the range, the free ports of its two bands and the holders of each port. It never looks
//! into a Service: who holds what is told to it.

mod error;
mod range;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rand::{Rng, RngExt};
use smallvec::SmallVec;

use crate::bands::port_band;
use crate::free::FreeSet;

pub use error::PortError;
pub use range::{NodePortRange, PortRangeError};

/// The namespace and name of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey(Arc<(String, String)>);

impl ServiceKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self(Arc::new((namespace.into(), name.into())))
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.0.0
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}

/// A set of transport protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Protocols(u8);

impl Protocols {
    /// TCP alone, which health checks use.
    pub const TCP: Self = Self(1);

    const NAMES: [(&'static str, u8); 3] = [("TCP", 1), ("UDP", 2), ("SCTP", 4)];

    /// The one protocol of this name; without a name TCP. A name that the API does not know is a
    /// protocol of its own, so that it collides with itself only.
    pub fn named(name: &str) -> Self {
        let name = if name.is_empty() { "TCP" } else { name };
        Self(Self::NAMES.iter().find(|(n, _)| *n == name).map_or(8, |(_, bit)| *bit))
    }

    /// The protocols of either set.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have a protocol in common.
    pub fn overlap(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(name, _)| *name);
        let other = (self.0 & 8 != 0).then_some("an unknown protocol");
        f.write_str(&known.chain(other).collect::<Vec<_>>().join(" and "))
    }
}

/// Who may share a port number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortSharing {
    /// A number belongs to one Service, for all protocols (as upstream has it).
    #[default]
    WithinService,
    /// Several Services may hold a number, each for protocols of its own.
    PerProtocol,
}

/// One Service's hold on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The Service.
    pub owner: ServiceKey,
    /// The protocols it holds the port for.
    pub protocols: Protocols,
}

/// All node ports of the cluster.
#[derive(Debug, Clone)]
pub struct PortLedger {
    range: NodePortRange,
    sharing: PortSharing,
    /// The first ports of the range.
    lower: FreeSet,
    /// The rest.
    upper: FreeSet,
    /// Holders of each port of the range.
    holders: Vec<Holders>,
    /// Holders of ports outside of the range, from a time when it was another.
    strays: BTreeMap<u16, Holders>,
}

type Holders = SmallVec<[Holder; 1]>;

impl PortLedger {
    /// A ledger in which all ports of `range` are free.
    pub fn new(range: NodePortRange, sharing: PortSharing) -> Self {
        let band = port_band(range.size()).min(u64::from(range.size()));
        let size = usize::try_from(range.size()).unwrap_or(0);
        Self {
            range,
            sharing,
            lower: FreeSet::new(band),
            upper: FreeSet::new(u64::from(range.size()) - band),
            holders: vec![Holders::new(); size],
            strays: BTreeMap::new(),
        }
    }

    /// The range that ports are chosen from.
    pub fn range(&self) -> NodePortRange {
        self.range
    }

    /// Who may share a port number.
    pub fn sharing(&self) -> PortSharing {
        self.sharing
    }

    /// Ports of the range that are taken.
    pub fn allocated(&self) -> u64 {
        self.lower.taken() + self.upper.taken()
    }

    /// Ports of the range that are free.
    pub fn available(&self) -> u64 {
        self.lower.free() + self.upper.free()
    }

    /// What stands behind "range is full": the range, its size and its use.
    pub(crate) fn fullness(&self) -> String {
        let (taken, all) = (self.allocated(), self.allocated() + self.available());
        format!(": {taken} of the {all} node ports {} are taken", self.range)
    }

    /// Who holds `port`.
    pub fn holders(&self, port: u16) -> &[Holder] {
        match self.range.offset(port) {
            Some(offset) => self.holders.get(offset).map_or(&[], |h| h.as_slice()),
            None => self.strays.get(&port).map_or(&[], |h| h.as_slice()),
        }
    }

    /// Whether anybody holds `port`.
    pub fn contains(&self, port: u16) -> bool {
        !self.holders(port).is_empty()
    }

    /// Whether `number` is a port of the range. It is whatever the object says, so it may be no
    /// port number at all.
    pub fn check_range(&self, number: i32) -> Result<(), PortError> {
        let port = u16::try_from(number).ok();
        match port.and_then(|p| self.range.offset(p)) {
            Some(_) => Ok(()),
            None => Err(PortError::NotInRange(self.range)),
        }
    }

    /// Whether nobody holds `port` in the way of `protocols`. Where Services may share a number,
    /// the holds of `owner` do not count.
    pub fn check_holders(
        &self,
        port: u16,
        protocols: Protocols,
        owner: Option<&ServiceKey>,
    ) -> Result<(), PortError> {
        let in_the_way = self.holders(port).iter().find(|holder| match self.sharing {
            PortSharing::WithinService => true,
            PortSharing::PerProtocol => Some(&holder.owner) != owner && holder.protocols.overlap(protocols),
        });
        match in_the_way {
            None => Ok(()),
            Some(holder) if holder.protocols == protocols => Err(PortError::Allocated),
            Some(Holder { owner, protocols }) => {
                Err(PortError::Held { owner: owner.clone(), protocols: *protocols })
            }
        }
    }

    /// A free port, chosen uniformly among the free ones of the upper band, or of the lower when
    /// the upper is full; none of `except`, which must be ascending. Takes nothing.
    pub fn choose(&self, except: &[u16], rng: &mut impl Rng) -> Result<u16, PortError> {
        let upper = (&self.upper, self.lower.universe());
        let offset = self.pick(upper, except, rng).or_else(|| self.pick((&self.lower, 0), except, rng));
        offset.and_then(|o| self.range.port(o)).ok_or(PortError::Full)
    }

    fn pick(&self, (band, start): (&FreeSet, u64), except: &[u16], rng: &mut impl Rng) -> Option<u64> {
        let offsets = except.iter().filter_map(|p| (self.range.offset(*p)? as u64).checked_sub(start));
        let skipped: SmallVec<[u64; 8]> = offsets
            .filter(|o| *o < band.universe() && !band.contains(*o))
            .map(|o| band.free_rank(o))
            .collect();
        let choices = band.free() - skipped.len() as u64;
        if choices == 0 {
            return None;
        }
        let mut k = rng.random_range(0..choices);
        for rank in skipped {
            k += u64::from(rank <= k);
        }
        band.select_free(k).map(|n| n + start)
    }

    /// Makes `owner` hold `port` for exactly `protocols`, whoever else holds it.
    pub fn hold(&mut self, port: u16, owner: &ServiceKey, protocols: Protocols) {
        let holders = self.holders_mut(port);
        match holders.iter_mut().find(|h| h.owner == *owner) {
            Some(holder) => holder.protocols = protocols,
            None => holders.push(Holder { owner: owner.clone(), protocols }),
        }
        if let Some((band, offset)) = self.band_mut(port) {
            band.insert(offset);
        }
    }

    /// Ends the hold of `owner` on `port`. The port is free when that was the last one.
    pub fn release(&mut self, port: u16, owner: &ServiceKey) {
        let holders = self.holders_mut(port);
        holders.retain(|h| h.owner != *owner);
        if !holders.is_empty() {
            return;
        }
        match self.band_mut(port) {
            Some((band, offset)) => {
                band.remove(offset);
            }
            None => {
                self.strays.remove(&port);
            }
        }
    }

    /// Bytes on the heap, without the keys of Services.
    pub fn heap_bytes(&self) -> usize {
        self.lower.heap_bytes() + self.upper.heap_bytes() + self.holders.capacity() * size_of::<Holders>()
    }

    fn holders_mut(&mut self, port: u16) -> &mut Holders {
        match self.range.offset(port) {
            Some(offset) => &mut self.holders[offset],
            None => self.strays.entry(port).or_default(),
        }
    }

    fn band_mut(&mut self, port: u16) -> Option<(&mut FreeSet, u64)> {
        let offset = self.range.offset(port)? as u64;
        match offset.checked_sub(self.lower.universe()) {
            Some(offset) => Some((&mut self.upper, offset)),
            None => Some((&mut self.lower, offset)),
        }
    }
}

#[cfg(test)]
mod tests;
