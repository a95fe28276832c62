//! Brings answers into the form in which cases record them. Compares nothing.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Drops `metadata.managedFields` everywhere in an answer.
pub fn answer(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(answer),
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            map.values_mut().for_each(answer);
        }
        _ => {}
    }
}

/// The objects of a list, in the form of `expectObjects`: with kind and version, without what is left out, sorted inside.
pub fn listed(list: &Value) -> Option<Vec<Value>> {
    let kind = list.get("kind")?.as_str()?.strip_suffix("List")?;
    let version = list.get("apiVersion")?;
    let items = match list.get("items")? {
        Value::Null => &[],
        items => items.as_array()?.as_slice(),
    };
    Some(items.iter().filter_map(|item| listed_object(item, kind, version)).collect())
}

fn listed_object(item: &Value, kind: &str, version: &Value) -> Option<Value> {
    let mut item = item.clone();
    answer(&mut item);
    let map = item.as_object_mut()?;
    map.insert("kind".to_owned(), Value::from(kind));
    map.insert("apiVersion".to_owned(), version.clone());
    let name = map.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    if name == Some("kubernetes") && matches!(kind, "Service" | "Endpoints" | "EndpointSlice") {
        return None;
    }
    object(&mut item);
    Some(item)
}

/// Brings one object, listed or expected, into comparable form.
pub fn object(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.remove("generation");
    }
    match map.get("kind").and_then(Value::as_str) {
        Some("EndpointSlice") => slice(map),
        Some("Endpoints") => subsets(map),
        Some("Service") => {
            if let Some(Value::Array(ports)) = map.get_mut("spec").and_then(|spec| spec.get_mut("ports")) {
                ports.sort_by(|a, b| compare_by(a, b, PORT_ORDER));
            }
        }
        _ => {}
    }
}

const PORT_ORDER: &[&str] = &["/name", "/port", "/protocol"];
const ENDPOINT_ORDER: &[&str] =
    &["/addresses", "/targetRef/name", "/hostname", "/nodeName", "/zone", "/conditions"];
const ADDRESS_ORDER: &[&str] = &["/ip", "/targetRef/name", "/hostname", "/nodeName"];

fn slice(map: &mut Map<String, Value>) {
    for (field, order) in [("ports", PORT_ORDER), ("endpoints", ENDPOINT_ORDER)] {
        let value = map.entry(field).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Array(Vec::new());
        }
        if let Value::Array(list) = value {
            list.sort_by(|a, b| compare_by(a, b, order));
        }
    }
}

fn subsets(map: &mut Map<String, Value>) {
    let Some(Value::Array(subsets)) = map.get_mut("subsets") else { return };
    for subset in subsets.iter_mut() {
        for (field, order) in
            [("ports", PORT_ORDER), ("addresses", ADDRESS_ORDER), ("notReadyAddresses", ADDRESS_ORDER)]
        {
            if let Some(Value::Array(list)) = subset.get_mut(field) {
                list.sort_by(|a, b| compare_by(a, b, order));
            }
        }
    }
    subsets.sort_by(|a, b| compare_by(a, b, &["/ports"]));
}

/// Sorts endpoints by address and pod name.
pub fn sort_endpoints(endpoints: &mut [Value]) {
    endpoints.sort_by(|a, b| compare_by(a, b, ENDPOINT_ORDER));
}

fn compare_by(a: &Value, b: &Value, pointers: &[&str]) -> Ordering {
    let null = Value::Null;
    pointers
        .iter()
        .map(|pointer| compare(a.pointer(pointer).unwrap_or(&null), b.pointer(pointer).unwrap_or(&null)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// A total order of JSON values; numbers by value, all else of one kind by text or parts.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default())
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a
            .iter()
            .zip(b)
            .map(|(a, b)| compare(a, b))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.len().cmp(&b.len())),
        (a, b) => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_go_at_every_depth() {
        let mut value = json!({"metadata": {"name": "a", "managedFields": []},
            "items": [{"metadata": {"managedFields": [1]}}], "spec": {"managedFields": 1}});
        answer(&mut value);
        assert_eq!(
            value,
            json!({"metadata": {"name": "a"}, "items": [{"metadata": {}}], "spec": {"managedFields": 1}})
        );
    }

    #[test]
    fn a_list_becomes_sorted_objects_without_kubernetes() {
        let list = json!({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {}, "items": [
            {"metadata": {"name": "kubernetes"}, "endpoints": [], "ports": []},
            {"metadata": {"name": "web-1", "generation": 3}, "endpoints": null, "ports": [
                {"name": "b", "port": 1}, {"name": "a", "port": 20}, {"name": "a", "port": 3}]}]});
        assert_eq!(
            listed(&list).unwrap(),
            [
                json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "web-1"},
                "endpoints": [], "ports": [{"name": "a", "port": 3}, {"name": "a", "port": 20}, {"name": "b", "port": 1}]})
            ]
        );
        assert_eq!(listed(&json!({"kind": "Status"})), None);
    }

    #[test]
    fn subsets_are_sorted_by_ports_and_their_addresses_by_ip() {
        let mut value = json!({"kind": "Endpoints", "subsets": [
            {"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": [{"name": "b", "port": 1}]},
            {"notReadyAddresses": [{"ip": "10.0.0.4"}, {"ip": "10.0.0.3"}], "ports": [{"name": "a", "port": 1}]}]});
        object(&mut value);
        assert_eq!(value["subsets"][0]["notReadyAddresses"][0]["ip"], "10.0.0.3");
        assert_eq!(value["subsets"][1]["addresses"][0]["ip"], "10.0.0.1");
    }
}
