//! The address space of one family, cut into segments.
//!
//! Ranges may overlap, so the usable addresses of all ranges are cut at every border of a range
//! and of a band: a *segment* is a stretch of addresses that lie in the same ranges and bands.
//! Each segment has its own set, each range is a run of segments, and a choice is made among the
//! segments that are open to it. So every address is stored once, every count is right for every
//! range, and nothing is counted twice. Borders move only when a ServiceCIDR comes or goes.
//!
//! Inside, an address is its *key*: its number less one, so that the end of the last IPv6 range
//! still is a number. The zero address, which no range gives away, is the largest key.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use rand::{Rng, RngExt};

use super::words::Standing;
use super::{RangeState, RangeUsage};
use crate::bands::address_band;
use crate::error::AddressError;
use crate::free::FreeSet;
use crate::prefix::{self, Family, ServicePrefix, number};

#[derive(Debug, Clone)]
pub(super) struct Space {
    family: Family,
    /// In the order they were added.
    ranges: Vec<ServiceRange>,
    /// Ascending, disjoint, each inside at least one range.
    segments: Vec<Segment>,
    /// Segments that are searched first: in the upper band of every ready range they are part of.
    upper: Vec<usize>,
    /// The other segments of ready ranges.
    lower: Vec<usize>,
    /// The keys of taken addresses that no range can give away.
    outside: BTreeSet<u128>,
}

#[derive(Debug, Clone)]
struct ServiceRange {
    /// The ServiceCIDR's name.
    name: String,
    prefix: ServicePrefix,
    state: RangeState,
    /// The segments it consists of.
    segments: Range<usize>,
}

#[derive(Debug, Clone)]
struct Segment {
    /// The key of its first address.
    first: u128,
    set: FreeSet,
    /// Part of a ready range.
    ready: bool,
}

impl Segment {
    fn end(&self) -> u128 {
        self.first + u128::from(self.set.universe())
    }

    fn offset(&self, key: u128) -> Option<u64> {
        let offset = u64::try_from(key.checked_sub(self.first)?).ok()?;
        (offset < self.set.universe()).then_some(offset)
    }
}

impl ServiceRange {
    /// The keys of the usable addresses, and the first key of the upper band.
    fn borders(&self) -> (Range<u128>, u128) {
        let first = number(self.prefix.base());
        let end = first + u128::from(self.prefix.usable());
        let band = u128::from(address_band(self.prefix.size()));
        (first..end, (first + band).min(end))
    }
}

fn key(address: IpAddr) -> u128 {
    number(address).wrapping_sub(1)
}

impl Space {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            ranges: Vec::new(),
            segments: Vec::new(),
            upper: Vec::new(),
            lower: Vec::new(),
            outside: BTreeSet::new(),
        }
    }

    pub(super) fn family(&self) -> Family {
        self.family
    }

    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Makes `prefixes` the ranges of the ServiceCIDR `name`.
    pub(super) fn set_ranges(&mut self, name: &str, prefixes: &[ServicePrefix], state: RangeState) {
        let before = self.ranges.len();
        self.ranges.retain(|r| r.name != name || prefixes.contains(&r.prefix));
        let mut moved = self.ranges.len() != before;
        for &prefix in prefixes {
            if let Some(range) = self.ranges.iter_mut().find(|r| r.name == name && r.prefix == prefix) {
                range.state = state;
            } else {
                self.ranges.push(ServiceRange { name: name.to_owned(), prefix, state, segments: 0..0 });
                moved = true;
            }
        }
        if moved {
            self.cut();
        }
        self.open();
    }

    pub(super) fn choose(&self, rng: &mut impl Rng) -> Option<IpAddr> {
        let key = self.pick(&self.upper, rng).or_else(|| self.pick(&self.lower, rng))?;
        prefix::address(self.family, key.wrapping_add(1))
    }

    fn pick(&self, segments: &[usize], rng: &mut impl Rng) -> Option<u128> {
        let free = |&i: &usize| self.segments[i].set.free();
        let total: u128 = segments.iter().map(|i| u128::from(free(i))).sum();
        // More than 2^64 free addresses take several IPv6 ranges of the largest size.
        let mut k = match u64::try_from(total) {
            Ok(0) => return None,
            Ok(total) => u128::from(rng.random_range(0..total)),
            Err(_) => rng.random_range(0..total),
        };
        for &i in segments {
            let free = u128::from(self.segments[i].set.free());
            if k < free {
                let offset = self.segments[i].set.select_free(u64::try_from(k).ok()?)?;
                return Some(self.segments[i].first + u128::from(offset));
            }
            k -= free;
        }
        None
    }

    pub(super) fn check(&self, address: IpAddr) -> Result<(), AddressError> {
        if self.is_usable(address) {
            return if self.contains(address) { Err(AddressError::Allocated) } else { Ok(()) };
        }
        // With one range everybody knows which one is meant.
        if self.ranges.iter().skip(1).any(|r| r.prefix != self.ranges[0].prefix)
            && let Some(prefix) = self.ready_cover(address)
            && let (Some(first), Some(last)) = (prefix.first(), prefix.last())
        {
            return Err(AddressError::NotUsable { prefix, first, last });
        }
        Err(AddressError::MismatchedNetwork)
    }

    /// The longest ready prefix around an address.
    fn ready_cover(&self, address: IpAddr) -> Option<ServicePrefix> {
        let ready = self.ranges.iter().filter(|r| r.state == RangeState::Ready);
        ready.map(|r| r.prefix).filter(|p| p.covers(address)).max_by_key(|p| p.net().prefix_len())
    }

    /// Whether a ready range can give `address` away.
    pub(super) fn is_usable(&self, address: IpAddr) -> bool {
        self.find(key(address)).is_some_and(|(i, _)| self.segments[i].ready)
    }

    /// Whether any range can or could give `address` away.
    pub(super) fn is_in_range(&self, address: IpAddr) -> bool {
        self.find(key(address)).is_some()
    }

    /// All taken addresses, those of the ranges ascending and first.
    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let inside = self.segments.iter().flat_map(|s| s.set.iter().map(|n| s.first + u128::from(n)));
        let keys = inside.chain(self.outside.iter().copied());
        keys.filter_map(|key| prefix::address(self.family, key.wrapping_add(1)))
    }

    pub(super) fn stretches(&self, upper: bool) -> impl Iterator<Item = (u128, u128, &FreeSet)> {
        let open = if upper { &self.upper } else { &self.lower };
        open.iter().map(|i| &self.segments[*i]).map(|s| (s.first, s.end(), &s.set))
    }

    pub(super) fn first_ready(&self) -> Option<ServicePrefix> {
        self.ranges.iter().find(|r| r.state == RangeState::Ready).map(|r| r.prefix)
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match self.find(key(address)) {
            Some((i, offset)) => self.segments[i].set.contains(offset),
            None => self.outside.contains(&key(address)),
        }
    }

    pub(super) fn insert(&mut self, address: IpAddr) -> bool {
        self.insert_key(key(address))
    }

    fn insert_key(&mut self, key: u128) -> bool {
        match self.find(key) {
            Some((i, offset)) => self.segments[i].set.insert(offset),
            None => self.outside.insert(key),
        }
    }

    pub(super) fn remove(&mut self, address: IpAddr) -> bool {
        match self.find(key(address)) {
            Some((i, offset)) => self.segments[i].set.remove(offset),
            None => self.outside.remove(&key(address)),
        }
    }

    pub(super) fn usage(&self) -> impl Iterator<Item = RangeUsage> + '_ {
        let first_of_its_kind =
            |(i, r): &(usize, &ServiceRange)| self.ranges[..*i].iter().all(|o| o.prefix != r.prefix);
        self.ranges.iter().enumerate().filter(first_of_its_kind).map(|(_, range)| {
            let segments = &self.segments[range.segments.clone()];
            let same = self.ranges.iter().filter(|r| r.prefix == range.prefix);
            RangeUsage {
                prefix: range.prefix,
                ready: same.into_iter().any(|r| r.state == RangeState::Ready),
                allocated: segments.iter().map(|s| s.set.taken()).sum(),
                available: segments.iter().map(|s| s.set.free()).sum(),
            }
        })
    }

    /// How each range of each ServiceCIDR stands, in the order they were added.
    pub(super) fn standings(&self) -> Vec<Standing> {
        let standing = |range: &ServiceRange| {
            let segments = &self.segments[range.segments.clone()];
            Standing {
                owner: range.name.clone(),
                prefix: range.prefix,
                state: range.state,
                taken: segments.iter().map(|s| s.set.taken()).sum(),
                free: segments.iter().map(|s| s.set.free()).sum(),
            }
        };
        self.ranges.iter().map(standing).collect()
    }

    /// Taken and free addresses of the lower and of the upper band of a range, by its own border between them.
    pub(super) fn fill(&self, prefix: ServicePrefix) -> Option<[(u64, u64); 2]> {
        let range = self.ranges.iter().find(|r| r.prefix == prefix)?;
        let (usable, upper) = range.borders();
        let count = |from: u128, to: u128| {
            let own = &self.segments[range.segments.clone()];
            let pieces = own.iter().filter(|s| (from..to).contains(&s.first));
            pieces.fold((0, 0), |(taken, free), s| (taken + s.set.taken(), free + s.set.free()))
        };
        Some([count(usable.start, upper), count(upper, usable.end)])
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // A B-tree node of addresses is at least half full.
        self.outside.len() * 2 * size_of::<u128>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(|s| s.set.heap_bytes()).sum::<usize>()
            + self.ranges.capacity() * size_of::<ServiceRange>()
            + self.ranges.iter().map(|r| r.name.capacity()).sum::<usize>()
            + (self.upper.capacity() + self.lower.capacity()) * size_of::<usize>()
    }

    /// The segment that holds `key`, and the place in it.
    fn find(&self, key: u128) -> Option<(usize, u64)> {
        let i = self.segments.partition_point(|s| s.first <= key).checked_sub(1)?;
        self.segments[i].offset(key).map(|offset| (i, offset))
    }

    /// Cuts the space anew after ranges came or went. Segments that stay as they were are kept,
    /// the addresses of all others are put in again.
    fn cut(&mut self) {
        let mut borders = BTreeSet::new();
        for range in &self.ranges {
            let (usable, upper) = range.borders();
            borders.extend([usable.start, upper, usable.end]);
        }
        let borders: Vec<u128> = borders.into_iter().collect();
        let mut old = std::mem::take(&mut self.segments);
        for pair in borders.windows(2) {
            let stretch = pair[0]..pair[1];
            if !self.ranges.iter().any(|r| r.borders().0.contains(&stretch.start)) {
                continue;
            }
            let kept = old.iter().position(|s| s.first == stretch.start && s.end() == stretch.end);
            self.segments.push(match kept {
                Some(i) => old.swap_remove(i),
                None => Segment {
                    first: stretch.start,
                    // A stretch lies inside a range, which has less than 2^64 addresses.
                    set: FreeSet::new(u64::try_from(stretch.end - stretch.start).unwrap_or(u64::MAX)),
                    ready: false,
                },
            });
        }
        let displaced = old.iter().flat_map(|s| s.set.iter().map(|n| s.first + u128::from(n)));
        let displaced: Vec<u128> = displaced.chain(std::mem::take(&mut self.outside)).collect();
        for key in displaced {
            self.insert_key(key);
        }
        for range in &mut self.ranges {
            let (usable, _) = range.borders();
            let start = self.segments.partition_point(|s| s.first < usable.start);
            let end = self.segments.partition_point(|s| s.first < usable.end);
            range.segments = start..end;
        }
    }

    /// Finds out anew which segments are open to automatic choice and to explicit asks.
    fn open(&mut self) {
        let mut is_lower = vec![false; self.segments.len()];
        for segment in &mut self.segments {
            segment.ready = false;
        }
        for range in self.ranges.iter().filter(|r| r.state == RangeState::Ready) {
            let (_, upper) = range.borders();
            for i in range.segments.clone() {
                self.segments[i].ready = true;
                is_lower[i] |= self.segments[i].first < upper;
            }
        }
        let ready = (0..self.segments.len()).filter(|&i| self.segments[i].ready);
        (self.lower, self.upper) = ready.partition(|&i| is_lower[i]);
    }
}
