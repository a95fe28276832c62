//! How large the caches are, counted when somebody asks.

use std::collections::BTreeMap;

use super::Index;
use super::slice_set::SliceSet;
use crate::cache::{AddressType, Hinting, Ports, Service, Traffic};

impl Index {
    /// How many pods, Services and slices are known, and how many slices of at most `max_per_slice` endpoints, and mirrors
    /// of at most `max_mirrored`, would do.
    #[must_use]
    pub fn sizes(&self, max_per_slice: usize, max_mirrored: usize) -> Sizes {
        let mut sizes =
            Sizes { nodes: self.nodes.len(), strings: self.shared.texts.len(), ..Sizes::default() };
        for space in self.namespaces.values() {
            sizes.pods += space.pods.names().count();
            sizes.services += space.services.len();
            for service in space.services.values() {
                count_by_traffic(service, &mut sizes.by_traffic);
            }
            for set in space.slices.values() {
                sizes.slices.add(set, max_per_slice);
            }
            for set in space.mirrors.values() {
                sizes.mirrors.add(set, max_mirrored);
            }
        }
        sizes
    }
}

fn count_by_traffic(service: &Service, by_traffic: &mut [usize; Traffic::ALL.len()]) {
    let Hinting::Field(asked) = service.hinting() else { return };
    for (_, count) in
        Traffic::ALL.iter().zip(by_traffic).filter(|(t, _)| service.has_slices() && **t == asked)
    {
        *count += 1;
    }
}

/// How many slices would do for the endpoints on a set: one of each family, be it empty.
fn desired_slices(set: &SliceSet, max: usize) -> usize {
    let mut groups: Vec<(AddressType, &Ports, usize)> = Vec::new();
    for slice in set.slices() {
        match groups.iter_mut().find(|(family, ports, _)| *family == slice.family && **ports == slice.ports) {
            Some(group) => group.2 += slice.endpoints.len(),
            None => groups.push((slice.family, &slice.ports, slice.endpoints.len())),
        }
    }
    let mut by_family: BTreeMap<AddressType, usize> = BTreeMap::new();
    for (family, _, endpoints) in groups {
        *by_family.entry(family).or_default() += endpoints.div_ceil(max.max(1));
    }
    by_family.values().map(|slices| (*slices).max(1)).sum()
}

/// Sizes of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Services.
    pub services: usize,
    /// Services whose hints come from their field `trafficDistribution`, in the order of [`Traffic::ALL`].
    pub by_traffic: [usize; Traffic::ALL.len()],
    /// Slices made from pods.
    pub slices: Slices,
    /// Slices that mirror Endpoints.
    pub mirrors: Slices,
    /// Distinct strings.
    pub strings: usize,
}

/// Slices of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slices {
    /// How many there are.
    pub slices: usize,
    /// How many would do for their endpoints.
    pub desired: usize,
    /// Endpoints in them.
    pub endpoints: usize,
}

impl Slices {
    fn add(&mut self, set: &SliceSet, max: usize) {
        self.slices += set.slices().len();
        self.endpoints += set.slices().iter().map(|s| s.endpoints.len()).sum::<usize>();
        self.desired += desired_slices(set, max);
    }
}
