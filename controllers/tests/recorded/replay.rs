//! Plays a case: requests into the store, events into the world, plans back into the store.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use service_controllers::api::{Answer, Refusal, Reply, Verb, Write};
use service_controllers::endpointslice::apply;
use service_controllers::endpointslice::state::Step;
use service_controllers::mirroring::state::MirrorStep;
use service_controllers::watch::relist::Kind;
use service_controllers::watch::world::{Controller, Key, Limits, Pace, World};

use crate::matcher::{Bindings, fill, matches_groups, matches_items, normalise};
use crate::store::{Event, Store, split};

struct Replay {
    store: Store,
    world: Option<World>,
    limits: Limits,
    batch: bool,
    collects: bool,
    waiting: BTreeMap<Key, Pace>,
    writes: BTreeMap<(String, &'static str), u64>,
    bound: Bindings,
}

pub(crate) fn replay(case: &Value) -> Result<(), String> {
    let names: Vec<&str> =
        case["controllers"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    let args = &case["controllerArgs"];
    let number =
        |key: &str, default: usize| args[key].as_u64().map_or(default, |n| usize::try_from(n).unwrap());
    let mut replay = Replay {
        store: Store::default(),
        world: None,
        limits: Limits {
            max_per_slice: number("max-endpoints-per-slice", 100),
            max_mirrored: number("mirroring-max-endpoints-per-subset", 1000),
            enabled: Controller::ALL.into_iter().filter(|c| names.contains(&c.name())).collect(),
        },
        batch: args["endpointslice-updates-batch-period"].is_string(),
        collects: names.contains(&"garbage-collector-controller"),
        waiting: BTreeMap::new(),
        writes: BTreeMap::new(),
        bound: Bindings::new(),
    };
    replay.store.cidrs =
        case["server"]["serviceCidrs"].as_array().unwrap().iter().map(ToString::to_string).collect();
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
    fn start(&mut self) {
        let mut world = World::new(self.limits.clone());
        self.store.events.clear();
        for (kind, plural) in [
            (Kind::Services, "services"),
            (Kind::Nodes, "nodes"),
            (Kind::Slices, "endpointslices"),
            (Kind::Endpoints, "endpoints"),
            (Kind::Pods, "pods"),
        ] {
            world.list_begins(kind);
            for object in self.store.list(plural, "") {
                feed(&mut world, &Event { plural: plural.to_owned(), gone: false, object });
            }
            world.list_ends(kind);
        }
        world.started();
        self.world = Some(world);
        self.run(true);
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(word) = step["controllers"].as_str() {
            match word {
                "start" => self.start(),
                _ => self.world = None,
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
                if let Some(world) = &mut self.world {
                    feed(world, event);
                }
            }
            let Some(world) = &mut self.world else { return };
            for (key, pace) in world.take_wakes() {
                let known = self.waiting.entry(key).or_insert(pace);
                *known = (*known).min(pace);
            }
            let due: BTreeSet<Key> = self
                .waiting
                .iter()
                .filter(|(_, pace)| all || **pace == Pace::Now)
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
        let world = self.world.as_mut().unwrap();
        let step = match key.controller {
            Controller::Slices => world.plan_slices(&key.namespace, &key.name),
            Controller::Mirrors => match world.plan_mirror(&key.namespace, &key.name) {
                MirrorStep::Slices(step) => step,
                MirrorStep::ReadEndpoints => {
                    let found = self.store.get("endpoints", &key.namespace, &key.name).cloned();
                    let found = found.map(|f| serde_json::from_value(f).unwrap());
                    world.addresses_read(&key.namespace, &key.name, found);
                    match world.plan_mirror(&key.namespace, &key.name) {
                        MirrorStep::Slices(step) => step,
                        MirrorStep::ReadEndpoints => panic!("the addresses were just read"),
                    }
                }
            },
            Controller::Endpoints => {
                if let Step::Send(job) = world.plan_endpoints(&key.namespace, &key.name) {
                    let answer = self.write(&job.write);
                    self.world.as_mut().unwrap().finish_endpoints(job, answer);
                }
                return;
            }
            Controller::Cidrs => return,
        };
        if let Step::Send(job) = step {
            let writes: Vec<Write> =
                job.changes.iter().map(|c| apply::request(&job.namespace, c).unwrap()).collect();
            let answers = writes.iter().map(|w| self.write(w)).collect();
            // The watch may be faster than the answers.
            for event in self.store.events.clone() {
                feed(self.world.as_mut().unwrap(), &event);
            }
            let end = self.world.as_mut().unwrap().finish_slices(job, answers);
            assert_eq!(end.failure, None);
        }
    }

    fn write(&mut self, write: &Write) -> Answer<Reply> {
        let path = write.resource.path(write.namespace.as_deref());
        let (plural, namespace, ..) = split(&path);
        let name = write.name.as_deref().unwrap_or_default();
        let body: Value = serde_json::from_slice(&write.body).unwrap();
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
            404 => Err(Refusal::NotFound(path)),
            _ => Err(Refusal::Conflict(path)),
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

fn feed(world: &mut World, event: &Event) {
    let object = event.object.clone();
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    match (event.plural.as_str(), event.gone) {
        ("services", false) => world.service(&serde_json::from_value(object).unwrap()),
        ("services", true) => world.service_deleted(&namespace, &name),
        ("nodes", false) => world.node(&serde_json::from_value(object).unwrap()),
        ("nodes", true) => world.node_deleted(&name),
        ("pods", false) => world.pod(&serde_json::from_value(object).unwrap()),
        ("pods", true) => world.pod_deleted(&serde_json::from_value(object["metadata"].clone()).unwrap()),
        ("endpointslices", false) => world.slice(serde_json::from_value(object).unwrap()),
        ("endpointslices", true) => {
            world.slice_deleted(&serde_json::from_value(object["metadata"].clone()).unwrap());
        }
        ("endpoints", false) => world.endpoints(serde_json::from_value(object).unwrap()),
        ("endpoints", true) => {
            world.endpoints_deleted(&serde_json::from_value(object["metadata"].clone()).unwrap());
        }
        _ => {}
    }
}
