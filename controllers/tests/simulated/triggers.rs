//! The trigger time of every write is the earliest readiness time that the Service has not been
//! looked at with yet: Kubernetes' rule as a model, against random histories.

use std::collections::BTreeMap;

use proptest::prelude::*;
use service_controllers::cache::rfc3339;
use service_controllers::keys;
use service_controllers::objects::{EndpointsWire, IpWire, MetaWire, Pairs, PodWire};

use crate::server::{Sim, pod, service};

/// When the Service was made.
const CREATED: i64 = 1_893_456_000;

#[derive(Clone, Debug)]
enum Op {
    /// A pod is made; it has no status yet.
    Add(u8),
    Remove(u8),
    /// Readiness changes at a time.
    Flip(u8, i64),
    /// Only the time of the readiness changes.
    Time(u8, i64),
    /// The pod gets or loses its address.
    Address(u8),
    /// The pod joins or leaves the Service.
    Move(u8),
    /// The Service's labels change.
    Label(u8),
    /// The Service is written without a change that concerns its endpoints.
    Touch,
    /// Somebody edits the Endpoints object.
    Edit,
}

fn op() -> impl Strategy<Value = Op> {
    let time = 1..60_i64;
    prop_oneof![
        4 => (0..5_u8).prop_map(Op::Add),
        2 => (0..5_u8).prop_map(Op::Remove),
        5 => (0..5_u8, time.clone()).prop_map(|(i, t)| Op::Flip(i, t)),
        3 => (0..5_u8, time).prop_map(|(i, t)| Op::Time(i, t)),
        4 => (0..5_u8).prop_map(Op::Address),
        2 => (0..5_u8).prop_map(Op::Move),
        1 => (0..3_u8).prop_map(Op::Label),
        2 => Just(Op::Touch),
        1 => Just(Op::Edit),
    ]
}

#[derive(Clone, Debug, Default)]
struct Member {
    ready: bool,
    time: Option<i64>,
    listed: bool,
    selected: bool,
}

/// What a controller writes, with which time, and what it has seen.
#[derive(Debug, Default)]
struct Written {
    content: (u8, Vec<(u8, bool)>),
    trigger: Option<i64>,
    edited: bool,
    known: bool,
    seen: BTreeMap<u8, i64>,
}

impl Written {
    fn look(&mut self, pods: &BTreeMap<u8, Member>, label: u8) {
        let selected: BTreeMap<u8, i64> =
            pods.iter().filter(|(_, p)| p.selected).filter_map(|(i, p)| Some((*i, p.time?))).collect();
        let fresh = selected.iter().filter(|(i, time)| self.seen.get(i).is_none_or(|seen| time > &seen));
        let fresh = fresh.map(|(_, time)| *time).min();
        self.seen = selected;
        let trigger = if std::mem::replace(&mut self.known, true) { fresh } else { Some(CREATED) };
        let listed = pods.iter().filter(|(_, p)| p.selected && p.listed).map(|(i, p)| (*i, p.ready));
        let content = (label + 1, listed.collect::<Vec<_>>());
        if self.content != content || self.edited {
            (self.content, self.trigger, self.edited) = (content, trigger, false);
        }
    }
}

#[derive(Debug, Default)]
struct Model {
    pods: BTreeMap<u8, Member>,
    label: u8,
    slice: Written,
    endpoints: Written,
}

impl Model {
    fn look(&mut self) {
        self.slice.look(&self.pods, self.label);
        self.endpoints.look(&self.pods, self.label);
    }

    /// Takes in a change of a pod; `looked` says whether it makes anybody look.
    fn pod(&mut self, i: u8, looked: bool, change: impl FnOnce(&mut Member)) {
        let Some(pod) = self.pods.get_mut(&i) else { return };
        let before = pod.selected;
        change(pod);
        if looked && (before || pod.selected) {
            self.look();
        }
    }
}

fn change(sim: &mut Sim, i: u8, change: impl FnOnce(&mut PodWire)) {
    if sim.pods.contains_key(&format!("p{i}")) {
        sim.change_pod(&format!("p{i}"), change);
    }
}

fn apply(op: &Op, sim: &mut Sim, model: &mut Model) {
    match *op {
        Op::Add(i) if !model.pods.contains_key(&i) => {
            let mut fresh = pod(&format!("p{i}"), "web", "");
            fresh.metadata.uid = format!("uid-{i}-{}", model.slice.seen.len());
            (fresh.status.pod_ip, fresh.status.pod_ips) = (String::new(), Vec::new());
            fresh.status.conditions[0].status = "False".into();
            fresh.status.conditions[0].last_transition_time = None;
            sim.pod(fresh);
            model.pods.insert(i, Member { selected: true, ..Member::default() });
            model.look();
        }
        Op::Remove(i) if model.pods.contains_key(&i) => {
            sim.remove_pod(&format!("p{i}"));
            if model.pods.remove(&i).is_some_and(|p| p.selected) {
                model.look();
            }
        }
        Op::Add(_) | Op::Remove(_) => {}
        Op::Flip(i, time) => {
            change(sim, i, |p| {
                let condition = &mut p.status.conditions[0];
                condition.status = if condition.status == "True" { "False" } else { "True" }.into();
                condition.last_transition_time = Some(rfc3339(CREATED + time));
            });
            model.pod(i, true, |p| (p.ready, p.time) = (!p.ready, Some(CREATED + time)));
        }
        Op::Time(i, time) => {
            change(sim, i, |p| {
                p.status.conditions[0].last_transition_time = Some(rfc3339(CREATED + time));
            });
            model.pod(i, false, |p| p.time = Some(CREATED + time));
        }
        Op::Address(i) => {
            change(sim, i, |p| {
                let ips = if p.status.pod_ips.is_empty() { vec![format!("10.1.0.{i}")] } else { Vec::new() };
                p.status.pod_ip = ips.first().cloned().unwrap_or_default();
                p.status.pod_ips = ips.into_iter().map(|ip| IpWire { ip }).collect();
            });
            model.pod(i, true, |p| p.listed = !p.listed);
        }
        Op::Move(i) => {
            change(sim, i, |p| {
                let app = if p.metadata.labels.0[0].1 == "web" { "other" } else { "web" };
                p.metadata.labels = Pairs(vec![("app".into(), app.into())]);
            });
            model.pod(i, true, |p| p.selected = !p.selected);
        }
        Op::Label(value) => {
            sim.change_service("web", |s| {
                s.metadata.labels = Pairs(vec![("value".into(), value.to_string())]);
            });
            model.label = value;
            model.look();
        }
        Op::Touch => {
            sim.change_service("web", |s| s.metadata.annotations.0.push(("note".into(), "new".into())));
            model.look();
        }
        Op::Edit => {
            let mut edited: EndpointsWire = sim.endpoints["web"].clone();
            edited.metadata.labels.0.push(("edited".into(), "by-hand".into()));
            sim.foreign_endpoints(edited);
            model.endpoints.edited = true;
            model.endpoints.look(&model.pods, model.label);
        }
    }
}

fn trigger(meta: &MetaWire) -> Option<String> {
    meta.annotations.0.iter().find(|(key, _)| key == keys::TRIGGER_TIME).map(|(_, time)| time.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn each_write_tells_the_earliest_change_not_seen_before(ops in prop::collection::vec(op(), 1..40)) {
        let mut sim = Sim::new(100);
        let mut web = service("web", "web");
        web.metadata.creation_timestamp = Some(rfc3339(CREATED));
        web.metadata.labels = Pairs(vec![("value".into(), "0".into())]);
        sim.service(web);
        let mut model = Model::default();
        model.look();
        sim.settle();
        for op in &ops {
            apply(op, &mut sim, &mut model);
            sim.settle();
            let slice = sim.slices_of("web").next().map(|s| trigger(&s.metadata));
            prop_assert_eq!(slice, Some(model.slice.trigger.map(rfc3339)), "slice after {:?}", op);
            let endpoints = trigger(&sim.endpoints["web"].metadata);
            prop_assert_eq!(endpoints, model.endpoints.trigger.map(rfc3339), "Endpoints after {:?}", op);
        }
    }
}
