//! Which endpoint goes into which slice, with as few writes as possible (KEP-752).
//!
//! An endpoint stays where it is. Slices that are written anyway are filled first, the fullest
//! before the others; what is left goes into the one other slice that it fills best, or into a new
//! one. Slices are never merged, and one without endpoints is deleted.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashSet;

use super::super::inputs::{Inputs, Scope};
use super::desired::Group;
use super::{group_of, labels_differ};
use crate::cache::{AddressType, Endpoint, Ports, Slice};
use crate::text::Text;

/// What is to happen to a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays as it is.
    Keep,
    /// It is written (made, if it is new).
    Write,
    /// It is deleted.
    Drop,
}

/// A slice on the work bench.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The slice as it is; none for a new one.
    pub old: Option<Arc<Slice>>,
    /// Its ports.
    pub ports: Ports,
    /// Its endpoints as they will be.
    pub endpoints: Arc<Vec<Endpoint>>,
    /// What is to happen to it.
    pub fate: Fate,
    /// The group it belongs to and whether the pods in scope may be in it.
    pub group: Option<(usize, Look)>,
    /// Whether its labels are set anew when it is written: one that is only filled up, or given other
    /// hints, keeps those it has.
    pub relabel: bool,
}

/// How closely a slice has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Every endpoint must be wanted.
    Whole,
    /// Endpoints of unchanged pods are known to be right.
    Changed,
    /// It holds no endpoint of a changed pod.
    Not,
}

/// How many endpoints moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// New in their slices.
    pub added: usize,
    /// Gone from their slices.
    pub removed: usize,
    /// Changed where they are, but for hints.
    pub changed: usize,
    /// Of these, ready now and not before.
    pub readied: usize,
    /// Of these, not ready any more.
    pub unready: usize,
}

/// Lays out the slices of a family, each with its group; what nobody wants is dropped at once.
#[must_use]
pub(crate) fn works(
    inputs: &Inputs<'_>,
    scope: &Scope<'_>,
    family: AddressType,
    groups: &mut Vec<Group>,
) -> Vec<Work> {
    let mut works = Vec::with_capacity(inputs.slices.len() + 1);
    for (index, slice) in inputs.slices.iter().enumerate().filter(|(_, s)| s.family == family) {
        let look = match scope {
            Scope::All(_) => Look::Whole,
            Scope::Pods { touched, .. } if touched.contains(&index) => Look::Changed,
            Scope::Pods { .. } => Look::Not,
        };
        let known = groups.iter().position(|g| g.ports == slice.ports);
        let owned = slice.is_owned_by("Service", &inputs.service.uid);
        let (fate, group) = match (look, known) {
            _ if !owned => (Fate::Drop, None),
            (Look::Whole, None) => (Fate::Drop, None),
            (Look::Whole, Some(group)) => {
                let fate = if labels_differ(slice, inputs.service) { Fate::Write } else { Fate::Keep };
                (fate, Some((group, look)))
            }
            (Look::Changed, None) => (Fate::Keep, Some((group_of(groups, &slice.ports), look))),
            (Look::Changed | Look::Not, group) => (Fate::Keep, group.map(|group| (group, look))),
        };
        works.push(Work {
            ports: slice.ports.clone(),
            endpoints: Arc::clone(&slice.endpoints),
            old: Some(Arc::clone(slice)),
            fate,
            group,
            relabel: fate == Fate::Write,
        });
    }
    works
}

/// What settling made of a slice's endpoints.
struct Settled {
    endpoints: Option<Vec<Endpoint>>,
    content_changed: bool,
    /// How many endpoints are still there and not what they were.
    changed: usize,
    /// Of these, how many are ready now and were not.
    readied: usize,
    /// Of these, how many are not ready any more.
    unready: usize,
}

/// Replaces each endpoint by its wanted state and drops those without one; where only hints differ,
/// nothing else is touched. Endpoints that the scope does not concern are right as they are.
fn settle(found: &[Endpoint], group: &mut Group, rules: &Rules<'_>) -> Settled {
    let (mut content_changed, mut hints_changed) = (false, false);
    let (mut changed, mut readied, mut unready) = (0, 0, 0);
    let mut wanted = Vec::new();
    for (index, endpoint) in found.iter().enumerate().filter(|(_, e)| rules.concerns(e)) {
        let fresh = group.take(endpoint);
        if let Some(same) = fresh.as_ref().filter(|fresh| fresh.equals_beside_hints(endpoint)) {
            hints_changed |= !rules.agree_on_hints(same, endpoint);
        } else {
            content_changed = true;
            if let Some(fresh) = &fresh {
                changed += 1;
                readied += usize::from(fresh.is_ready() && !endpoint.is_ready());
                unready += usize::from(!fresh.is_ready() && endpoint.is_ready());
            }
        }
        wanted.push((index, fresh));
    }
    if !content_changed && !hints_changed {
        return Settled { endpoints: None, content_changed, changed, readied, unready };
    }
    let mut wanted = wanted.into_iter().peekable();
    let mut out = Vec::with_capacity(found.len());
    for (index, endpoint) in found.iter().enumerate() {
        match wanted.next_if(|(at, _)| *at == index) {
            None => out.push(endpoint.clone()),
            Some((_, Some(fresh))) if !content_changed => out.push(rules.rehinted(endpoint, fresh)),
            Some((_, fresh)) => out.extend(fresh),
        }
    }
    Settled { endpoints: Some(out), content_changed, changed, readied, unready }
}

/// Notes the settled endpoints; gives whether the slice may be filled first.
fn apply(work: &mut Work, settled: Settled, counts: &mut Counts) -> bool {
    let Some(endpoints) = settled.endpoints else { return false };
    counts.removed += work.endpoints.len().saturating_sub(endpoints.len());
    counts.changed += settled.changed;
    counts.readied += settled.readied;
    counts.unready += settled.unready;
    work.fate = if endpoints.is_empty() && settled.content_changed { Fate::Drop } else { Fate::Write };
    work.endpoints = Arc::new(endpoints);
    work.relabel |= settled.content_changed;
    settled.content_changed
}

/// What packing has to know beside the slices and the endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Rules<'a> {
    /// At most so many endpoints are put into one slice.
    pub max: usize,
    /// Whether hints are given later, and those in the slices do not count here.
    pub hints_later: bool,
    /// Whether endpoints that are not ready may keep what hints they have.
    pub ready_hints_only: bool,
    /// The pods in scope; none means all.
    pub changed: Option<HashSet<&'a Text>>,
}

impl<'a> Rules<'a> {
    /// The rules for planning these inputs.
    #[must_use]
    pub(crate) fn new(inputs: &Inputs<'_>, scope: &'a Scope<'_>) -> Self {
        let changed = match scope {
            Scope::All(_) => None,
            Scope::Pods { changed, .. } => Some(changed.iter().map(|(name, _)| name).collect()),
        };
        Self {
            max: inputs.max_per_slice,
            hints_later: inputs.service.topology_auto,
            ready_hints_only: inputs.service.traffic.is_some(),
            changed,
        }
    }

    fn agree_on_hints(&self, wanted: &Endpoint, found: &Endpoint) -> bool {
        self.hints_later
            || (self.ready_hints_only && !wanted.is_ready())
            || wanted.hints == found.hints
            || (self.ready_hints_only && wanted.hints.is_none() && has_blank_hints(found))
    }

    /// An endpoint with the hints it should have.
    fn rehinted(&self, found: &Endpoint, wanted: Endpoint) -> Endpoint {
        if self.agree_on_hints(&wanted, found) {
            found.clone()
        } else {
            Endpoint { hints: wanted.hints, ..found.clone() }
        }
    }

    fn concerns(&self, endpoint: &Endpoint) -> bool {
        self.changed.as_ref().is_none_or(|changed| endpoint.pod().is_some_and(|pod| changed.contains(pod)))
    }
}

/// Whether an endpoint has hints for nobody.
fn has_blank_hints(endpoint: &Endpoint) -> bool {
    endpoint.hints.as_ref().is_some_and(|hints| hints.zones.is_empty() && hints.nodes.is_empty())
}

/// Packs the endpoints of one group.
pub(crate) fn pack(works: &mut Vec<Work>, index: usize, group: &mut Group, rules: &Rules<'_>) -> Counts {
    let mut counts = Counts::default();
    let mut first = Vec::new();
    let mut others = Vec::new();
    for (position, work) in works.iter_mut().enumerate() {
        let Some((own, look)) = work.group else { continue };
        if own != index || work.fate == Fate::Drop {
            continue;
        }
        let labels_differ = work.fate == Fate::Write;
        let content_changed = look != Look::Not && {
            let settled = settle(&work.endpoints, group, rules);
            apply(work, settled, &mut counts)
        };
        if work.fate == Fate::Drop {
            continue;
        }
        if content_changed || labels_differ { first.push(position) } else { others.push(position) }
    }
    let mut rest = group.rest();
    counts.added = rest.len();
    fill_written(works, first, &mut rest, rules.max);
    fill_others(works, others, &mut rest, index, &group.ports, rules.max);
    counts
}

/// Fills the slices that are written anyway, the fullest first.
fn fill_written(works: &mut [Work], mut first: Vec<usize>, rest: &mut VecDeque<Endpoint>, max: usize) {
    first.sort_by_key(|position| std::cmp::Reverse(works[*position].endpoints.len()));
    for position in first {
        if rest.is_empty() {
            return;
        }
        fill(&mut works[position], rest, max);
    }
}

/// Full new slices first; a rest that fits goes into the slice it fills best, or a new one.
fn fill_others(
    works: &mut Vec<Work>,
    mut others: Vec<usize>,
    rest: &mut VecDeque<Endpoint>,
    group: usize,
    ports: &Ports,
    max: usize,
) {
    while !rest.is_empty() {
        let left = |position: &usize| max.checked_sub(rest.len() + works[*position].endpoints.len());
        let fits = others.iter().enumerate().filter_map(|(i, position)| left(position).map(|left| (left, i)));
        let best = if rest.len() < max { fits.min() } else { None };
        let position = if let Some((_, index)) = best {
            others.remove(index)
        } else {
            works.push(Work {
                old: None,
                ports: ports.clone(),
                endpoints: Arc::default(),
                fate: Fate::Write,
                group: Some((group, Look::Not)),
                relabel: true,
            });
            works.len() - 1
        };
        fill(&mut works[position], rest, max);
    }
}

fn fill(work: &mut Work, rest: &mut VecDeque<Endpoint>, max: usize) {
    let free = max.saturating_sub(work.endpoints.len()).min(rest.len());
    if free > 0 {
        Arc::make_mut(&mut work.endpoints).extend(rest.drain(..free));
        work.fate = Fate::Write;
    }
}
