//! Whether the endpoints of a Service have hints, and the numbers that decided.
//!
//! Pure. What is decided is the plan's; this counts and says it in words.

use std::collections::BTreeMap;

use super::planned::Planned;
use super::report::{HintFacts, ZoneFacts};
use crate::cache::{AddressType, Hinting, Service, Traffic};
use crate::endpointslice::plan::hints::{self, HintOutcome};
use crate::index::topology::Topology;

/// The hints of each family.
pub(super) fn facts(service: &Service, planned: &Planned, topology: &Topology) -> Vec<HintFacts> {
    if !service.has_slices() {
        return Vec::new();
    }
    service.families.iter().map(|family| of_family(service, *family, planned, topology)).collect()
}

#[derive(Default)]
struct Zone {
    ready: usize,
    hinted: usize,
}

fn of_family(service: &Service, family: AddressType, planned: &Planned, topology: &Topology) -> HintFacts {
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    let (mut ready, mut hinted) = (0, 0);
    for endpoint in planned.then().filter(|s| s.family == family).flat_map(|s| s.endpoints.iter()) {
        if !endpoint.is_ready() {
            continue;
        }
        ready += 1;
        hinted += usize::from(endpoint.hints.is_some());
        zones.entry(endpoint.zone.as_deref().unwrap_or_default().to_owned()).or_default().ready += 1;
        for zone in endpoint.hints.iter().flat_map(|hints| &hints.zones) {
            zones.entry(zone.to_string()).or_default().hinted += 1;
        }
    }
    let shares = match (service.hinting(), topology) {
        (Hinting::TopologyMode, Topology::Shares(shares)) => {
            shares.iter().map(|(zone, share)| (zone.to_string(), *share)).collect()
        }
        _ => BTreeMap::new(),
    };
    for zone in shares.keys() {
        zones.entry(zone.clone()).or_default();
    }
    let (given, reason, message) = said(service.hinting(), family, planned, ready, hinted);
    HintFacts {
        family: family.name().to_owned(),
        given,
        reason,
        message,
        zones: zones
            .into_iter()
            .map(|(name, zone)| ZoneFacts {
                cpu_share: shares.get(&name).copied(),
                at_least: shares.get(&name).map(|share| hints::minimum(*share, ready)),
                zone: name,
                ready: zone.ready,
                hinted: zone.hinted,
            })
            .collect(),
    }
}

fn said(
    hinting: Hinting,
    family: AddressType,
    planned: &Planned,
    ready: usize,
    hinted: usize,
) -> (bool, &'static str, String) {
    match hinting {
        Hinting::Off => (false, "Off", "the Service asks for no hints".to_owned()),
        _ if ready == 0 => (false, "NoReadyEndpoints", "no endpoint is ready".to_owned()),
        Hinting::TopologyMode => match planned.plan.hints.iter().find(|(f, _)| *f == family) {
            Some((_, HintOutcome::Withheld(withheld))) => {
                (false, withheld.cause.name(), format!("withheld: {}", withheld.detail))
            }
            _ => (true, "Given", format!("each of {ready} ready endpoints has hints")),
        },
        Hinting::Field(Traffic::SameNode) => {
            (hinted > 0, "Given", format!("{hinted} of {ready} ready endpoints have hints for their node"))
        }
        Hinting::Field(_) if hinted == ready => {
            (true, "Given", format!("each of {ready} ready endpoints has hints for its zone"))
        }
        Hinting::Field(_) if hinted == 0 => {
            (false, "NoZones", "no ready endpoint is on a node with a zone".to_owned())
        }
        Hinting::Field(_) => (
            false,
            "TrafficDistributionIncomplete",
            format!(
                "{} of {ready} ready endpoints are in no zone: readers then ignore the hints of all",
                ready - hinted
            ),
        ),
    }
}
