//! Controllers beside upstream's: what these left behind is what was recorded, ours plan on it and their writes are withheld.
//!
//! Owns the writing of recorded objects into the store, in upstream's place. What the differences are called is the
//! crate's to say.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service_controllers::api::Verb;
use service_controllers::controller::Controller;
use service_controllers::differences::{Around, Difference, Named, name};

use crate::common::Limits;
use crate::matcher::{Bindings, fill_text};
use crate::replay::Replay;
use crate::store::{Store, split};

/// What would be written beside upstream's controllers.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) step: usize,
    pub(crate) write: String,
    pub(crate) named: Named,
}

/// A write that was withheld.
#[derive(Debug)]
pub(crate) struct Withheld {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// How many states were looked at, and what was found.
pub(crate) fn beside(case: &Value, limits: Limits) -> Result<(usize, Vec<Found>), String> {
    let mut replay = Replay::of(case, limits);
    let (mut looked, mut found) = (0, Vec::new());
    let mut works =
        case["steps"].as_array().unwrap().iter().find_map(|s| s["controllers"].as_str()) != Some("start");
    for (i, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        if let Some(word) = step["controllers"].as_str() {
            works = word == "start";
            continue;
        }
        if step["settle"] != true {
            replay.step(step).map_err(|why| format!("step {i}: {why}"))?;
            sign(&mut replay, step);
            continue;
        }
        let mut lists = step["expectObjects"].as_array().cloned().unwrap_or_default();
        // What is owned comes after what owns it.
        lists.sort_by_key(|list| list["path"].as_str().unwrap().ends_with("endpointslices"));
        if lists.iter().any(|list| list["groups"].is_array()) {
            // Which endpoint was in which slice is not recorded.
            return Ok((looked, found));
        }
        for list in &lists {
            as_recorded(&mut replay, list);
        }
        if !works || lists.is_empty() || !covers(&replay, &lists) {
            continue;
        }
        looked += 1;
        for write in replay.withheld() {
            let named = named(&replay, &write);
            found.push(Found { step: i, write: format!("{write:?}"), named });
        }
    }
    Ok((looked, found))
}

/// Whether the lists say what each of the controllers keeps.
fn covers(replay: &Replay, lists: &[Value]) -> bool {
    let listed = |plural: &str| lists.iter().any(|list| split(list["path"].as_str().unwrap()).0 == plural);
    replay.limits.enabled.iter().all(|controller| match controller {
        Controller::Endpoints => listed("endpoints"),
        _ => listed("endpointslices"),
    })
}

/// The server notes who edits `Endpoints`.
fn sign(replay: &mut Replay, step: &Value) {
    let (plural, namespace, name, ..) = split(step["path"].as_str().unwrap());
    let edits = plural == "endpoints" && step["method"] != "GET" && !step["body"]["subsets"].is_null();
    if let Some(mut object) = replay.store.get(&plural, &namespace, &name).cloned().filter(|_| edits) {
        object["metadata"]["managedFields"] =
            json!([{"manager": "conformance", "fieldsV1": {"f:subsets": {}}}]);
        let all = replay.store.list(&plural, &namespace).into_iter();
        let named = |object: Value| (object["metadata"]["name"].as_str().unwrap().to_owned(), object);
        let mut all: BTreeMap<String, Value> = all.map(named).collect();
        all.remove("kubernetes");
        all.insert(name, object);
        replay.store.set_all(&plural, &namespace, all);
    }
}

/// Puts what was recorded in the place of what is there.
fn as_recorded(replay: &mut Replay, list: &Value) {
    let (plural, namespace, ..) = split(list["path"].as_str().unwrap());
    let mut made = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let mut item = item.clone();
        identify(&mut item, &replay.store);
        let mut object = instance(&item, &mut replay.bound, &mut replay.made);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let known = replay.store.get(&plural, &namespace, &name);
        for field in ["uid", "creationTimestamp", "managedFields"] {
            if let Some(known) = known.filter(|known| !known["metadata"][field].is_null()) {
                object["metadata"][field] = known["metadata"][field].clone();
            }
        }
        made.insert(name, object);
    }
    replay.store.set_all(&plural, &namespace, made);
}

/// Puts the uid of what is referred to where the record only says that there is one.
fn identify(value: &mut Value, store: &Store) {
    if let (Some("$uid"), Some(kind), Some(name)) =
        (value["uid"].as_str(), value["kind"].as_str(), value["name"].as_str())
        && let Some(uid) = uid_of(store, kind, name)
    {
        value["uid"] = uid;
    }
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| identify(value, store)),
        Value::Object(map) => map.values_mut().for_each(|value| identify(value, store)),
        _ => {}
    }
}

/// The uid of an object of the default namespace, or the one that a user's `Endpoints` says of it.
fn uid_of(store: &Store, kind: &str, name: &str) -> Option<Value> {
    let plural =
        if kind == "Endpoints" { "endpoints".to_owned() } else { format!("{}s", kind.to_lowercase()) };
    if let Some(object) = store.get(&plural, "default", name) {
        return Some(object["metadata"]["uid"].clone());
    }
    let all = store.list("endpoints", "default");
    let subsets = all.iter().flat_map(|object| object["subsets"].as_array().into_iter().flatten());
    let lists = subsets.flat_map(|subset| [&subset["addresses"], &subset["notReadyAddresses"]]);
    let mut references =
        lists.flat_map(|l| l.as_array().into_iter().flatten()).map(|address| &address["targetRef"]);
    references.find(|reference| reference["name"] == name).map(|reference| reference["uid"].clone())
}

/// An object that the recorded one takes.
fn instance(expected: &Value, bound: &mut Bindings, made: &mut u32) -> Value {
    match expected {
        Value::String(text) if text.starts_with('$') && !text.starts_with("${") => {
            let (what, key) =
                text.rsplit_once('#').map_or((text.as_str(), None), |(what, key)| (what, Some(key)));
            if let Some(value) = key.and_then(|key| bound.get(key)) {
                return value.clone();
            }
            *made += 1;
            let value = match what.strip_prefix("$name:") {
                Some(prefix) => json!(format!("{prefix}r{made:04x}")),
                None if what == "$uid" => json!(format!("{made:08x}-0000-4000-8000-0000000000fe")),
                None if what == "$time" => json!("2030-01-01T00:00:00Z"),
                None => json!(made.to_string()),
            };
            if let Some(key) = key {
                bound.insert(key.to_owned(), value.clone());
            }
            value
        }
        Value::String(text) => fill_text(text, bound),
        Value::Array(list) => list.iter().map(|value| instance(value, bound, made)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), instance(value, bound, made))).collect()
        }
        other => other.clone(),
    }
}

/// The row of the page of differences that explains a write.
fn named(replay: &Replay, write: &Withheld) -> Named {
    let (plural, namespace, name_of, ..) = split(&write.path);
    let method = match write.verb {
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Delete => "DELETE",
        Verb::Merge => "PATCH",
    };
    let live = replay.store.get(&plural, &namespace, &name_of).cloned();
    let mut around = Around::new();
    loop {
        let difference = Difference { method, path: &write.path, body: &write.body, live: live.as_ref() };
        let Named::Read(path) = name(&difference, &around) else { return name(&difference, &around) };
        let (plural, namespace, name, ..) = split(&path);
        let found = match path.split_once("labelSelector=") {
            Some((_, selector)) => {
                let pairs: Vec<(&str, &str)> =
                    selector.split("%2C").filter_map(|pair| pair.split_once("%3D")).collect();
                let mut items = replay.store.list(&plural, &namespace);
                items.retain(|item| {
                    pairs.iter().all(|(key, value)| item["metadata"]["labels"][key] == *value)
                });
                Some(json!({"items": items}))
            }
            None => replay.store.get(&plural, &namespace, &name).cloned(),
        };
        around.insert(path, found);
    }
}
