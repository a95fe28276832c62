//! Which node ports are taken, by which Service and for which protocols.
//!
//! Owns the ranges, the free ports of their bands and the holders of each port. It never looks
//! into a Service: who holds what is told to it.

mod error;
pub(crate) mod holds;
mod range;
mod space;

use std::collections::BTreeMap;
use std::fmt;

use rand::Rng;
use service_api::crds::Role;
use smallvec::SmallVec;

use crate::free::FreeSet;
use crate::pick;
use crate::service_key::ServiceKey;
use space::{Class, Space};

pub use error::PortError;
pub use range::{NodePortRange, PortRangeError, PortRanges};

/// The name of the range of `--service-node-port-range`, as that of the first ServiceCIDR.
pub const DEFAULT_RANGE: &str = "kubernetes";

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
    sharing: PortSharing,
    space: Space,
    /// Holders of each port, in a range or not.
    holders: BTreeMap<u16, Holders>,
}

type Holders = SmallVec<[Holder; 1]>;

impl PortLedger {
    /// A ledger in which all ports of `range` are free. Its range is called [`DEFAULT_RANGE`].
    pub fn new(range: NodePortRange, sharing: PortSharing) -> Self {
        let mut ledger = Self::without_ranges(sharing);
        ledger.set_range(DEFAULT_RANGE, range, Role::Dynamic, None);
        ledger
    }

    /// A ledger without ranges, whose ports nobody can have.
    pub fn without_ranges(sharing: PortSharing) -> Self {
        Self { sharing, space: Space::default(), holders: BTreeMap::new() }
    }

    /// Adds the range `name`, or replaces what it was. `band` is the size of its lower band, without it what upstream
    /// has for a range of that size. Ports that were taken before count in it at once.
    ///
    /// Where ranges overlap, `Excluded` counts more than `StaticOnly`, and that more than `Dynamic`; a port in the lower
    /// band of any of them is lower.
    pub fn set_range(&mut self, name: &str, range: NodePortRange, role: Role, band: Option<u32>) {
        if self.space.set_range(name, range, role, band) {
            self.fill_anew();
        }
    }

    /// Forgets the range `name`. Its ports stay taken until they are released.
    pub fn remove_range(&mut self, name: &str) {
        if self.space.remove_range(name) {
            self.fill_anew();
        }
    }

    fn fill_anew(&mut self) {
        for port in self.holders.keys() {
            self.space.insert(*port);
        }
    }

    /// The first range that ports may be had from; upstream's default one when there is none.
    pub fn range(&self) -> NodePortRange {
        self.space.usable().first().copied().unwrap_or_default()
    }

    /// The ranges that ports may be had from, each once.
    pub fn ranges(&self) -> PortRanges {
        PortRanges(self.space.usable())
    }

    /// All ranges with their names and roles, in the order they were added.
    pub fn named_ranges(&self) -> impl Iterator<Item = (&str, NodePortRange, Role)> {
        self.space.ranges()
    }

    /// Taken and free ports of the lower and of the upper band of the range `name`.
    pub fn fill(&self, name: &str) -> Option<[(u64, u64); 2]> {
        self.space.fill(name)
    }

    /// Who may share a port number.
    pub fn sharing(&self) -> PortSharing {
        self.sharing
    }

    /// Ports of the ranges that are taken.
    pub fn allocated(&self) -> u64 {
        self.space.taken()
    }

    /// Ports of the ranges that are free.
    pub fn available(&self) -> u64 {
        self.space.free()
    }

    /// What stands behind "range is full": the range, its size and its use.
    pub(crate) fn fullness(&self) -> String {
        let (taken, all) = (self.allocated(), self.allocated() + self.available());
        format!(": {taken} of the {all} node ports {} are taken", self.ranges())
    }

    /// Who holds `port`.
    pub fn holders(&self, port: u16) -> &[Holder] {
        self.holders.get(&port).map_or(&[], |h| h.as_slice())
    }

    /// All ports that are held, in a range or not, ascending.
    pub fn held(&self) -> impl Iterator<Item = (u16, &[Holder])> {
        self.holders.iter().map(|(port, holders)| (*port, holders.as_slice()))
    }

    /// Whether anybody holds `port`.
    pub fn contains(&self, port: u16) -> bool {
        !self.holders(port).is_empty()
    }

    /// Whether `number` is a port of a range that may be had. It is whatever the object says, so it may be no
    /// port number at all.
    pub fn check_range(&self, number: i32) -> Result<(), PortError> {
        let port = u16::try_from(number).ok();
        match port.and_then(|p| self.space.class(p)) {
            Some(_) => Ok(()),
            None => Err(PortError::NotInRange(self.ranges())),
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

    /// A free port, chosen uniformly among the free ones of the upper bands, or of the lower ones when
    /// the upper are full; none of `except`, which must be ascending. Takes nothing.
    pub fn choose(&self, except: &[u16], rng: &mut impl Rng) -> Result<u16, PortError> {
        let mut of = |class: Class| {
            let pieces: SmallVec<[pick::Piece<'_>; 4]> = self.space.pieces(class).collect();
            pick::uniform(&pieces, except, rng)
        };
        let port = of(Class::Upper).or_else(|| of(Class::Lower));
        port.and_then(|p| u16::try_from(p).ok()).ok_or(PortError::Full)
    }

    /// Whether automatic choice may come upon `port`.
    pub(crate) fn is_dynamic(&self, port: u16) -> bool {
        self.space.class(port).is_some_and(|class| class != Class::Static)
    }

    /// The stretches that automatic choice takes from, the end not included, with what is taken in them: those of the
    /// upper bands, or those of the lower ones.
    pub(crate) fn stretches(&self, upper: bool) -> impl Iterator<Item = (u128, u128, &FreeSet)> {
        self.space.stretches(if upper { Class::Upper } else { Class::Lower })
    }

    /// Makes `owner` hold `port` for exactly `protocols`, whoever else holds it.
    pub fn hold(&mut self, port: u16, owner: &ServiceKey, protocols: Protocols) {
        let holders = self.holders.entry(port).or_default();
        match holders.iter_mut().find(|h| h.owner == *owner) {
            Some(holder) => holder.protocols = protocols,
            None => holders.push(Holder { owner: owner.clone(), protocols }),
        }
        self.space.insert(port);
    }

    /// Ends the hold of `owner` on `port`. The port is free when that was the last one.
    pub fn release(&mut self, port: u16, owner: &ServiceKey) {
        let Some(holders) = self.holders.get_mut(&port) else { return };
        holders.retain(|h| h.owner != *owner);
        if holders.is_empty() {
            self.holders.remove(&port);
            self.space.remove(port);
        }
    }

    /// Bytes on the heap, without the keys of Services.
    pub fn heap_bytes(&self) -> usize {
        // A B-tree node is at least half full.
        self.space.heap_bytes() + self.holders.len() * 2 * size_of::<(u16, Holders)>()
    }
}

#[cfg(test)]
mod tests;
