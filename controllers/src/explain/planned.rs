//! The slices of a Service as they are and as the controllers would have them.
//!
//! Pure. Owns the look-up by pod in both, and what a write changes in words; the writes are the plan's.

use std::fmt::Write as _;
use std::sync::Arc;

use foldhash::HashMap;

use super::report::{FamilyVerdict, SliceState};
use crate::cache::{AddressType, Endpoint, Pod, Service, Slice, SliceKeeper};
use crate::endpointslice::inputs::{Inputs, Scope};
use crate::endpointslice::plan::{self, SlicePlan};
use crate::index::Index;
use crate::requests::slices::SliceWrite;

/// A slice before and after the writes of a plan; one of both is there.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub old: Option<Arc<Slice>>,
    pub new: Option<Arc<Slice>>,
}

impl Pair {
    pub(crate) fn state(&self) -> SliceState {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => SliceState::Right,
            (Some(_), Some(_)) => SliceState::ToUpdate,
            (None, _) => SliceState::ToCreate,
            (Some(_), None) => SliceState::ToDelete,
        }
    }

    /// What the write changes, in words; none if there is no write.
    pub(crate) fn change(&self) -> Option<String> {
        let (old, new) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if !Arc::ptr_eq(old, new) => (old, new),
            (None, Some(new)) => return Some(format!("make it with {}", endpoints(new.endpoints.len()))),
            (Some(old), None) => return Some(format!("delete it with {}", endpoints(old.endpoints.len()))),
            _ => return None,
        };
        let known: HashMap<_, &Endpoint> = old.endpoints.iter().map(|e| (&e.addresses, e)).collect();
        let (mut added, mut changed, mut hints, mut kept) = (0, 0, 0, 0);
        for endpoint in new.endpoints.iter() {
            match known.get(&endpoint.addresses) {
                None => added += 1,
                Some(before) if !before.equals_beside_hints(endpoint) => {
                    (changed, kept) = (changed + 1, kept + 1);
                }
                Some(before) => {
                    (hints, kept) = (hints + usize::from(before.hints != endpoint.hints), kept + 1);
                }
            }
        }
        let removed = old.endpoints.len().saturating_sub(kept);
        let counts =
            [(added, "added"), (removed, "removed"), (changed, "changed"), (hints, "given other hints")];
        let mut text = String::new();
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, "{}{} {what}", if text.is_empty() { "" } else { ", " }, endpoints(count));
        }
        if old.labels != new.labels {
            let _ = write!(text, "{}its labels", if text.is_empty() { "" } else { ", " });
        }
        if old.ports != new.ports {
            let _ = write!(text, "{}its ports", if text.is_empty() { "" } else { ", " });
        }
        Some(text)
    }
}

fn endpoints(count: usize) -> String {
    if count == 1 { "1 endpoint".to_owned() } else { format!("{count} endpoints") }
}

/// All slices of a Service that a controller keeps, before and after.
#[derive(Debug)]
pub(crate) struct Planned {
    pub pairs: Vec<Pair>,
    pub plan: SlicePlan,
}

impl Planned {
    /// Plans the slices that the pods of a Service should be in.
    ///
    /// Where pods are not known, slices are taken to be right as they are.
    pub(crate) fn of_pods(index: &Index, service: &Service, max_per_slice: usize, pods_known: bool) -> Self {
        let space = index.namespace(&service.namespace);
        let slices = space.map_or(&[][..], |space| space.slices_of(SliceKeeper::Slices, &service.name));
        let plan = if !pods_known {
            SlicePlan::default()
        } else if service.has_slices() {
            let live: Vec<Arc<Slice>> = slices.iter().filter(|s| !s.deleting).cloned().collect();
            let inputs = Inputs {
                service,
                slices: &live,
                nodes: &index.nodes,
                topology: &index.topology,
                max_per_slice,
                trigger: None,
            };
            let pods = space.into_iter().flat_map(|space| space.pods.pods_of(&service.name));
            let pods: Vec<&Pod> = pods.map(|pod| &**pod).collect();
            plan::plan(&inputs, &Scope::All(pods)).unwrap_or_default()
        } else {
            plan::without_pods(service, slices)
        };
        Self { pairs: pairs(slices, &plan.writes), plan }
    }

    /// Where each pod's endpoint is, and where it would be after the writes.
    pub(crate) fn places(&self) -> Places<'_> {
        let mut places = Places::default();
        for pair in &self.pairs {
            if let Some(old) = &pair.old {
                places.now.extend(entries(old));
            }
            if let Some(new) = &pair.new {
                places.then.extend(entries(new));
            }
        }
        places
    }

    /// The slices as they would be.
    pub(crate) fn then(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.pairs.iter().filter_map(|pair| pair.new.as_ref())
    }
}

/// The slices before and after these writes, by name; those to make at the end.
pub(crate) fn pairs(slices: &[Arc<Slice>], writes: &[SliceWrite]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = slices
        .iter()
        .map(|slice| {
            let write = writes.iter().find_map(|write| match write {
                SliceWrite::Update { old, new } if old.name == slice.name => {
                    Some(Some(Arc::new(new.clone())))
                }
                SliceWrite::Delete(old) if old.name == slice.name => Some(None),
                _ => None,
            });
            let new = write.unwrap_or_else(|| Some(Arc::clone(slice)));
            Pair { old: Some(Arc::clone(slice)), new }
        })
        .collect();
    pairs.sort_by(|a, b| a.old.as_ref().map(|s| &s.name).cmp(&b.old.as_ref().map(|s| &s.name)));
    pairs.extend(writes.iter().filter_map(|write| match write {
        SliceWrite::Create(new) => Some(Pair { old: None, new: Some(Arc::new(new.clone())) }),
        _ => None,
    }));
    pairs
}

fn entries(slice: &Slice) -> impl Iterator<Item = ((AddressType, &str), (&Slice, &Endpoint))> {
    let pods = slice.endpoints.iter().filter_map(|endpoint| Some((&**endpoint.pod()?, endpoint)));
    pods.map(move |(pod, endpoint)| ((slice.family, pod), (slice, endpoint)))
}

type ByPod<'a> = HashMap<(AddressType, &'a str), (&'a Slice, &'a Endpoint)>;

/// The endpoint of each pod in each family, and its slice.
#[derive(Debug, Default)]
pub(crate) struct Places<'a> {
    pub now: ByPod<'a>,
    pub then: ByPod<'a>,
}

impl Places<'_> {
    /// Fills in what slices say of a pod, and what would be changed there.
    pub(crate) fn fill(&self, verdict: &mut FamilyVerdict, family: AddressType, pod: &str, known: bool) {
        let (now, then) = (self.now.get(&(family, pod)), self.then.get(&(family, pod)));
        if let Some((slice, endpoint)) = now {
            verdict.slice = Some(slice.name.to_string());
            verdict.conditions = Some(super::report::EndpointConditions {
                ready: endpoint.ready,
                serving: endpoint.serving,
                terminating: endpoint.terminating,
            });
            verdict.hints = endpoint.hints.as_ref().map(|hints| super::report::EndpointHints {
                zones: hints.zones.iter().map(ToString::to_string).collect(),
                nodes: hints.nodes.iter().map(ToString::to_string).collect(),
            });
        }
        let pending = match (now.map(|n| n.1), then.map(|n| n.1)) {
            (None, Some(_)) => Some("it is still to be written".to_owned()),
            (Some(_), None) => Some("it is still to be taken out".to_owned()),
            (Some(now), Some(then)) => difference(now, then),
            (None, None) => None,
        };
        verdict.pending = pending.filter(|_| known);
    }
}

/// How an endpoint should be that is written otherwise.
pub(crate) fn difference(now: &Endpoint, then: &Endpoint) -> Option<String> {
    let mut parts = Vec::new();
    let conditions = [
        ("ready", now.ready, then.ready),
        ("serving", now.serving, then.serving),
        ("terminating", now.terminating, then.terminating),
    ];
    let word = |value: Option<bool>| value.map_or("not set".to_owned(), |value| value.to_string());
    for (name, now, then) in conditions.into_iter().filter(|(_, now, then)| now != then) {
        parts.push(format!("{name} is {} and should be {}", word(now), word(then)));
    }
    if now.hints != then.hints {
        parts.push("its hints should be others".to_owned());
    }
    if now.addresses != then.addresses {
        parts.push("its address should be another".to_owned());
    }
    if (&now.node, &now.zone) != (&then.node, &then.zone) {
        parts.push("its node or zone should be another".to_owned());
    }
    if parts.is_empty() && !now.equals_beside_hints(then) {
        parts.push("it should be written anew".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
