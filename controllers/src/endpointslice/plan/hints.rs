//! Topology hints by the annotation topology-mode Auto: each zone is served by a number of endpoints
//! in proportion to its CPU, or there are no hints at all (KEP-2433).
//!
//! Hints by the field trafficDistribution are a property of each endpoint alone; see `desired`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::packer::{Fate, Work};
use crate::cache::{Endpoint, Hints};
use crate::index::topology::Topology;
use crate::text::Text;

/// A zone may get so much more traffic than its share before hints are given up.
const OVERLOAD: f64 = 0.2;
/// What is left of a zone's share of the endpoints when it is overloaded to the limit.
const LEAST: f64 = 1.0 / (1.0 + OVERLOAD);

/// What became of the hints of a Service in one family.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HintOutcome {
    /// All ready endpoints have hints.
    Given,
    /// None has.
    Withheld(Withheld),
}

/// Why hints are withheld.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Withheld {
    /// The kind of reason.
    pub cause: WithheldCause,
    /// The numbers behind it, in words.
    pub detail: String,
}

/// The reasons for which hints are withheld; the list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WithheldCause {
    /// A ready node lacks its zone or its CPU.
    InsufficientNodeInfo,
    /// All ready nodes are in one zone, or there are none.
    SingleZone,
    /// Fewer ready endpoints than zones.
    InsufficientEndpoints,
    /// Some zone could not be given enough endpoints.
    OverloadThreshold,
    /// A ready endpoint is in no zone.
    EndpointWithoutZone,
}

impl WithheldCause {
    /// A stable name for Events and metrics.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InsufficientNodeInfo => "InsufficientNodeInfo",
            Self::SingleZone => "NodesInOneZoneOnly",
            Self::InsufficientEndpoints => "InsufficientEndpoints",
            Self::OverloadThreshold => "MinAllocationExceedsOverloadThreshold",
            Self::EndpointWithoutZone => "EndpointWithoutZone",
        }
    }
}

/// What a zone is to get.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    minimum: usize,
    maximum: usize,
    desired: f64,
}

type Allocations = BTreeMap<Text, Allocation>;

/// Gives hints to the endpoints of a family's slices, or takes them all away. Slices whose hints are
/// still good are left alone, and a slice is only written if its hints really change.
pub(crate) fn assign(works: &mut [Work], topology: &Topology) -> HintOutcome {
    let ready = live(works).flat_map(|w| w.endpoints.iter()).filter(|e| e.is_ready()).count();
    let outcome = match allocations(topology, ready) {
        Ok(allocations) => distribute(works, &allocations),
        Err(withheld) => Err(withheld),
    };
    let outcome = match outcome {
        Ok(()) => HintOutcome::Given,
        Err(mut withheld) => {
            if withheld.cause == WithheldCause::OverloadThreshold {
                withheld.detail += &zone_report(works, topology, ready);
            }
            withhold(works);
            HintOutcome::Withheld(withheld)
        }
    };
    for work in works.iter_mut() {
        if let (Fate::Keep, Some(old)) = (work.fate, &work.old)
            && work.endpoints != old.endpoints
        {
            work.fate = Fate::Write;
        }
    }
    outcome
}

fn live(works: &[Work]) -> impl Iterator<Item = &Work> {
    works.iter().filter(|w| w.fate != Fate::Drop)
}

/// The fewest of so many endpoints that have to serve a zone with this share of the CPU.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts of endpoints
pub(crate) fn minimum(share: f64, endpoints: usize) -> usize {
    (share * endpoints as f64 * LEAST).ceil() as usize
}

fn allocations(topology: &Topology, ready: usize) -> Result<Allocations, Withheld> {
    let shares = match topology {
        Topology::Shares(shares) => shares,
        Topology::Unknown { why } => {
            let cause = if why.starts_with("node ") {
                WithheldCause::InsufficientNodeInfo
            } else {
                WithheldCause::SingleZone
            };
            return Err(Withheld { cause, detail: why.clone() });
        }
    };
    let zones = shares.len();
    if zones > ready {
        let detail = format!("{ready} ready endpoints, {zones} zones; {zones} or more endpoints are needed");
        return Err(Withheld { cause: WithheldCause::InsufficientEndpoints, detail });
    }
    let total: usize = shares.values().map(|share| minimum(*share, ready)).sum();
    let Some(spare) = ready.checked_sub(total) else {
        let detail = format!("{ready} ready endpoints, {zones} zones, at least {total} endpoints are needed");
        return Err(Withheld { cause: WithheldCause::OverloadThreshold, detail });
    };
    #[allow(clippy::cast_precision_loss)]
    let allocation = |share: f64| {
        let minimum = minimum(share, ready);
        Allocation { minimum, maximum: minimum + spare, desired: (share * ready as f64).max(minimum as f64) }
    };
    Ok(shares.iter().map(|(zone, share)| (Arc::clone(zone), allocation(*share))).collect())
}

/// Says for each zone what it should get and what it has, and which number of endpoints would do.
#[allow(clippy::cast_precision_loss)]
fn zone_report(works: &[Work], topology: &Topology, ready: usize) -> String {
    let Topology::Shares(shares) = topology else { return String::new() };
    let mut text = String::new();
    for (zone, share) in shares {
        let has = live(works)
            .flat_map(|w| w.endpoints.iter())
            .filter(|e| e.is_ready() && e.zone.as_ref() == Some(zone))
            .count();
        let _ = write!(
            text,
            "; {zone}: wanted share {:.0}% (at least {} endpoints), reached {:.0}% ({has})",
            share * 100.0,
            minimum(*share, ready),
            has as f64 * 100.0 / ready as f64,
        );
    }
    let fits = |n: &usize| shares.values().map(|share| minimum(*share, *n)).sum::<usize>() <= *n;
    if let Some(enough) = (ready + 1..ready + 1000).find(fits) {
        let _ = write!(text, "; {enough} endpoints would do");
    }
    text
}

fn withhold(works: &mut [Work]) {
    for work in works.iter_mut().filter(|w| w.fate != Fate::Drop) {
        if work.endpoints.iter().any(|e| e.hints.is_some()) {
            for endpoint in Arc::make_mut(&mut work.endpoints) {
                endpoint.hints = None;
            }
        }
    }
}

fn distribute(works: &mut [Work], allocations: &Allocations) -> Result<(), Withheld> {
    let mut given: BTreeMap<Text, usize> = BTreeMap::new();
    let mut open = Vec::new();
    for (index, work) in works.iter().enumerate().filter(|(_, w)| w.fate != Fate::Drop) {
        match kept_hints(work, &given, allocations) {
            Some(kept) => kept.into_iter().for_each(|(zone, n)| *given.entry(zone).or_default() += n),
            None => open.push(index),
        }
    }
    for index in &open {
        for endpoint in Arc::make_mut(&mut works[*index].endpoints).iter_mut().filter(|e| e.is_ready()) {
            let Some(zone) = endpoint.zone.clone() else {
                let who = endpoint.pod().map_or("an endpoint", |pod| &**pod);
                let detail = format!("{who} is ready and in no zone");
                return Err(Withheld { cause: WithheldCause::EndpointWithoutZone, detail });
            };
            endpoint.hints = Some(for_zone(&zone));
            *given.entry(zone).or_default() += 1;
        }
    }
    let (mut giving, mut receiving) = balance(allocations, &given);
    for index in open {
        for endpoint in Arc::make_mut(&mut works[index].endpoints).iter_mut().filter(|e| e.is_ready()) {
            hand_over(endpoint, &mut giving, &mut receiving);
        }
    }
    Ok(())
}

fn for_zone(zone: &Text) -> Arc<Hints> {
    Arc::new(Hints { zones: [Arc::clone(zone)].into_iter().collect(), ..Hints::default() })
}

/// The hints of a slice that is not written otherwise, if they are still good: complete, for zones
/// alone and for such that count, and not more of a zone than may be.
fn kept_hints(
    work: &Work,
    given: &BTreeMap<Text, usize>,
    allocations: &Allocations,
) -> Option<BTreeMap<Text, usize>> {
    if work.fate != Fate::Keep {
        return None;
    }
    let mut kept: BTreeMap<Text, usize> = BTreeMap::new();
    for endpoint in work.endpoints.iter().filter(|e| e.is_ready()) {
        let hints = endpoint.hints.as_ref().filter(|h| h.nodes.is_empty());
        let zones = hints.map_or(&[][..], |h| &h.zones[..]);
        if zones.is_empty() {
            return None;
        }
        for zone in zones {
            allocations.get(zone)?;
            *kept.entry(Arc::clone(zone)).or_default() += 1;
        }
    }
    let fits = |(zone, n): (&Text, &usize)| {
        given.get(zone).unwrap_or(&0) + n <= allocations.get(zone).map_or(0, |a| a.maximum)
    };
    kept.iter().all(fits).then_some(kept)
}

type Moves = BTreeMap<Text, usize>;

/// How many endpoints each zone gives to others, and how many each gets.
#[allow(clippy::cast_precision_loss)]
fn balance(allocations: &Allocations, given: &BTreeMap<Text, usize>) -> (Moves, Moves) {
    let mut spare: Vec<(&Text, f64)> = Vec::new();
    let mut lacking: Vec<(&Text, f64)> = Vec::new();
    for (zone, allocation) in allocations {
        let difference = given.get(zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if difference > 0.0 {
            spare.push((zone, difference));
        } else if difference < 0.0 {
            lacking.push((zone, -difference));
        }
    }
    let (mut giving, mut receiving) = (Moves::new(), Moves::new());
    let most = |zones: &[(&Text, f64)]| (0..zones.len()).max_by(|a, b| zones[*a].1.total_cmp(&zones[*b].1));
    while let (Some(from), Some(to)) = (most(&spare), most(&lacking)) {
        let (give, take) = (spare[from].1, lacking[to].1);
        if give < 0.5 || take < 0.5 || (give < 1.0 && take < 1.0) {
            break;
        }
        spare[from].1 -= 1.0;
        lacking[to].1 -= 1.0;
        *giving.entry(Arc::clone(spare[from].0)).or_default() += 1;
        *receiving.entry(Arc::clone(lacking[to].0)).or_default() += 1;
    }
    (giving, receiving)
}

/// Gives an endpoint of a zone with too many to a zone with too few.
fn hand_over(endpoint: &mut Endpoint, giving: &mut Moves, receiving: &mut Moves) {
    let Some(left) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)).filter(|left| **left > 0)
    else {
        return;
    };
    if let Some((zone, wanted)) = receiving.iter_mut().find(|(_, wanted)| **wanted > 0) {
        endpoint.hints = Some(for_zone(zone));
        *left -= 1;
        *wanted -= 1;
    }
}
