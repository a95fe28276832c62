//! Packs the endpoints of a Service into fewer slices: one slice at a time is emptied into others and deleted.
//!
//! Pure. What is added comes before what is removed, so that no endpoint is ever missing for a reader that merges slices.
//! Slices are only packed while nothing else happens: each write goes to every node, and a shrinking Service may grow again.

use std::cmp::Reverse;
use std::sync::Arc;

use super::triggered;
use crate::cache::{Service, Slice};
use crate::requests::slices::SliceWrite;

/// The writes that empty one slice into others and take it away.
#[derive(Clone, Debug)]
pub(crate) struct Repack {
    /// First: the slices that take its endpoints.
    pub fill: Vec<SliceWrite>,
    /// When these are carried out: the end of the slice.
    pub drop: SliceWrite,
}

/// How to do with one slice less, if that is possible: the smallest whose endpoints fit into the others of its kind.
#[must_use]
pub(crate) fn repack(service: &Service, slices: &[Arc<Slice>], max: usize) -> Option<Repack> {
    if service.deleting || slices.iter().any(|slice| slice.deleting) {
        return None;
    }
    let own = |slice: &&Arc<Slice>| slice.is_owned_by("Service", &service.uid) && !slice.endpoints.is_empty();
    let mut candidates: Vec<&Arc<Slice>> = slices.iter().filter(own).collect();
    candidates.sort_by(|a, b| (a.endpoints.len(), &a.name).cmp(&(b.endpoints.len(), &b.name)));
    candidates.iter().find_map(|source| {
        let alike = |other: &&&Arc<Slice>| {
            other.family == source.family && other.ports == source.ports && other.name != source.name
        };
        let mut targets: Vec<&Arc<Slice>> = candidates.iter().filter(alike).copied().collect();
        let room: usize = targets.iter().map(|t| max.saturating_sub(t.endpoints.len())).sum();
        if room < source.endpoints.len() {
            return None;
        }
        // The fullest first: the fewest writes now, and the most to spare later.
        targets.sort_by_key(|target| Reverse(target.endpoints.len()));
        Some(empty_into(source, &targets, max))
    })
}

fn empty_into(source: &Arc<Slice>, targets: &[&Arc<Slice>], max: usize) -> Repack {
    let whole = |target: &&&Arc<Slice>| target.endpoints.len() + source.endpoints.len() <= max;
    let (mut left, mut fill) = (&source.endpoints[..], Vec::new());
    let one = targets.iter().find(whole);
    for target in one.map_or(targets, std::slice::from_ref) {
        let room = max.saturating_sub(target.endpoints.len()).min(left.len());
        if room == 0 {
            continue;
        }
        let (now, later) = left.split_at(room);
        left = later;
        let endpoints = target.endpoints.iter().chain(now).cloned().collect();
        let new = Slice {
            annotations: triggered(&target.annotations, None),
            endpoints: Arc::new(endpoints),
            ..Slice::clone(target)
        };
        fill.push(SliceWrite::Update { old: Arc::clone(target), new });
    }
    Repack { fill, drop: SliceWrite::Delete(Arc::clone(source)) }
}
