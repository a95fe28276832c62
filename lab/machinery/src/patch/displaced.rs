//! Ports of a Service that give way to those that are applied under their names.
//!
//! Server-side apply tells ports apart by number and protocol. Applied with another number a port would stand beside
//! the one that somebody else set under its name, and no Service may have two ports of one name.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::schema::KindSchema;

/// Takes the live ports that the patch displaces out of `object`; what is returned holds nothing but them.
pub(super) fn take(kind: &KindSchema, live: &Value, patch: &Value, object: &mut Value) -> Value {
    let Some(applied) = patch["spec"]["ports"].as_array().filter(|_| kind.kind == "Service") else {
        return Value::Null;
    };
    let ours = live["spec"]["ports"].as_array().into_iter().flatten();
    let names: HashSet<&str> = applied.iter().map(name).collect();
    let keys: HashSet<Key> = applied.iter().map(key).collect();
    let displaced: Vec<&Value> =
        ours.filter(|port| names.contains(name(port)) && !keys.contains(&key(port))).collect();
    if displaced.is_empty() {
        return Value::Null;
    }
    if let Some(ports) = object["spec"]["ports"].as_array_mut() {
        let gone: HashSet<Key> = displaced.iter().map(|port| key(port)).collect();
        ports.retain(|port| !gone.contains(&key(port)));
    }
    json!({"spec": {"ports": displaced}})
}

/// Those of the displaced ports, with all their fields, that another object has too.
pub(super) fn of_those_in(displaced: &Value, other: &Value) -> Value {
    let ports = |object: &Value| object["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let others = ports(other);
    let known: HashSet<Key> = others.iter().map(key).collect();
    let common: Vec<Value> = ports(displaced).into_iter().filter(|port| known.contains(&key(port))).collect();
    json!({"spec": {"ports": common}})
}

fn name(port: &Value) -> &str {
    port["name"].as_str().unwrap_or_default()
}

/// What tells a port from another: number and protocol.
type Key = (String, String);

fn key(port: &Value) -> Key {
    (port["port"].to_string(), port["protocol"].as_str().unwrap_or("TCP").to_owned())
}
