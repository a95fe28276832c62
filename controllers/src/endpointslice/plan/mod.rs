//! From a Service's pods and slices to the writes that put the slices right: pure functions.
//!
//! For each family the wanted endpoints are grouped by the ports they are reached at (`desired`,
//! `ports`), packed into slices with as few writes as possible (`packer`) and given their hints
//! (`hints`). What is left is paired up: a slice to make takes the place of one to delete.

pub(crate) mod desired;
pub(crate) mod hints;
pub(crate) mod packer;
pub(crate) mod repack;

use std::sync::Arc;

use smallvec::SmallVec;

use self::desired::Group;
use self::hints::HintOutcome;
use self::packer::{Fate, Rules, Work};
use super::inputs::{Inputs, Scope};
use crate::cache::{AddressType, Owner, Ports, Service, Slice, rfc3339};
use crate::keys;
use crate::requests::slices::SliceWrite;
use crate::text::{Labels, Text, Uid};

/// What to write for a Service, and what is worth telling.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlicePlan {
    /// The writes; they do not depend on each other.
    pub writes: Vec<SliceWrite>,
    /// Endpoints that are new in their slices.
    pub added: usize,
    /// Endpoints that leave their slices.
    pub removed: usize,
    /// Endpoints that change where they are, but for hints.
    pub changed: usize,
    /// Of these, ready now and not before.
    pub readied: usize,
    /// Of these, not ready any more.
    pub unready: usize,
    /// What became of the topology hints, by family.
    pub hints: SmallVec<[(AddressType, HintOutcome); 2]>,
    /// Pods left out because their node is not known.
    pub without_node: Vec<Text>,
}

/// Plans the slices of a Service; `None` if the scope turns out too narrow and the plan must be made
/// again from all pods.
#[must_use]
pub(crate) fn plan(inputs: &Inputs<'_>, scope: &Scope<'_>) -> Option<SlicePlan> {
    let mut out = SlicePlan::default();
    for family in &inputs.service.families {
        plan_family(inputs, scope, *family, &mut out)?;
    }
    let foreign = inputs.slices.iter().filter(|s| !inputs.service.families.contains(&s.family));
    out.writes.extend(foreign.map(|slice| SliceWrite::Delete(Arc::clone(slice))));
    Some(out)
}

/// Plans a Service that has no slices from pods, since it lost its selector or became an external name: it keeps none of
/// those made from pods. Slices that somebody made by hand are not owned by the Service and stay.
#[must_use]
pub(crate) fn without_pods(service: &Service, slices: &[Arc<Slice>]) -> SlicePlan {
    let owned = slices.iter().filter(|s| s.is_owned_by("Service", &service.uid) && !s.deleting);
    let removed = owned.clone().map(|s| s.endpoints.len()).sum();
    let writes = owned.map(|s| SliceWrite::Delete(Arc::clone(s))).collect();
    SlicePlan { writes, removed, ..SlicePlan::default() }
}

fn plan_family(
    inputs: &Inputs<'_>,
    scope: &Scope<'_>,
    family: AddressType,
    out: &mut SlicePlan,
) -> Option<()> {
    let service = inputs.service;
    let wanted = desired::groups(inputs, scope, family);
    out.without_node.extend(wanted.without_node);
    let mut groups = wanted.groups;
    let mut works = packer::works(inputs, scope, family, &mut groups);
    let rules = Rules::new(inputs, scope);
    for (index, group) in groups.iter_mut().enumerate() {
        let counts = packer::pack(&mut works, index, group, &rules);
        out.added += counts.added;
        out.removed += counts.removed;
        out.changed += counts.changed;
        out.readied += counts.readied;
        out.unready += counts.unready;
    }
    if matches!(scope, Scope::Pods { .. }) {
        // A slice that comes or goes concerns the placeholder and what can be recycled.
        if works.iter().any(|w| w.fate == Fate::Drop || w.old.is_none()) {
            return None;
        }
    } else {
        keep_placeholder(service, family, &mut works);
    }
    if service.topology_auto {
        out.hints.push((family, hints::assign(&mut works, inputs.topology)));
    }
    writes(inputs, family, works, &mut out.writes);
    Some(())
}

/// A Service without endpoints keeps one slice without endpoints and ports, so that readers can tell
/// "no endpoints" from "not looked at yet". One that a former Service of the name left behind will
/// do, and labels without a value do not matter.
fn keep_placeholder(service: &Service, family: AddressType, works: &mut Vec<Work>) {
    if works.iter().any(|w| w.fate != Fate::Drop) {
        return;
    }
    if let [work] = &mut works[..]
        && let Some(old) = &work.old
        && old.endpoints.is_empty()
        && old.ports.is_empty()
        && old.labels.valued().eq(slice_labels(service).valued())
    {
        work.fate = Fate::Keep;
        return;
    }
    works.push(Work {
        old: None,
        ports: Ports::default(),
        endpoints: Arc::default(),
        fate: Fate::Write,
        group: None,
        relabel: true,
    });
    debug_assert!(works.iter().all(|w| w.old.as_ref().is_none_or(|o| o.family == family)));
}

/// Turns the packed slices into writes, a slice to make taking the place of one to delete.
fn writes(inputs: &Inputs<'_>, family: AddressType, works: Vec<Work>, out: &mut Vec<SliceWrite>) {
    let service = inputs.service;
    let mut labels = None;
    let mut creates = Vec::new();
    let mut deletes = Vec::new();
    for work in works {
        match (work.fate, work.old) {
            (Fate::Keep, _) | (Fate::Drop, None) => {}
            (Fate::Drop, Some(old)) => deletes.push(old),
            (Fate::Write, None) => creates.push((work.ports, work.endpoints)),
            (Fate::Write, Some(old)) => {
                let fresh = labels.get_or_insert_with(|| slice_labels(service));
                let new = Slice {
                    labels: if work.relabel { fresh.clone() } else { old.labels.clone() },
                    annotations: triggered(&old.annotations, inputs.trigger),
                    endpoints: work.endpoints,
                    ..Slice::clone(&old)
                };
                out.push(SliceWrite::Update { old, new });
            }
        }
    }
    let mut recyclable = deletes.iter().filter(|old| old.is_owned_by("Service", &service.uid));
    let mut recycled = Vec::new();
    while let Some((ports, endpoints)) = creates.pop() {
        let fresh = Slice {
            name: Text::default(),
            uid: Uid::Absent,
            version: 0,
            generation: 0,
            generate_name: Some(format!("{}-", service.name).into()),
            labels: labels.get_or_insert_with(|| slice_labels(service)).clone(),
            annotations: triggered(&Labels::default(), inputs.trigger),
            owners: Arc::new([Owner::controller("Service", &service.name, &service.uid)]),
            finalizers: Arc::default(),
            deleting: false,
            family,
            ports,
            endpoints,
        };
        if let Some(old) = recyclable.next() {
            recycled.push(Arc::clone(&old.name));
            out.push(SliceWrite::Update {
                new: take_place(fresh, old, inputs.trigger),
                old: Arc::clone(old),
            });
        } else if !service.deleting {
            out.push(SliceWrite::Create(fresh));
        }
    }
    let spared = |old: &Arc<Slice>| recycled.iter().any(|name| *name == old.name);
    out.extend(deletes.iter().filter(|old| !spared(old)).map(|old| SliceWrite::Delete(Arc::clone(old))));
}

/// `fresh` in the place of `old`: what others put on that object stays.
fn take_place(fresh: Slice, old: &Slice, trigger: Option<i64>) -> Slice {
    Slice {
        name: Arc::clone(&old.name),
        uid: old.uid.clone(),
        version: old.version,
        generation: old.generation,
        annotations: triggered(&old.annotations, trigger),
        finalizers: Arc::clone(&old.finalizers),
        ..fresh
    }
}

/// The labels that slices of a Service carry: the Service's own, without those reserved for slices.
#[must_use]
pub(crate) fn slice_labels(service: &Service) -> Labels {
    let labels = service.labels.without(keys::is_reserved);
    let labels = labels.with(keys::SERVICE_NAME, &service.name).with(keys::MANAGED_BY, keys::SLICE_MANAGER);
    if service.headless { labels.with(keys::HEADLESS, "") } else { labels }
}

/// The annotations of a slice that is about to be written: hand-made ones stay, the time of the
/// trigger is set, or taken off when this write has none.
fn triggered(annotations: &Labels, trigger: Option<i64>) -> Labels {
    match trigger {
        Some(time) => annotations.with(keys::TRIGGER_TIME, &rfc3339(time)),
        None => annotations.without(|key| key == keys::TRIGGER_TIME),
    }
}

/// Whether the hand-made labels of a slice differ from the Service's.
pub(crate) fn labels_differ(slice: &Slice, service: &Service) -> bool {
    !slice.labels.equal_without(&service.labels, keys::is_reserved)
}

/// Makes sure that a list of groups has one for these ports; gives its position.
pub(crate) fn group_of(groups: &mut Vec<Group>, ports: &Ports) -> usize {
    if let Some(index) = groups.iter().position(|g| g.ports == *ports) {
        return index;
    }
    groups.push(Group::new(ports.clone()));
    groups.len() - 1
}
