//! Why the endpoints of a Service are what they are: the explanation as a whole.
//!
//! Pure: a snapshot in, the explanation out. Owns the order of its parts and the findings; each part is a module's.

use super::details::{ForeignSlice, History};
use super::hinted;
use super::kind::Kind;
use super::legacy;
use super::near;
use super::origin::Origins;
use super::planned::Planned;
use super::pods::{self, Around};
use super::policies;
use super::report::{
    API_VERSION, Change, EventFacts, PodVerdict, ServiceExplanation, ServiceFacts, SliceFacts, SliceState,
    Unknown,
};
use super::snapshot::Snapshot;
use super::{Question, findings};
use crate::cache::{Hinting, Service, Slice, SliceKeeper};
use crate::keys;

/// So many changes and Events are shown.
const SHOWN: usize = 20;

/// Explains a Service; none if it is not there.
#[must_use]
pub fn service(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    question: &Question,
) -> Option<ServiceExplanation> {
    let service = snapshot.index.service(namespace, name)?;
    let object = snapshot.services.get(&(namespace.to_owned(), name.to_owned()))?;
    let planned = Planned::of_pods(
        &snapshot.index,
        service,
        question.max_endpoints_per_slice,
        snapshot.knows(Kind::Pod),
    );
    let slices_known = snapshot.knows(Kind::EndpointSlice);
    let desired = legacy::desired(snapshot, service);
    let pods = verdicts(snapshot, service, &planned, slices_known, desired.as_ref());
    let origins = Origins::new(snapshot);
    let mut explanation = ServiceExplanation {
        api_version: API_VERSION,
        kind: "ServiceExplanation",
        findings: Vec::new(),
        addresses: origins.addresses(object),
        ports: origins.ports(object),
        counts: pods::count(&pods),
        near_misses: near::near_misses(&snapshot.index, service),
        slices: slices(snapshot, service, &planned, question.max_endpoints_per_slice),
        hints: hinted::facts(service, &planned, &snapshot.index.topology),
        endpoints: snapshot
            .knows(Kind::Endpoints)
            .then(|| legacy::facts(snapshot, service, desired.as_ref(), &planned)),
        traffic_policies: policies::facts(snapshot, service, &planned, slices_known),
        changes: changes(snapshot, namespace, name),
        events: events(snapshot, namespace, name),
        unknown: unknown(snapshot, namespace, name),
        service: facts(service, object),
        pods,
    };
    explanation.findings = findings::of_service(&explanation, service, snapshot);
    Some(explanation)
}

/// What each pod is to a Service that selects it.
pub(super) fn verdicts(
    snapshot: &Snapshot,
    service: &Service,
    planned: &Planned,
    slices_known: bool,
    desired: Option<&crate::endpoints::plan::Desired>,
) -> Vec<PodVerdict> {
    let around =
        Around { index: &snapshot.index, details: &snapshot.pods, places: planned.places(), slices_known };
    let listed = desired.map(legacy::listed);
    let selected = legacy::pods_by_name(snapshot, service);
    selected
        .into_iter()
        .map(|pod| {
            let mut verdict = pods::verdict(&around, service, pod);
            verdict.not_in_endpoints = listed.as_ref().and_then(|listed| {
                pods::not_in_endpoints(&snapshot.index, service, pod, listed.contains(&pod.name))
            });
            verdict
        })
        .collect()
}

fn facts(service: &Service, object: &k8s_openapi::api::core::v1::Service) -> ServiceFacts {
    let spec = service_api::service::spec_of(object);
    let selector = service.selector.iter().flat_map(crate::text::Labels::iter);
    ServiceFacts {
        namespace: service.namespace.to_string(),
        name: service.name.to_string(),
        r#type: spec.type_.clone().unwrap_or_else(|| "ClusterIP".to_owned()),
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
        deleting: service.deleting,
        selector: selector.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        families: service.families.iter().map(|family| family.name().to_owned()).collect(),
        headless: service.headless,
        publish_not_ready_addresses: service.publish_not_ready,
        hinting: match service.hinting() {
            Hinting::Off => "Off",
            Hinting::TopologyMode => "TopologyMode",
            Hinting::Field(traffic) => traffic.name(),
        }
        .to_owned(),
        external_name: spec.external_name.clone().filter(|_| service.external_name),
    }
}

fn slices(snapshot: &Snapshot, service: &Service, planned: &Planned, capacity: usize) -> Vec<SliceFacts> {
    if !snapshot.knows(Kind::EndpointSlice) {
        return Vec::new();
    }
    let mut facts: Vec<SliceFacts> = planned
        .pairs
        .iter()
        .filter_map(|pair| {
            let slice = pair.old.as_deref().or(pair.new.as_deref())?;
            let (state, change) = (pair.state(), pair.change());
            Some(SliceFacts { state, change, capacity: Some(capacity), ..slice_facts(slice) })
        })
        .collect();
    if let Some(space) = snapshot.index.namespace(&service.namespace) {
        let mirrors = space.slices_of(SliceKeeper::Mirrors, &service.name).iter();
        facts.extend(mirrors.map(|slice| SliceFacts { state: SliceState::Right, ..slice_facts(slice) }));
    }
    let foreign = snapshot.foreign.iter().filter(|((namespace, _), slice)| {
        **namespace == *service.namespace && *slice.service == *service.name
    });
    facts.extend(foreign.map(|((_, name), slice)| foreign_facts(name, slice)));
    facts
}

/// What is said of a slice that no controller of ours keeps.
pub(super) fn foreign_facts(name: &str, slice: &ForeignSlice) -> SliceFacts {
    SliceFacts {
        name: name.to_owned(),
        family: slice.family.clone(),
        managed_by: slice.managed_by.clone(),
        ports: slice.ports.clone(),
        endpoints: slice.endpoints,
        ready: slice.ready,
        capacity: None,
        state: SliceState::NotOurs,
        change: None,
        trigger_time: None,
    }
}

/// What a slice is, whatever becomes of it.
pub(super) fn slice_facts(slice: &Slice) -> SliceFacts {
    let ports = slice.ports.iter().map(|port| {
        let number = port.port.map_or("*".to_owned(), |number| number.to_string());
        super::details::spelt(&port.name, &number, port.protocol.name())
    });
    SliceFacts {
        name: match &slice.generate_name {
            Some(prefix) if slice.name.is_empty() => format!("{prefix}*"),
            _ => slice.name.to_string(),
        },
        family: slice.family.name().to_owned(),
        managed_by: slice.labels.get(keys::MANAGED_BY).map(ToString::to_string),
        ports: ports.collect(),
        endpoints: slice.endpoints.len(),
        ready: slice.endpoints.iter().filter(|endpoint| endpoint.is_ready()).count(),
        capacity: None,
        state: SliceState::NotOurs,
        change: None,
        trigger_time: slice.annotations.get(keys::TRIGGER_TIME).map(ToString::to_string),
    }
}

/// Who changed what tells of this, the latest first; its namespace is empty for what is in none.
pub(super) fn changes(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<Change> {
    let own = histories(snapshot, namespace, name);
    let mut changes: Vec<Change> = own.flat_map(|(object, history)| history.changes(object)).collect();
    changes.sort_by(|a, b| (&b.time, &a.object).cmp(&(&a.time, &b.object)));
    changes.truncate(SHOWN);
    changes
}

fn histories<'a>(
    snapshot: &'a Snapshot,
    namespace: &str,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a History)> {
    let told = (namespace.to_owned(), name.to_owned());
    let from = snapshot.histories.range((told.clone(), String::new())..);
    from.take_while(move |((own, _), _)| *own == told).map(|((_, object), history)| (object, history))
}

/// The Events about this, the latest first.
pub(super) fn events(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<EventFacts> {
    let own = snapshot.events.iter().filter(|((own, named), _)| own == namespace && named == name);
    let mut events: Vec<EventFacts> = own.map(|(_, event)| event.0.clone()).collect();
    events.sort_by(|a, b| b.time.cmp(&a.time));
    events.truncate(SHOWN);
    events
}

/// What cannot be known of this.
pub(super) fn unknown(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<Unknown> {
    let missing = snapshot.missing();
    let mut unknown: Vec<Unknown> = missing
        .map(|(kind, why)| Unknown { kind: kind.name(), why: why.to_owned(), means: kind.without() })
        .collect();
    let mut own = histories(snapshot, namespace, name).peekable();
    if !snapshot.of_server && own.peek().is_some() && own.all(|(_, history)| !history.has_managers) {
        unknown.push(Unknown {
            kind: "managedFields",
            why: "the objects come without them; kubectl prints them with --show-managed-fields".to_owned(),
            means: "who changed what is not known",
        });
    }
    unknown
}
