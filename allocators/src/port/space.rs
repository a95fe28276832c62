//! The node ports of all ranges, cut into segments.
//!
//! Owns the ranges, what each port is for, and the set of taken ports of each segment. As with addresses, a segment is
//! a stretch of ports that lie in the same ranges and bands. It never knows who holds a port.

use std::collections::BTreeSet;

use service_api::crds::Role;

use super::NodePortRange;
use crate::bands::port_band;
use crate::free::FreeSet;
use crate::pick::Piece;

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Chosen first.
    Upper,
    /// Chosen when nothing else is left.
    Lower,
    /// Given to who asks for it.
    Static,
}

#[derive(Debug, Clone)]
struct Range {
    name: String,
    ports: NodePortRange,
    role: Role,
    /// The first port of the upper band.
    upper: u32,
}

#[derive(Debug, Clone)]
struct Segment {
    first: u32,
    set: FreeSet,
    class: Class,
}

impl Segment {
    fn end(&self) -> u32 {
        self.first + u32::try_from(self.set.universe()).unwrap_or(u32::MAX)
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// In the order they were added.
    ranges: Vec<Range>,
    /// Ascending, disjoint.
    segments: Vec<Segment>,
}

impl Space {
    /// Makes `ports` the range `name`. Returns whether anything changed; the caller then tells what is taken anew.
    pub(super) fn set_range(
        &mut self,
        name: &str,
        ports: NodePortRange,
        role: Role,
        band: Option<u32>,
    ) -> bool {
        let band = band.map_or_else(|| port_band(ports.size()), u64::from).min(u64::from(ports.size()));
        let upper = u32::from(ports.first()) + u32::try_from(band).unwrap_or(u32::MAX);
        let range = Range { name: name.to_owned(), ports, role, upper };
        match self.ranges.iter_mut().find(|r| r.name == name) {
            Some(known) if (known.ports, known.role, known.upper) == (ports, role, upper) => return false,
            Some(known) => *known = range,
            None => self.ranges.push(range),
        }
        self.cut();
        true
    }

    /// Forgets the range `name`. Returns whether it was there.
    pub(super) fn remove_range(&mut self, name: &str) -> bool {
        let before = self.ranges.len();
        self.ranges.retain(|r| r.name != name);
        if self.ranges.len() == before {
            return false;
        }
        self.cut();
        true
    }

    /// The ranges that ports may be had from, each once, in the order they were added.
    pub(super) fn usable(&self) -> Vec<NodePortRange> {
        let mut all: Vec<NodePortRange> = Vec::new();
        for range in self.ranges.iter().filter(|r| r.role != Role::Excluded) {
            if !all.contains(&range.ports) {
                all.push(range.ports);
            }
        }
        all
    }

    /// All ranges with their names and roles, in the order they were added.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&str, NodePortRange, Role)> {
        self.ranges.iter().map(|r| (r.name.as_str(), r.ports, r.role))
    }

    /// What `port` is for; `None` when nobody may have it.
    pub(super) fn class(&self, port: u16) -> Option<Class> {
        self.find(port).map(|(i, _)| self.segments[i].class)
    }

    /// The stretches of a class.
    pub(super) fn pieces(&self, class: Class) -> impl Iterator<Item = Piece<'_>> {
        let open = self.segments.iter().filter(move |s| s.class == class);
        open.map(|s| Piece::new(&s.set, s.first.into(), s.first.into(), s.end().into()))
    }

    /// The stretches of a class as numbers, the end not included.
    pub(super) fn stretches(&self, class: Class) -> impl Iterator<Item = (u128, u128, &FreeSet)> {
        let open = self.segments.iter().filter(move |s| s.class == class);
        open.map(|s| (u128::from(s.first), u128::from(s.end()), &s.set))
    }

    /// Taken and free ports of one range, of its lower and its upper band.
    pub(super) fn fill(&self, name: &str) -> Option<[(u64, u64); 2]> {
        let range = self.ranges.iter().find(|r| r.name == name)?;
        let (first, end) = (u32::from(range.ports.first()), u32::from(range.ports.last()) + 1);
        let count = |from: u32, to: u32| {
            let pieces =
                self.segments.iter().map(|s| Piece::new(&s.set, s.first.into(), from.into(), to.into()));
            pieces.fold((0, 0), |(taken, free), piece| (taken + piece.taken(), free + piece.free()))
        };
        Some([count(first, range.upper), count(range.upper, end)])
    }

    pub(super) fn taken(&self) -> u64 {
        self.segments.iter().map(|s| s.set.taken()).sum()
    }

    pub(super) fn free(&self) -> u64 {
        self.segments.iter().map(|s| s.set.free()).sum()
    }

    pub(super) fn insert(&mut self, port: u16) {
        if let Some((i, place)) = self.find(port) {
            self.segments[i].set.insert(place);
        }
    }

    pub(super) fn remove(&mut self, port: u16) {
        if let Some((i, place)) = self.find(port) {
            self.segments[i].set.remove(place);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(|s| s.set.heap_bytes()).sum::<usize>()
            + self.ranges.capacity() * size_of::<Range>()
    }

    fn find(&self, port: u16) -> Option<(usize, u64)> {
        let port = u32::from(port);
        let i = self.segments.partition_point(|s| s.first <= port).checked_sub(1)?;
        (port < self.segments[i].end()).then(|| (i, u64::from(port - self.segments[i].first)))
    }

    /// Cuts the ports anew; all of them are free then.
    fn cut(&mut self) {
        let mut borders = BTreeSet::new();
        for range in &self.ranges {
            borders.extend([u32::from(range.ports.first()), range.upper, u32::from(range.ports.last()) + 1]);
        }
        let borders: Vec<u32> = borders.into_iter().collect();
        self.segments = borders
            .windows(2)
            .filter_map(|pair| {
                let class = self.class_of(pair[0])?;
                Some(Segment { first: pair[0], set: FreeSet::new(u64::from(pair[1] - pair[0])), class })
            })
            .collect();
    }

    /// Excluded counts more than static, static more than dynamic, lower more than upper.
    fn class_of(&self, port: u32) -> Option<Class> {
        let covers = |r: &&Range| (u32::from(r.ports.first())..=u32::from(r.ports.last())).contains(&port);
        let covering: Vec<&Range> = self.ranges.iter().filter(covers).collect();
        match covering.iter().map(|r| r.role).max()? {
            Role::Excluded => None,
            Role::StaticOnly => Some(Class::Static),
            Role::Dynamic if covering.iter().any(|r| port < r.upper) => Some(Class::Lower),
            Role::Dynamic => Some(Class::Upper),
        }
    }
}
