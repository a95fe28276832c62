//! What each pod is to a Service that selects it, with the one reason for it.
//!
//! Pure. The verdict is `crate::verdict`'s, as for the controllers; this owns the sentence, and why a pod is not ready.

use std::collections::BTreeMap;

use super::details::PodDetail;
use super::planned::Places;
use super::reason::Reason;
use super::report::{FamilyVerdict, PodCounts, PodState, PodVerdict};
use crate::cache::{AddressType, Pod, Service, TargetPort, rfc3339};
use crate::index::Index;
use crate::target_ports;
use crate::verdict::{self, Conditions, LeftOut};

/// Beside a pod and its Service, what a verdict is made from.
pub(super) struct Around<'a> {
    pub index: &'a Index,
    pub details: &'a BTreeMap<(String, String), PodDetail>,
    pub places: Places<'a>,
    /// Whether the Service's slices are known.
    pub slices_known: bool,
}

/// What a pod is to a Service that selects it.
pub(super) fn verdict(around: &Around<'_>, service: &Service, pod: &Pod) -> PodVerdict {
    let node = pod.node.as_ref().and_then(|name| around.index.nodes.get(name));
    let missing = missing_ports(service, pod);
    let detail = around.details.get(&(service.namespace.to_string(), pod.name.to_string()));
    let families: Vec<(FamilyVerdict, Option<Conditions>)> = service
        .families
        .iter()
        .map(|family| {
            let found = verdict::in_slices(service, pod, node.is_some(), *family);
            let (state, reason) = match found {
                Ok(conditions) => of_endpoint(conditions, pod, detail, !missing.is_empty()),
                Err(why) => (PodState::LeftOut, why.into()),
            };
            let name = family.name().to_owned();
            let mut of_family = FamilyVerdict {
                family: name,
                state,
                reason,
                slice: None,
                conditions: None,
                hints: None,
                pending: None,
            };
            around.places.fill(&mut of_family, *family, &pod.name, around.slices_known);
            (of_family, found.ok())
        })
        .collect();
    let best = families.iter().min_by_key(|(verdict, _)| verdict.state);
    let (state, reason) =
        best.map_or((PodState::LeftOut, Reason::NoAddressOfFamily), |(best, _)| (best.state, best.reason));
    PodVerdict {
        name: pod.name.to_string(),
        node: pod.node.as_ref().map(ToString::to_string),
        zone: node.and_then(|node| node.zone.as_ref()).map(ToString::to_string),
        addresses: pod.ips.iter().map(ToString::to_string).collect(),
        message: message(reason, service, pod, detail, &missing),
        state,
        reason,
        families: families.into_iter().map(|(verdict, _)| verdict).collect(),
        missing_ports: missing,
        not_in_endpoints: None,
        ready_since: pod.ready_since.map(rfc3339),
    }
}

/// Counts verdicts.
pub(super) fn count(pods: &[PodVerdict]) -> PodCounts {
    let mut counts = PodCounts { selected: pods.len(), ..PodCounts::default() };
    for pod in pods {
        match pod.state {
            PodState::Ready => counts.ready += 1,
            PodState::NotReady => counts.not_ready += 1,
            PodState::LeftOut => counts.left_out += 1,
        }
        *counts.by_reason.entry(pod.reason).or_default() += 1;
    }
    counts
}

fn of_endpoint(
    conditions: Conditions,
    pod: &Pod,
    detail: Option<&PodDetail>,
    lacks_ports: bool,
) -> (PodState, Reason) {
    let state = if conditions.ready { PodState::Ready } else { PodState::NotReady };
    let reason = match (conditions.ready, pod.ready && !pod.terminating) {
        _ if lacks_ports => Reason::NamedPortMissing,
        (true, true) => Reason::Ready,
        (true, false) => Reason::Published,
        (false, _) if pod.terminating => Reason::Terminating,
        (false, _) => not_ready(detail),
    };
    (state, reason)
}

/// A gate decides where the containers are ready and the pod is not; otherwise a condition does.
fn not_ready(detail: Option<&PodDetail>) -> Reason {
    let gated = detail.is_some_and(|detail| {
        !detail.gates.is_empty() && !detail.not_true.iter().any(|c| c.name == "ContainersReady")
    });
    if gated { Reason::ReadinessGate } else { Reason::ConditionNotTrue }
}

/// The ports of a Service that a pod does not have, by the name that is looked for and the protocol.
fn missing_ports(service: &Service, pod: &Pod) -> Vec<String> {
    let missing = service.ports.iter().filter(|port| target_ports::number(port, &pod.named_ports).is_none());
    missing
        .filter_map(|port| match &port.target {
            TargetPort::Name(name) => Some(format!("{name}/{}", port.protocol.name())),
            TargetPort::Number(_) => None,
        })
        .collect()
}

fn message(
    reason: Reason,
    service: &Service,
    pod: &Pod,
    detail: Option<&PodDetail>,
    missing: &[String],
) -> String {
    let node = pod.node.as_deref().unwrap_or_default();
    match reason {
        Reason::Ready => "it is ready".to_owned(),
        Reason::Published => {
            let why = if pod.terminating { "it is being deleted".to_owned() } else { condition(detail) };
            format!("{why}, and the Service has publishNotReadyAddresses")
        }
        Reason::ConditionNotTrue => condition(detail),
        Reason::ReadinessGate => {
            let gates = detail.map(|detail| detail.gates.join(", ")).unwrap_or_default();
            format!("its readiness gate {gates} is not True")
        }
        Reason::Terminating if pod.ready => {
            "it is being deleted, and still serves: it is sent to only while no endpoint is ready".to_owned()
        }
        Reason::Terminating => "it is being deleted".to_owned(),
        Reason::TerminalPhase => match detail.map(|detail| (&detail.phase, &detail.reason)) {
            Some((phase, why)) if why.is_empty() => format!("its phase is {phase}"),
            Some((phase, why)) => format!("its phase is {phase} ({why})"),
            None => "its phase is Succeeded or Failed".to_owned(),
        },
        Reason::NoAddress => match detail.map(|detail| detail.phase.as_str()) {
            Some(phase) if !phase.is_empty() => format!("it has no address yet; its phase is {phase}"),
            _ => "it has no address yet".to_owned(),
        },
        Reason::NoAddressOfFamily => {
            let wanted: Vec<&str> = service.families.iter().map(|family| family.name()).collect();
            let has: Vec<String> = pod.ips.iter().map(ToString::to_string).collect();
            format!("it has {}, and no address of {}", has.join(" and "), wanted.join(" or "))
        }
        Reason::NoNode => "it is bound to no node yet".to_owned(),
        Reason::NodeUnknown => format!("it is bound to the node {node}, which does not exist"),
        Reason::NamedPortMissing => {
            format!("none of its containers has the port {}: it is no endpoint for that", missing.join(", "))
        }
        Reason::OverCapacity | Reason::OneLabelOff | Reason::OtherNamespace => String::new(),
    }
}

/// The condition that keeps a pod from being ready, in words.
fn condition(detail: Option<&PodDetail>) -> String {
    let Some(detail) = detail else { return "its condition Ready is not True".to_owned() };
    let named = |name: &str| detail.not_true.iter().find(|condition| condition.name == name);
    // What the node's end says stands in Ready itself; otherwise the conditions behind it say more.
    let lost = named("Ready").filter(|condition| condition.status == "Unknown");
    let first = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].into_iter().find_map(named);
    match lost.or(first) {
        Some(condition) if condition.why.is_empty() => {
            format!("its condition {} is {}", condition.name, condition.status)
        }
        Some(condition) => {
            format!("its condition {} is {} ({})", condition.name, condition.status, condition.why)
        }
        None if !detail.has_ready => "it has no condition Ready".to_owned(),
        None => "its condition Ready is not True".to_owned(),
    }
}

/// Why the `Endpoints` of a Service do not have a pod that its slices have; `listed` says whether the object that the
/// controller makes has it.
pub(super) fn not_in_endpoints(index: &Index, service: &Service, pod: &Pod, listed: bool) -> Option<Reason> {
    let exists = pod.node.as_ref().is_some_and(|name| index.nodes.contains_key(name));
    let family: AddressType = verdict::endpoints_family(service);
    if listed || verdict::in_slices(service, pod, exists, family).is_err() {
        return None;
    }
    let has_ports = !target_ports::resolve(service, pod).is_empty();
    Some(match verdict::in_endpoints(service, pod, exists, has_ports) {
        Ok(_) => Reason::OverCapacity,
        Err(LeftOut::NoAddressOfFamily) => return None,
        Err(why) => why.into(),
    })
}
