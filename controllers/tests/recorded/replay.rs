//! Plays a case: requests into the store, events into the cluster, plans back into the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use service_controllers::api::{Answer, Reply, RequestError, Verb, Write};
use service_controllers::controller::{Controller, Key};
use service_controllers::index::Index;
use service_controllers::index::events::{EndpointsEvent, SliceEvent};
use service_controllers::mirroring::state::MirrorStep;
use service_controllers::objects::ObjectKind;
use service_controllers::reconcile::context::Delivery;
use service_controllers::reconcile::outbox::Outbox;
use service_controllers::reconcile::pacing::Urgency;
use service_controllers::reconcile::slices::SliceState;
use service_controllers::reconcile::step::{SliceJob, Step};
use service_controllers::requests::slices::request;

use crate::common::{Cluster, Limits};

use crate::matcher::{Bindings, fill, matches_groups, matches_items, normalise};
use crate::shadow::Withheld;
use crate::store::{Event, Store, split};

pub(crate) struct Replay {
    pub(crate) store: Store,
    cluster: Option<Cluster>,
    pub(crate) limits: Limits,
    batch: bool,
    collects: bool,
    waiting: BTreeMap<Key, Urgency>,
    writes: BTreeMap<(String, &'static str), u64>,
    pub(crate) bound: Bindings,
    /// How many names and uids were made up.
    pub(crate) made: u32,
    /// What was not written, where nothing is.
    withheld: Option<Vec<Withheld>>,
}

/// The controllers of a case, with its settings.
pub(crate) fn limits(case: &Value) -> Limits {
    let args = &case["controllerArgs"];
    let number =
        |key: &str, default: usize| args[key].as_u64().map_or(default, |n| usize::try_from(n).unwrap());
    Limits {
        max_per_slice: number("max-endpoints-per-slice", 100),
        max_mirrored: number("mirroring-max-endpoints-per-subset", 1000),
        enabled: Controller::ALL.into_iter().filter(|c| names(case).contains(&c.name())).collect(),
    }
}

fn names(case: &Value) -> Vec<&str> {
    case["controllers"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect()
}

pub(crate) fn replay(case: &Value) -> Result<(), String> {
    let mut replay = Replay::of(case, limits(case));
    let steps = case["steps"].as_array().unwrap();
    let first = steps.iter().find_map(|s| s["controllers"].as_str());
    if first != Some("start") {
        replay.start();
    }
    for (i, step) in steps.iter().enumerate() {
        replay.step(step).map_err(|e| format!("step {i}: {e}"))?;
    }
    Ok(())
}

impl Replay {
    /// A case before its first step, without controllers.
    pub(crate) fn of(case: &Value, limits: Limits) -> Self {
        let mut replay = Self {
            store: Store::default(),
            cluster: None,
            limits,
            batch: case["controllerArgs"]["endpointslice-updates-batch-period"].is_string(),
            collects: names(case).contains(&"garbage-collector-controller"),
            waiting: BTreeMap::new(),
            writes: BTreeMap::new(),
            bound: Bindings::new(),
            made: 0,
            withheld: None,
        };
        replay.store.cidrs =
            case["server"]["serviceCidrs"].as_array().unwrap().iter().map(ToString::to_string).collect();
        replay
    }

    /// What controllers that begin now would write; they write nothing and end.
    pub(crate) fn withheld(&mut self) -> Vec<Withheld> {
        self.withheld = Some(Vec::new());
        self.start();
        self.cluster = None;
        self.waiting.clear();
        self.withheld.take().unwrap_or_default()
    }

    fn start(&mut self) {
        let cluster = Cluster::new(&self.limits);
        self.store.events.clear();
        for (kind, plural) in [
            (ObjectKind::Services, "services"),
            (ObjectKind::Nodes, "nodes"),
            (ObjectKind::Slices, "endpointslices"),
            (ObjectKind::Endpoints, "endpoints"),
            (ObjectKind::Pods, "pods"),
        ] {
            cluster.feed.list_begins(kind);
            for object in self.store.list(plural, "") {
                feed(&cluster, &Event { plural: plural.to_owned(), gone: false, object });
            }
            cluster.feed.list_ends(kind);
        }
        cluster.start();
        self.cluster = Some(cluster);
        self.run(true);
    }

    pub(crate) fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(word) = step["controllers"].as_str() {
            match word {
                "start" => self.start(),
                _ => self.cluster = None,
            }
            return Ok(());
        }
        if step["settle"] == true {
            return self.settle(step);
        }
        let Some((key, range)) = step["for"].as_object().and_then(|f| f.iter().next()) else {
            return self.request(step);
        };
        let (from, to) = (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
        for i in from..=to {
            self.bound.insert(key.clone(), json!(i));
            self.bound.insert(format!("{key}.hi"), json!(i / 250));
            self.bound.insert(format!("{key}.lo"), json!(i % 250 + 1));
            self.request(step)?;
        }
        Ok(())
    }

    fn request(&mut self, step: &Value) -> Result<(), String> {
        let path = fill(&step["path"], &self.bound);
        let body = fill(&step["body"], &self.bound);
        let (plural, namespace, name, sub, query) = split(path.as_str().unwrap());
        let (code, answer) = match step["method"].as_str().unwrap() {
            "POST" if sub == "binding" => {
                let patch = json!({"spec": {"nodeName": body["target"]["name"]}});
                let (_, answer) = self.store.patch(&plural, &namespace, &name, "", &patch);
                (201, answer)
            }
            "POST" => self.store.create(&plural, &namespace, &body),
            "PUT" => self.store.update(&plural, &namespace, &name, body),
            "PATCH" => {
                let kind = step["contentType"].as_str().unwrap();
                self.store.patch(&plural, &namespace, &name, kind, &body)
            }
            "DELETE" => (self.store.delete(&plural, &namespace, &name, &query), Value::Null),
            _ => (200, self.store.get(&plural, &namespace, &name).cloned().unwrap_or_default()),
        };
        if step["expect"]["code"] != json!(code) {
            return Err(format!("code {} expected, {code} found", step["expect"]["code"]));
        }
        for (name, field) in step["bind"].as_object().into_iter().flatten() {
            let pointer = format!("/{}", field.as_str().unwrap().replace('.', "/"));
            self.bound.insert(name.clone(), answer.pointer(&pointer).cloned().unwrap_or_default());
        }
        self.run(!self.batch);
        Ok(())
    }

    /// Feeds what happened and looks at what it calls for, until nothing is left.
    fn run(&mut self, all: bool) {
        for _ in 0..1000 {
            let events = std::mem::take(&mut self.store.events);
            for event in &events {
                self.collect_garbage(event);
                if let Some(cluster) = &self.cluster {
                    feed(cluster, event);
                }
            }
            let Some(cluster) = &self.cluster else { return };
            for (key, pace) in cluster.take_asks() {
                let known = self.waiting.entry(key).or_insert(pace);
                *known = (*known).min(pace);
            }
            let due: BTreeSet<Key> = self
                .waiting
                .iter()
                .filter(|(_, pace)| all || **pace == Urgency::Now)
                .map(|(key, _)| key.clone())
                .collect();
            if due.is_empty() && self.store.events.is_empty() {
                return;
            }
            for key in due {
                self.waiting.remove(&key);
                self.reconcile(&key);
            }
        }
        panic!("the controllers do not come to rest");
    }

    fn collect_garbage(&mut self, event: &Event) {
        if !self.collects || !event.gone {
            return;
        }
        let uid = &event.object["metadata"]["uid"];
        for slice in self.store.list("endpointslices", "default") {
            if slice["metadata"]["ownerReferences"][0]["uid"] == *uid {
                self.store.delete(
                    "endpointslices",
                    "default",
                    slice["metadata"]["name"].as_str().unwrap(),
                    "",
                );
            }
        }
    }

    fn reconcile(&mut self, key: &Key) {
        let (namespace, name, now) = (&key.namespace, &key.name, tokio::time::Instant::now());
        match key.controller {
            Controller::Slices => {
                let state = Arc::clone(&self.cluster().slices);
                let step = self.with(|index, out| state.lock().step(index, namespace, name, now, out));
                if let Step::Send(job) = step {
                    let answers = self.send(&job);
                    let (end, released) = self.with(|index, _| state.lock().finish(index, job, answers));
                    assert!(self.withheld.is_some() || end.failure.is_none(), "{:?}", end.failure);
                    self.cluster().feed.slices(released);
                }
            }
            Controller::Mirrors => {
                let state = Arc::clone(&self.cluster().mirrors);
                let mut step = self.with(|index, out| state.lock().step(index, namespace, name, out));
                if let MirrorStep::ReadEndpoints = step
                    && let Some(found) = self.store.get("endpoints", namespace, name).cloned()
                {
                    let found = serde_json::from_value(found).unwrap();
                    self.cluster().index.lock().addresses_found(namespace, name, found);
                    step = self.with(|index, out| state.lock().step(index, namespace, name, out));
                }
                if let MirrorStep::Slices(Step::Send(job)) = step {
                    let answers = self.send(&job);
                    let (end, released) = self.with(|index, _| state.lock().finish(index, job, answers));
                    assert!(self.withheld.is_some() || end.failure.is_none(), "{:?}", end.failure);
                    self.cluster().feed.slices(released);
                }
            }
            Controller::Endpoints => {
                let state = Arc::clone(&self.cluster().endpoints);
                let step = self.with(|index, _| state.lock().step(index, namespace, name));
                if let Step::Send(job) = step {
                    let answer = self.write(&job.write);
                    let (_, released) = self.with(|index, out| state.lock().finish(index, job, answer, out));
                    Delivery::endpoints(&self.cluster().feed, released);
                }
            }
            _ => {}
        }
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    fn with<T>(&self, change: impl FnOnce(&mut Index, &mut Outbox) -> T) -> T {
        let mut out = Outbox::default();
        let outcome = change(&mut self.cluster().index.lock(), &mut out);
        self.cluster().feed.pass_on(out);
        outcome
    }

    fn send(&mut self, job: &SliceJob) -> Vec<Answer<Reply>> {
        let writes: Vec<Write> = job.writes.iter().map(|w| request(&job.key.namespace, w).unwrap()).collect();
        let answers = writes.iter().map(|w| self.write(w)).collect();
        // The watch may be faster than the answers.
        for event in self.store.events.clone() {
            feed(self.cluster(), &event);
        }
        answers
    }

    fn write(&mut self, write: &Write) -> Answer<Reply> {
        let path = write.resource.path(write.namespace.as_deref());
        let (plural, namespace, ..) = split(&path);
        let name = write.name.as_deref().unwrap_or_default();
        let body: Value = serde_json::from_slice(&write.body).unwrap();
        if let Some(withheld) = &mut self.withheld {
            let path = if name.is_empty() { path } else { format!("{path}/{name}") };
            withheld.push(Withheld { verb: write.verb, path, body });
            return Err(RequestError::Busy { message: "shadow mode".to_owned(), after: None });
        }
        let (verb, (code, object)) = match write.verb {
            Verb::Create => ("create", self.store.create(&plural, &namespace, &body)),
            Verb::Update => ("update", self.store.update(&plural, &namespace, name, body)),
            Verb::Delete => ("delete", (self.store.delete(&plural, &namespace, name, ""), json!({}))),
            Verb::Merge => panic!("no such write here"),
        };
        match code {
            200 | 201 => {
                *self.writes.entry((plural, verb)).or_default() += 1;
                Ok(serde_json::from_value(object).unwrap())
            }
            404 => Err(RequestError::NotFound(path)),
            _ => Err(RequestError::Conflict(path)),
        }
    }

    fn settle(&mut self, step: &Value) -> Result<(), String> {
        let quiet = step["quiet"].as_f64().unwrap_or(2.5);
        self.run(!self.batch || quiet > 4.0);
        let writes = std::mem::take(&mut self.writes);
        for expected in step["expectObjects"].as_array().into_iter().flatten() {
            let (plural, namespace, ..) = split(expected["path"].as_str().unwrap());
            let (kind, version) = match plural.as_str() {
                "endpointslices" => ("EndpointSlice", "discovery.k8s.io/v1"),
                _ => ("Endpoints", "v1"),
            };
            let found: Vec<Value> =
                self.store.list(&plural, &namespace).iter().map(|o| normalise(o, kind, version)).collect();
            match (expected["items"].as_array(), expected["groups"].as_array()) {
                (Some(items), _) => matches_items(items, &found, &mut self.bound)?,
                (_, Some(groups)) => matches_groups(groups, &found, &mut self.bound)?,
                _ => {}
            }
        }
        if step["expectObjects"].is_array() {
            for ((plural, verb), n) in writes {
                let allowed = step["writes"][&plural][verb].as_u64().unwrap_or(0);
                if n > allowed {
                    return Err(format!("{n} times {verb} {plural}, {allowed} allowed"));
                }
            }
        }
        Ok(())
    }
}

fn feed(cluster: &Cluster, event: &Event) {
    let (object, feed) = (event.object.clone(), &cluster.feed);
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    match (event.plural.as_str(), event.gone) {
        ("services", false) => feed.service(&serde_json::from_value(object).unwrap()),
        ("services", true) => feed.service_deleted(&namespace, &name),
        ("nodes", false) => feed.node(&serde_json::from_value(object).unwrap()),
        ("nodes", true) => feed.node_deleted(&name),
        ("pods", false) => feed.pod(&serde_json::from_value(object).unwrap()),
        ("pods", true) => feed.pod_deleted(&namespace, &name),
        ("endpointslices", false) => {
            feed.slice(SliceEvent::Seen(Box::new(serde_json::from_value(object).unwrap())));
        }
        ("endpointslices", true) => {
            let meta = serde_json::from_value(object["metadata"].clone()).unwrap();
            feed.slice(SliceEvent::Deleted(Box::new(meta)));
        }
        ("endpoints", false) => {
            feed.endpoints(EndpointsEvent::Seen(Box::new(serde_json::from_value(object).unwrap())));
        }
        ("endpoints", true) => {
            let meta = serde_json::from_value(object["metadata"].clone()).unwrap();
            feed.endpoints(EndpointsEvent::Deleted(Box::new(meta)));
        }
        _ => {}
    }
}
