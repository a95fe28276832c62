//! Whether objects are what a case expects: normalisation, placeholders, groups.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) type Bindings = BTreeMap<String, Value>;

/// The text with `${k}` replaced by what is bound.
pub(crate) fn fill_text(text: &str, bound: &Bindings) -> Value {
    if let Some(key) = text.strip_prefix("${").and_then(|t| t.strip_suffix('}'))
        && let Some(value) = bound.get(key)
    {
        return value.clone();
    }
    let mut out = text.to_owned();
    for (key, value) in bound {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out = out.replace(&format!("${{{key}}}"), &shown);
    }
    json!(out)
}

pub(crate) fn fill(value: &Value, bound: &Bindings) -> Value {
    match value {
        Value::String(text) => fill_text(text, bound),
        Value::Array(list) => list.iter().map(|v| fill(v, bound)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), fill(v, bound))).collect()),
        other => other.clone(),
    }
}

/// The object as the recorder wrote it down.
pub(crate) fn normalise(object: &Value, kind: &str, api_version: &str) -> Value {
    let mut object = object.clone();
    object["kind"] = json!(kind);
    object["apiVersion"] = json!(api_version);
    let meta = object["metadata"].as_object_mut().unwrap();
    meta.remove("managedFields");
    meta.remove("generation");
    if kind == "EndpointSlice" {
        let endpoints = object["endpoints"].as_array_mut().unwrap();
        endpoints.sort_by_key(|e| (e["addresses"][0].to_string(), e["targetRef"]["name"].to_string()));
        sort_ports(object["ports"].as_array_mut().unwrap());
    }
    for subset in object["subsets"].as_array_mut().into_iter().flatten() {
        for list in ["addresses", "notReadyAddresses"] {
            if let Some(list) = subset[list].as_array_mut() {
                list.sort_by_key(|a| (a["ip"].to_string(), a["targetRef"]["name"].to_string()));
            }
        }
        if let Some(ports) = subset["ports"].as_array_mut() {
            sort_ports(ports);
        }
        let subset = subset.as_object_mut().unwrap();
        subset.retain(|_, v| !v.is_null());
    }
    if let Some(subsets) = object["subsets"].as_array_mut() {
        subsets.sort_by_key(|s| s["ports"].to_string());
    }
    if let Some(map) = object.as_object_mut() {
        map.retain(|_, v| !v.is_null());
    }
    object
}

fn sort_ports(ports: &mut [Value]) {
    ports.sort_by_key(|p| (p["name"].to_string(), p["port"].to_string(), p["protocol"].to_string()));
}

/// Whether `found` is what is expected; binds what placeholders name.
pub(crate) fn matches(expected: &Value, found: &Value, bound: &mut Bindings) -> Result<(), String> {
    match (expected, found) {
        (Value::String(text), _) if text.starts_with('$') && !text.starts_with("${") => {
            placeholder(text, found, bound)
        }
        (Value::String(text), _) => {
            let wanted = fill_text(text, bound);
            if wanted == *found { Ok(()) } else { Err(format!("{wanted} expected, {found} found")) }
        }
        (Value::Object(wanted), Value::Object(found)) => {
            if let Some(key) =
                wanted.keys().chain(found.keys()).find(|k| wanted.contains_key(*k) != found.contains_key(*k))
            {
                return Err(format!("{key}: {:?} expected, {:?} found", wanted.get(key), found.get(key)));
            }
            for (key, value) in wanted {
                matches(value, &found[key], bound).map_err(|e| format!("{key}: {e}"))?;
            }
            Ok(())
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if wanted.len() != found.len() {
                return Err(format!("{} expected, {} found", wanted.len(), found.len()));
            }
            for (i, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                matches(wanted, found, bound).map_err(|e| format!("{i}: {e}"))?;
            }
            Ok(())
        }
        _ if expected == found => Ok(()),
        _ => Err(format!("{expected} expected, {found} found")),
    }
}

fn placeholder(text: &str, found: &Value, bound: &mut Bindings) -> Result<(), String> {
    let (kind, name) = text.split_once('#').map_or((text, None), |(kind, name)| (kind, Some(name)));
    let shown = found.as_str().unwrap_or_default();
    let fits = match kind {
        "$any" => !found.is_null(),
        "$uid" => shown.len() == 36,
        "$rv" => shown.parse::<u64>().is_ok(),
        "$time" => shown.ends_with('Z'),
        _ => {
            let prefix = kind.strip_prefix("$name:").unwrap_or_default();
            shown.starts_with(prefix)
        }
    };
    if !fits {
        return Err(format!("{text} expected, {found} found"));
    }
    if let Some(name) = name {
        match bound.get(name) {
            Some(known) if known != found => return Err(format!("{text}: {known} expected, {found} found")),
            Some(_) => {}
            None => {
                bound.insert(name.to_owned(), found.clone());
            }
        }
    }
    Ok(())
}

/// Matches a list in whatever order.
pub(crate) fn matches_items(expected: &[Value], found: &[Value], bound: &mut Bindings) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} objects expected, {} found: {}", expected.len(), found.len(), json!(found)));
    }
    let Some((first, rest)) = expected.split_first() else { return Ok(()) };
    let mut why = String::new();
    for (i, candidate) in found.iter().enumerate() {
        let mut trial = bound.clone();
        let mut others = found.to_vec();
        others.remove(i);
        let matched =
            matches(first, candidate, &mut trial).and_then(|()| matches_items(rest, &others, &mut trial));
        match matched {
            Ok(()) => {
                *bound = trial;
                return Ok(());
            }
            Err(e) => why = e,
        }
    }
    Err(why)
}

/// Matches slices in groups, where it is arbitrary which endpoint is in which slice.
pub(crate) fn matches_groups(
    expected: &[Value],
    found: &[Value],
    bound: &mut Bindings,
) -> Result<(), String> {
    let mut groups: Vec<(Value, Vec<Vec<Value>>)> = Vec::new();
    for slice in found {
        let mut common = slice.clone();
        let endpoints = common["endpoints"].as_array().cloned().unwrap_or_default();
        common.as_object_mut().unwrap().remove("endpoints");
        let meta = common["metadata"].as_object_mut().unwrap();
        for key in ["name", "uid", "resourceVersion", "creationTimestamp"] {
            meta.remove(key);
        }
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
            if annotations.is_empty() {
                meta.remove("annotations");
            }
        }
        match groups.iter_mut().find(|(c, _)| *c == common) {
            Some((_, slices)) => slices.push(endpoints),
            None => groups.push((common, vec![endpoints])),
        }
    }
    let rendered: Vec<Value> =
        groups.into_iter().map(|(common, slices)| json!({"object": common, "slices": slices})).collect();
    if rendered.len() != expected.len() {
        return Err(format!("{} groups expected, {} found", expected.len(), rendered.len()));
    }
    for group in expected {
        let mut why = String::from("no group");
        let hit = rendered.iter().any(|candidate| {
            let mut trial = bound.clone();
            match matches_group(group, candidate, &mut trial) {
                Ok(()) => {
                    *bound = trial;
                    true
                }
                Err(e) => {
                    why = e;
                    false
                }
            }
        });
        if !hit {
            return Err(why);
        }
    }
    Ok(())
}

fn matches_group(expected: &Value, found: &Value, bound: &mut Bindings) -> Result<(), String> {
    matches(&expected["object"], &found["object"], bound).map_err(|e| format!("object: {e}"))?;
    let slices = found["slices"].as_array().unwrap();
    let mut counts: Vec<usize> = slices.iter().map(|s| s.as_array().unwrap().len()).collect();
    counts.sort_by_key(|c| std::cmp::Reverse(*c));
    if let Some(wanted) = expected.get("counts")
        && *wanted != json!(counts)
    {
        return Err(format!("counts {wanted} expected, {counts:?} found"));
    }
    if let Some(range) = expected.get("slices").and_then(Value::as_array) {
        let n = slices.len() as u64;
        if n < range[0].as_u64().unwrap() || n > range[1].as_u64().unwrap() {
            return Err(format!("{range:?} slices expected, {n} found"));
        }
    }
    if counts.iter().any(|c| *c as u64 > expected["maxPerSlice"].as_u64().unwrap_or(u64::MAX)) {
        return Err(format!("a slice is too large: {counts:?}"));
    }
    let mut endpoints: Vec<Value> = slices.iter().flat_map(|s| s.as_array().unwrap().clone()).collect();
    endpoints.sort_by_key(|e| (e["addresses"][0].to_string(), e["targetRef"]["name"].to_string()));
    if let Some(wanted) = expected.get("hints") {
        let mut hints: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for endpoint in &mut endpoints {
            let from = endpoint["zone"].as_str().unwrap_or_default().to_owned();
            let to = endpoint["hints"]["forZones"][0]["name"].as_str().unwrap_or_default().to_owned();
            *hints.entry(from).or_default().entry(to).or_default() += 1;
            endpoint.as_object_mut().unwrap().remove("hints");
        }
        if *wanted != json!(hints) {
            return Err(format!("hints {wanted} expected, {hints:?} found"));
        }
    }
    let strip = |list: &[Value]| -> Vec<Value> {
        list.iter()
            .map(|e| {
                let mut map: Map<String, Value> = e.as_object().unwrap().clone();
                map.retain(|_, v| !v.is_null());
                Value::Object(map)
            })
            .collect()
    };
    matches(&expected["endpoints"], &json!(strip(&endpoints)), bound).map_err(|e| format!("endpoints: {e}"))
}
