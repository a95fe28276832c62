//! Why a pod is an endpoint of Services, and what is in a slice.
//!
//! Pure. Made from the same parts as the explanation of a Service; this owns what is asked of each Service of a namespace.

use std::sync::Arc;

use super::findings::{note, problem, warning};
use super::kind::Kind;
use super::near::{self, label_off};
use super::planned::Planned;
use super::pods::{self, Around};
use super::report::others::{
    NearService, PodExplanation, PodFacts, PodInService, SliceEndpoint, SliceExplanation,
};
use super::report::{
    API_VERSION, EndpointConditions, EndpointHints, Finding, LabelDifference, PodState, SliceFacts,
    SliceState,
};
use super::service::{changes, events, foreign_facts, slice_facts, unknown};
use super::snapshot::Snapshot;
use super::{Question, details, legacy};
use crate::cache::{Endpoint, Pod, Service, Slice, SliceKeeper};
use crate::index::Namespace;
use crate::text::Labels;

/// Explains a pod; none if it is not there.
#[must_use]
pub fn pod(snapshot: &Snapshot, namespace: &str, name: &str, question: &Question) -> Option<PodExplanation> {
    let space = snapshot.index.namespace(namespace)?;
    let (pod, labels) = space.pods.get(name)?;
    let mut services: Vec<&Arc<Service>> = space.services.values().collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let selecting = services.iter().filter(|service| space.pods.pod_of(&service.name, name).is_some());
    let services_of: Vec<PodInService> = selecting
        .map(|service| PodInService {
            service: service.name.to_string(),
            verdict: verdict(snapshot, service, pod, question),
        })
        .collect();
    let near_services = services.iter().filter_map(|service| near_service(service, labels)).collect();
    Some(PodExplanation {
        api_version: API_VERSION,
        kind: "PodExplanation",
        findings: of_pod(&services_of, snapshot),
        pod: facts(namespace, pod, labels),
        services: services_of,
        near_services,
        changes: changes(snapshot, namespace, name),
        events: events(snapshot, namespace, name),
        unknown: unknown(snapshot, namespace, name),
    })
}

fn verdict(
    snapshot: &Snapshot,
    service: &Service,
    pod: &Pod,
    question: &Question,
) -> super::report::PodVerdict {
    let known = snapshot.knows(Kind::Pod);
    let planned = Planned::of_pods(&snapshot.index, service, question.max_endpoints_per_slice, known);
    let around = Around {
        index: &snapshot.index,
        details: &snapshot.pods,
        places: planned.places(),
        slices_known: snapshot.knows(Kind::EndpointSlice),
    };
    let mut verdict = pods::verdict(&around, service, pod);
    let desired = legacy::desired(snapshot, service);
    verdict.not_in_endpoints = desired.and_then(|desired| {
        let listed = legacy::listed(&desired).contains(&pod.name);
        pods::not_in_endpoints(&snapshot.index, service, pod, listed)
    });
    verdict
}

fn near_service(service: &Service, labels: &Labels) -> Option<NearService> {
    let selector = service.selector.as_ref().filter(|_| service.has_slices())?;
    let (key, wanted, there) = label_off(selector, labels)?;
    Some(NearService {
        service: service.name.to_string(),
        message: near::differs(&key, &wanted, there.as_ref()),
        label: LabelDifference {
            found: there.filter(|(other, _)| *other == key).map(|(_, value)| value.to_string()),
            key: key.to_string(),
            wanted: wanted.to_string(),
        },
    })
}

fn facts(namespace: &str, pod: &Pod, labels: &Labels) -> PodFacts {
    let port = |port: &crate::cache::NamedPort| {
        details::spelt(&port.name, &port.number.to_string(), port.protocol.name())
    };
    PodFacts {
        namespace: namespace.to_owned(),
        name: pod.name.to_string(),
        labels: labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        node: pod.node.as_ref().map(ToString::to_string),
        addresses: pod.ips.iter().map(ToString::to_string).collect(),
        ready: pod.ready,
        terminating: pod.terminating,
        named_ports: pod.named_ports.iter().map(port).collect(),
    }
}

fn of_pod(services: &[PodInService], snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    if services.is_empty() && snapshot.knows(Kind::Service) {
        found.push(note("NoService", "no Service of its namespace selects it".to_owned()));
    }
    for PodInService { service, verdict } in services {
        let said = format!("{service}: {}", verdict.message);
        match verdict.state {
            PodState::LeftOut => found.push(problem("LeftOut", said)),
            PodState::NotReady => found.push(warning("NotReady", said)),
            PodState::Ready if !verdict.missing_ports.is_empty() => {
                found.push(warning("NamedPortMissing", said));
            }
            PodState::Ready => {}
        }
    }
    found
}

/// Explains a slice; none if it is not there.
#[must_use]
pub fn slice(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    question: &Question,
) -> Option<SliceExplanation> {
    let space = snapshot.index.namespace(namespace);
    let known = snapshot.index.home_of(namespace, name).and_then(|(keeper, service)| {
        let slices = space?.slices_of(keeper, &service);
        Some((keeper, slices.iter().find(|slice| &*slice.name == name)?))
    });
    let (facts, service, endpoints, findings) = match (known, space) {
        (Some((keeper, slice)), Some(space)) => of_ours(snapshot, space, keeper, slice, question),
        _ => of_others(snapshot, namespace, name)?,
    };
    Some(SliceExplanation {
        api_version: API_VERSION,
        kind: "EndpointSliceExplanation",
        namespace: namespace.to_owned(),
        slice: facts,
        service,
        findings,
        endpoints,
        changes: changes(snapshot, namespace, name),
        events: events(snapshot, namespace, name),
        unknown: unknown(snapshot, namespace, name),
    })
}

type Parts = (SliceFacts, String, Vec<SliceEndpoint>, Vec<Finding>);

fn of_ours(
    snapshot: &Snapshot,
    space: &Namespace,
    keeper: SliceKeeper,
    slice: &Arc<Slice>,
    question: &Question,
) -> Parts {
    let name = slice.service().map(ToString::to_string).unwrap_or_default();
    let mut facts = SliceFacts { state: SliceState::Right, ..slice_facts(slice) };
    let mut findings = Vec::new();
    let service = space.services.get(name.as_str());
    let Some(service) = service else {
        if snapshot.knows(Kind::Service) {
            let said = format!(
                "there is no Service {name}: the garbage collector takes the slice away with its owner"
            );
            findings.push(warning("NoService", said));
        }
        return (facts, name, slice.endpoints.iter().map(|e| endpoint(e, None)).collect(), findings);
    };
    let planned = Planned::of_pods(
        &snapshot.index,
        service,
        question.max_endpoints_per_slice,
        snapshot.knows(Kind::Pod),
    );
    if keeper == SliceKeeper::Slices {
        facts.capacity = Some(question.max_endpoints_per_slice);
        let own = |pair: &&super::planned::Pair| pair.old.as_ref().is_some_and(|old| old.name == slice.name);
        if let Some(pair) = planned.pairs.iter().find(own) {
            (facts.state, facts.change) = (pair.state(), pair.change());
        }
        if let Some(change) = &facts.change {
            findings.push(warning("SliceDiffers", format!("the controllers would {change}")));
        }
        if !slice.is_owned_by("Service", &service.uid) {
            let said = format!("its owner is not the Service {name} that is there now");
            findings.push(warning("OwnerGone", said));
        }
    }
    let around = Around {
        index: &snapshot.index,
        details: &snapshot.pods,
        places: planned.places(),
        slices_known: true,
    };
    let endpoints = slice.endpoints.iter().map(|found| {
        let pod = found.pod().and_then(|pod| space.pods.pod_of(&service.name, pod));
        endpoint(found, pod.map(|pod| pods::verdict(&around, service, pod)))
    });
    (facts, name, endpoints.collect(), findings)
}

fn of_others(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<Parts> {
    let slice = snapshot.foreign.get(&(namespace.to_owned(), name.to_owned()))?;
    let by = slice.managed_by.as_ref().map_or("by hand".to_owned(), |by| format!("by {by}"));
    let mut findings = vec![note("Foreign", format!("it is kept {by}: no controller of ours changes it"))];
    if slice.service.is_empty() {
        findings.push(note("NoService", "it has no label that names a Service: nobody uses it".to_owned()));
    }
    Some((foreign_facts(name, slice), slice.service.clone(), Vec::new(), findings))
}

fn endpoint(found: &Endpoint, verdict: Option<super::report::PodVerdict>) -> SliceEndpoint {
    SliceEndpoint {
        addresses: found.addresses.iter().map(ToString::to_string).collect(),
        pod: found.pod().map(ToString::to_string),
        conditions: EndpointConditions {
            ready: found.ready,
            serving: found.serving,
            terminating: found.terminating,
        },
        hints: found.hints.as_ref().map(|hints| EndpointHints {
            zones: hints.zones.iter().map(ToString::to_string).collect(),
            nodes: hints.nodes.iter().map(ToString::to_string).collect(),
        }),
        verdict,
    }
}
