//! The `Endpoints` object of a Service beside its slices: the one made from pods, and the one that is mirrored.
//!
//! Pure. What should be in it is the plans'; this compares and says it in words.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use foldhash::HashSet;

use super::planned::{Planned, pairs};
use super::report::{EndpointsFacts, Many, SliceState};
use super::snapshot::Snapshot;
use crate::cache::{Pod, Service, SliceKeeper};
use crate::endpoints::plan::{self as endpoints_plan, CAPACITY, Desired};
use crate::index::endpoints::EndpointsObject;
use crate::mirroring::plan as mirroring_plan;
use crate::subsets::Subset;
use crate::text::Text;
use crate::verdict;

/// So many addresses are shown that one has and the other lacks.
const SHOWN: usize = 5;
/// At most so many addresses of a subset are mirrored, unless the controller is told otherwise.
const MIRRORED: usize = 1000;

/// What `Endpoints` should have of a Service's pods; none of a Service that they are not made for.
pub(super) fn desired(snapshot: &Snapshot, service: &Service) -> Option<Desired> {
    let index = &snapshot.index;
    let space = index.namespace(&service.namespace).filter(|_| service.has_slices())?;
    let pods = space.pods.pods_of(&service.name).map(|pod| &**pod);
    Some(endpoints_plan::desired(service, pods, |node| index.nodes.contains_key(node)))
}

/// The pods that are in what `Endpoints` should have.
pub(super) fn listed(desired: &Desired) -> HashSet<Text> {
    let all = desired.subsets.iter().flat_map(|subset| subset.ready.iter().chain(&subset.not_ready));
    all.filter_map(|address| match &address.target {
        Some(crate::cache::Target::Pod { name, .. }) => Some(name.clone()),
        _ => None,
    })
    .collect()
}

/// The object beside the slices.
pub(super) fn facts(
    snapshot: &Snapshot,
    service: &Service,
    desired: Option<&Desired>,
    planned: &Planned,
) -> EndpointsFacts {
    let known = snapshot.index.endpoints(&service.namespace, &service.name);
    let subsets = snapshot.subsets.get(&(service.namespace.to_string(), service.name.to_string()));
    let count = |of: fn(&Subset) -> usize| subsets.into_iter().flatten().map(of).sum();
    let mut facts = EndpointsFacts {
        exists: known.is_some(),
        ready: count(|subset| subset.ready.len()),
        not_ready: count(|subset| subset.not_ready.len()),
        ..EndpointsFacts::default()
    };
    match desired {
        Some(desired) => of_pods(&mut facts, service, desired, known),
        None => of_hand(&mut facts, snapshot, service, known),
    }
    if let (Some(subsets), true) = (subsets, service.has_slices()) {
        compare(&mut facts, service, subsets, planned);
    }
    facts
}

fn of_pods(
    facts: &mut EndpointsFacts,
    service: &Service,
    desired: &Desired,
    known: Option<&EndpointsObject>,
) {
    let total: usize = desired.subsets.iter().map(Subset::len).sum();
    facts.over_capacity = desired.truncated;
    let right = endpoints_plan::after(known, desired, None).is_none();
    (facts.state, facts.message) = match known {
        None => ("ToCreate", format!("the controllers would make it with {total} addresses")),
        Some(_) if right => ("Right", format!("it is right, with {total} addresses")),
        Some(_) => ("ToUpdate", format!("the controllers would write it anew, with {total} addresses")),
    };
    if desired.truncated {
        let _ = write!(
            facts.message,
            "; it may have {CAPACITY} at most: the rest is in slices alone, and the annotation {} says so",
            crate::keys::OVER_CAPACITY
        );
    }
    if service.families.len() > 1 {
        let family = verdict::endpoints_family(service).name();
        let _ = write!(facts.message, "; it has addresses of {family} alone");
    }
}

fn of_hand(
    facts: &mut EndpointsFacts,
    snapshot: &Snapshot,
    service: &Service,
    known: Option<&EndpointsObject>,
) {
    let Some(object) = known else {
        (facts.state, facts.message) = ("None", "there is none".to_owned());
        return;
    };
    if service.selector.is_some() {
        let left = object.is_made_here();
        (facts.state, facts.message) = if left {
            ("ToDelete", "it was made from pods, and the Service has none any more".to_owned())
        } else {
            ("None", "the Service is an external name: the object is not used".to_owned())
        };
        return;
    }
    if !mirroring_plan::is_mirrored(object) {
        let why = if object.is_lock() {
            "it is the lock of a leader election"
        } else {
            "its label skip-mirror says so"
        };
        (facts.state, facts.message) = ("NotMirrored", format!("it is not mirrored: {why}"));
        return;
    }
    let subsets = object.subsets.as_deref().map(Vec::as_slice).unwrap_or_default();
    let space = snapshot.index.namespace(&service.namespace);
    let mirrors = space.map_or(&[][..], |space| space.slices_of(SliceKeeper::Mirrors, &service.name));
    let plan = mirroring_plan::plan(&service.name, object, subsets, mirrors, MIRRORED);
    let wrong = pairs(mirrors, &plan.writes).iter().filter(|pair| pair.state() != SliceState::Right).count();
    facts.over_capacity = plan.skipped > 0;
    facts.state = "Mirrored";
    facts.message = format!("it is yours, and mirrored in {} slices", mirrors.len());
    if wrong > 0 {
        let _ = write!(facts.message, ", of which the controllers would change {wrong}");
    }
    if plan.skipped > 0 {
        let _ = write!(
            facts.message,
            "; {} addresses are too many for a mirror ({MIRRORED} of a subset)",
            plan.skipped
        );
    }
    if plan.invalid > 0 {
        let _ = write!(facts.message, "; {} addresses are none", plan.invalid);
    }
}

/// Which addresses one has and the other lacks.
fn compare(facts: &mut EndpointsFacts, service: &Service, subsets: &[Subset], planned: &Planned) {
    let family = verdict::endpoints_family(service);
    let addresses = subsets.iter().flat_map(|subset| subset.ready.iter().chain(&subset.not_ready));
    let there: BTreeSet<String> = addresses.map(|address| address.ip.to_string()).collect();
    let slices = planned.pairs.iter().filter_map(|pair| pair.old.as_ref());
    let endpoints = slices.filter(|slice| slice.family == family).flat_map(|slice| slice.endpoints.iter());
    let here: BTreeSet<String> =
        endpoints.flat_map(|endpoint| &endpoint.addresses).map(ToString::to_string).collect();
    facts.only_in_slices = first(here.difference(&there));
    facts.only_in_endpoints = first(there.difference(&here));
}

fn first<'a>(all: impl Iterator<Item = &'a String>) -> Many<String> {
    let mut many = Many::default();
    for text in all {
        many.count += 1;
        if many.first.len() < SHOWN {
            many.first.push(text.clone());
        }
    }
    many
}

/// The pods of a Service, by name.
pub(super) fn pods_by_name<'a>(snapshot: &'a Snapshot, service: &Service) -> Vec<&'a Pod> {
    let space = snapshot.index.namespace(&service.namespace);
    let pods = space.into_iter().flat_map(|space| space.pods.pods_of(&service.name));
    let mut pods: Vec<&Pod> = pods.map(|pod| &**pod).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    pods
}
