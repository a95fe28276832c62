//! Which cluster IP addresses are taken, and which one comes next.
//!
//! Owns the ranges of all ServiceCIDRs, their state, and the set of taken addresses, inside and
//! outside of every range. It never knows who holds an address: that is in the IPAddress objects
//! whose names this set mirrors.

mod space;
mod words;

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use rand::Rng;

use crate::error::AddressError;
use crate::prefix::{Family, PrefixError, ServicePrefix};
use space::Space;

/// Whether a ServiceCIDR gives addresses away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeState {
    /// Addresses may be asked for and are chosen automatically.
    Ready,
    /// Its Ready condition is not true.
    NotReady,
    /// It waits for its last address; nothing new comes from it.
    Deleting,
}

impl RangeState {
    /// The state of a ServiceCIDR object. One without a Ready condition is ready, because the
    /// controller that writes the condition may not run (as upstream has it).
    pub fn of(cidr: &ServiceCIDR) -> Self {
        let conditions = cidr.status.as_ref().and_then(|s| s.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|c| c.type_ == "Ready");
        if cidr.metadata.deletion_timestamp.is_some() {
            Self::Deleting
        } else if ready.is_none_or(|c| c.status == "True") {
            Self::Ready
        } else {
            Self::NotReady
        }
    }
}

/// How full one range is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeUsage {
    /// The range.
    pub prefix: ServicePrefix,
    /// Whether a ready ServiceCIDR has it.
    pub ready: bool,
    /// Its usable addresses that are taken.
    pub allocated: u64,
    /// Its usable addresses that are free.
    pub available: u64,
}

/// All ranges and all taken addresses of both families.
#[derive(Debug, Clone)]
pub struct AddressLedger {
    v4: Space,
    v6: Space,
}

impl Default for AddressLedger {
    fn default() -> Self {
        Self { v4: Space::new(Family::V4), v6: Space::new(Family::V6) }
    }
}

impl AddressLedger {
    /// A ledger without ranges and without taken addresses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the ServiceCIDR `name` with its one or two CIDRs, or replaces what it had. Addresses
    /// that were taken before count in it at once.
    ///
    /// A CIDR that can not be a range is skipped and told; the others are in use.
    pub fn set_range(&mut self, name: &str, cidrs: &[IpNet], state: RangeState) -> Result<(), PrefixError> {
        let (prefixes, faults): (Vec<_>, Vec<_>) =
            cidrs.iter().map(|net| ServicePrefix::new(*net)).partition(Result::is_ok);
        let prefixes: Vec<ServicePrefix> = prefixes.into_iter().flatten().collect();
        for space in [&mut self.v4, &mut self.v6] {
            let own: Vec<_> = prefixes.iter().copied().filter(|p| p.family() == space.family()).collect();
            space.set_ranges(name, &own, state);
        }
        faults.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// [`Self::set_range`] from the object.
    pub fn set_service_cidr(&mut self, cidr: &ServiceCIDR) -> Result<(), PrefixError> {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        let texts = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
        let (nets, faults): (Vec<_>, Vec<_>) =
            texts.iter().map(|t| t.parse::<IpNet>().map_err(|_| t)).partition(Result::is_ok);
        let nets: Vec<IpNet> = nets.into_iter().flatten().collect();
        self.set_range(name, &nets, RangeState::of(cidr))?;
        match faults.into_iter().find_map(Result::err) {
            Some(text) => Err(PrefixError::Malformed(text.clone())),
            None => Ok(()),
        }
    }

    /// Forgets the ServiceCIDR `name`. Its addresses stay taken until they are removed.
    pub fn remove_range(&mut self, name: &str) {
        self.v4.set_ranges(name, &[], RangeState::Deleting);
        self.v6.set_ranges(name, &[], RangeState::Deleting);
    }

    /// Whether any ServiceCIDR, in whatever state, has a range of this family.
    pub fn has_ranges(&self, family: Family) -> bool {
        self.space(family).has_ranges()
    }

    /// A free address of `family`, chosen uniformly among the free ones of the upper bands of all
    /// ready ranges, or of their lower bands when the upper ones are full. Takes nothing.
    ///
    /// An address that is in the lower band of any ready range counts as lower.
    pub fn choose(&self, family: Family, rng: &mut impl Rng) -> Result<IpAddr, AddressError> {
        self.space(family).choose(rng).ok_or(AddressError::Full)
    }

    /// Whether a Service may ask for `address`. Takes nothing.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressError> {
        self.space(Family::of(address)).check(address)
    }

    /// What a dry run shows in place of an automatic choice: the network address of the first ready range.
    pub fn placeholder(&self, family: Family) -> Result<IpAddr, AddressError> {
        self.space(family).first_ready().map(ServicePrefix::base).ok_or(AddressError::Full)
    }

    /// What a dry run checks of an address that is asked for: that it is usable in a ready range,
    /// not whether it is taken.
    pub fn check_dry_run(&self, address: IpAddr) -> Result<(), AddressError> {
        let space = self.space(Family::of(address));
        let first = space.first_ready().ok_or(AddressError::NotReady)?;
        if space.is_usable(address) { Ok(()) } else { Err(AddressError::NotInRange(first)) }
    }

    /// Whether `address` is taken, in a range or not.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.space(Family::of(address)).contains(address)
    }

    /// Whether a range of any ServiceCIDR, in whatever state, has `address`.
    pub fn is_in_range(&self, address: IpAddr) -> bool {
        self.space(Family::of(address)).is_in_range(address)
    }

    /// Whether a ready range can give `address` away, taken or not.
    pub fn is_usable(&self, address: IpAddr) -> bool {
        self.space(Family::of(address)).is_usable(address)
    }

    /// All taken addresses, in a range or not: IPv4 before IPv6.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.v4.iter().chain(self.v6.iter())
    }

    /// The stretches that automatic choice takes from, the end not included, with what is taken in them: those of the
    /// upper bands, or those of the lower ones. An address is its number less one.
    pub(crate) fn stretches(
        &self,
        family: Family,
        upper: bool,
    ) -> impl Iterator<Item = (u128, u128, &crate::free::FreeSet)> {
        self.space(family).stretches(upper)
    }

    /// Takes `address`, in a range or not; says whether it was free.
    pub fn insert(&mut self, address: IpAddr) -> bool {
        self.space_mut(Family::of(address)).insert(address)
    }

    /// Frees `address`; says whether it was taken.
    pub fn remove(&mut self, address: IpAddr) -> bool {
        self.space_mut(Family::of(address)).remove(address)
    }

    /// How full each range is, each CIDR once, IPv4 before IPv6, in the order they were added.
    /// The cost does not depend on how many addresses there are.
    pub fn usage(&self) -> impl Iterator<Item = RangeUsage> + '_ {
        self.v4.usage().chain(self.v6.usage())
    }

    /// Taken and free addresses of the lower and of the upper band of a range; `None` when no ServiceCIDR has it.
    pub fn fill(&self, prefix: ServicePrefix) -> Option<[(u64, u64); 2]> {
        self.space(prefix.family()).fill(prefix)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.v4.heap_bytes() + self.v6.heap_bytes()
    }

    fn space(&self, family: Family) -> &Space {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    fn space_mut(&mut self, family: Family) -> &mut Space {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}

#[cfg(test)]
mod tests;
