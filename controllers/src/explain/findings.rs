//! What is worth knowing first of a Service: problems before warnings before notes.
//!
//! Pure. Owns what counts as which, and the sentences.

use super::kind::Kind;
use super::reason::Reason;
use super::report::{Finding, PodState, ServiceExplanation, Severity, SliceState};
use super::snapshot::Snapshot;
use crate::cache::{Hinting, Service};

fn finding(severity: Severity, reason: &'static str, message: String) -> Finding {
    Finding { severity, reason, message }
}

pub(super) fn problem(reason: &'static str, message: String) -> Finding {
    finding(Severity::Problem, reason, message)
}

pub(super) fn warning(reason: &'static str, message: String) -> Finding {
    finding(Severity::Warning, reason, message)
}

pub(super) fn note(reason: &'static str, message: String) -> Finding {
    finding(Severity::Note, reason, message)
}

/// The findings of an explanation that is complete but for them.
pub(super) fn of_service(
    explanation: &ServiceExplanation,
    service: &Service,
    snapshot: &Snapshot,
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(of_kind(explanation, service));
    if service.has_slices() && snapshot.knows(Kind::Pod) {
        found.extend(of_pods(explanation));
        found.extend(of_ports(explanation));
    }
    found.extend(of_slices(explanation, snapshot));
    found.extend(of_hints(explanation, service));
    found.extend(of_values(explanation));
    for policy in &explanation.traffic_policies {
        if policy.nodes_that_drop.count > 0 {
            found.push(warning("LocalPolicyDrops", policy.message.clone()));
        }
    }
    if let Some(endpoints) = &explanation.endpoints {
        match endpoints.state {
            "ToUpdate" | "ToCreate" | "ToDelete" => {
                found
                    .push(warning("EndpointsDiffer", format!("the Endpoints object: {}", endpoints.message)));
            }
            _ if endpoints.over_capacity => {
                found.push(warning("OverCapacity", format!("the Endpoints object: {}", endpoints.message)));
            }
            _ => {}
        }
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

fn of_kind(explanation: &ServiceExplanation, service: &Service) -> Option<Finding> {
    if service.deleting {
        return Some(warning("Deleting", "the Service is being deleted".to_owned()));
    }
    if let Some(name) = &explanation.service.external_name {
        return Some(note("ExternalName", format!("it stands for the name {name}: it has no endpoints")));
    }
    service.selector.is_none().then(|| {
        note("NoSelector", "it has no selector: its endpoints are for its owner to provide".to_owned())
    })
}

fn of_pods(explanation: &ServiceExplanation) -> Vec<Finding> {
    let (counts, mut found) = (&explanation.counts, Vec::new());
    if counts.selected == 0 {
        let near = explanation.near_misses.first();
        let near = near
            .map_or(String::new(), |near| format!("; {} almost match: {}", near.pods.count, near.message));
        found.push(problem("NoPods", format!("its selector matches no pod{near}")));
    } else if counts.ready == 0 {
        let reasons: Vec<String> =
            counts.by_reason.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        found.push(problem(
            "NoReadyEndpoint",
            format!("none of its {} pods is a ready endpoint: {}", counts.selected, reasons.join(", ")),
        ));
    }
    let nowhere: Vec<&str> = explanation
        .pods
        .iter()
        .filter(|pod| matches!(pod.reason, Reason::NodeUnknown))
        .map(|pod| pod.name.as_str())
        .collect();
    if let [first, ..] = nowhere[..] {
        found.push(warning(
            "NodeUnknown",
            format!("{} pods are on nodes that do not exist, for instance {first}", nowhere.len()),
        ));
    }
    found
}

fn of_ports(explanation: &ServiceExplanation) -> Vec<Finding> {
    let endpoints = || explanation.pods.iter().filter(|pod| pod.state != PodState::LeftOut);
    let total = endpoints().count();
    let named = explanation.pods.iter().flat_map(|pod| &pod.missing_ports);
    let mut names: Vec<&String> = named.collect();
    names.sort();
    names.dedup();
    let missing = |name: &String| endpoints().filter(|pod| pod.missing_ports.contains(name)).count();
    let counted = names.into_iter().map(|name| (name, missing(name))).filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| {
            let message = format!("the port {name} is missing on {count} of {total} endpoints");
            if count == total {
                problem("NamedPortMissing", message)
            } else {
                warning("NamedPortMissing", message)
            }
        })
        .collect()
}

fn of_slices(explanation: &ServiceExplanation, snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    let count = |state: SliceState| explanation.slices.iter().filter(|slice| slice.state == state).count();
    let pending = [SliceState::ToCreate, SliceState::ToUpdate, SliceState::ToDelete].map(count);
    if pending.iter().any(|count| *count > 0) {
        let [create, update, delete] = pending;
        found.push(warning(
            "SlicesDiffer",
            format!(
                "slices are not as they should be ({create} to make, {update} to write anew, {delete} to delete): a \
                 controller is about to write them, or none does"
            ),
        ));
    }
    let foreign = count(SliceState::NotOurs);
    if foreign > 0 {
        found.push(note(
            "ForeignSlices",
            format!("{foreign} of its slices are somebody else's: readers take their endpoints too"),
        ));
    }
    if !snapshot.knows(Kind::EndpointSlice) {
        found.push(note(
            "SlicesUnknown",
            "its slices are not known: what is said is what should be".to_owned(),
        ));
    }
    found
}

fn of_hints(explanation: &ServiceExplanation, service: &Service) -> Vec<Finding> {
    if service.hinting() == Hinting::Off {
        return Vec::new();
    }
    let withheld =
        explanation.hints.iter().filter(|hints| !hints.given && hints.reason != "NoReadyEndpoints");
    withheld
        .map(|hints| warning("HintsWithheld", format!("no hints for {}: {}", hints.family, hints.message)))
        .collect()
}

fn of_values(explanation: &ServiceExplanation) -> Vec<Finding> {
    let mut found = Vec::new();
    for address in &explanation.addresses {
        if let Some(ledger) = address.origin.ledger.as_ref().filter(|ledger| !ledger.agrees) {
            found.push(problem(
                "AddressOfAnother",
                format!("{} is taken by {}: {}", address.address, ledger.holder, address.origin.message),
            ));
        }
    }
    for port in &explanation.ports {
        let ledger = port.origin.as_ref().and_then(|origin| origin.ledger.as_ref());
        if let (Some(number), Some(ledger)) = (port.node_port, ledger.filter(|ledger| !ledger.agrees)) {
            found.push(problem(
                "NodePortOfAnother",
                format!("node port {number} is taken by {}", ledger.holder),
            ));
        }
    }
    found
}
