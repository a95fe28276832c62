//! Replays recorded updates (PUT, merge patch, status) of single objects: each starts from the
//! object upstream had answered with, and has to be refused, or to be accepted and come out, as
//! there.
//!
//! Addresses and ports are not chosen here, so updates that need new ones are left out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use service_api::errors::FieldErrors;
use service_api::ipaddress::Address;
use service_api::{endpoints, endpointslice, ipaddress, object, service, servicecidr, status};

use crate::cases;

/// Stands in for what the server had generated: placeholders become fixed values.
#[derive(Default)]
struct Stand {
    bound: BTreeMap<String, Value>,
    count: u32,
}

impl Stand {
    fn value(&mut self, placeholder: &str) -> Value {
        let (kind, name) = placeholder.split_once('#').unwrap_or((placeholder, ""));
        if let Some(value) = self.bound.get(name) {
            return value.clone();
        }
        self.count += 1;
        let n = self.count;
        let value = if kind.starts_with("$ip:fd") {
            json!(format!("fd00:10:96::{n:x}"))
        } else if kind.starts_with("$ip:") {
            json!(format!("10.96.7.{n}"))
        } else if kind.starts_with("$port") {
            json!(31_000 + n)
        } else if kind.starts_with("$time") {
            json!("2024-01-01T00:00:00Z")
        } else {
            json!(format!("v{n}"))
        };
        if !name.is_empty() {
            self.bound.insert(name.to_owned(), value.clone());
        }
        value
    }

    /// Replaces placeholders in an answer.
    fn fill(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.starts_with('$') && !text.starts_with("${") => self.value(text),
            Value::String(text) => self.text(text),
            Value::Array(list) => list.iter().map(|v| self.fill(v)).collect(),
            Value::Object(map) => {
                map.iter().map(|(k, v)| (k.clone(), self.fill(v))).collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> Value {
        let mut out = text.to_owned();
        for (name, value) in &self.bound {
            let mark = format!("${{{name}}}");
            if out == mark {
                return value.clone();
            }
            let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            out = out.replace(&mark, &plain);
        }
        Value::String(out)
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The typed object, as the server decodes it.
fn typed<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"))
}

/// What an update comes to: the errors, or the object as it is answered.
type Outcome = Result<(Value, Vec<String>), FieldErrors>;

fn outcome<T: Serialize>(kind: &str, new: &T, errors: FieldErrors, warnings: Vec<String>) -> Outcome {
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut value = serde_json::to_value(new).unwrap();
    object::complete(kind, &mut value);
    Ok((value, warnings))
}

/// Families and policy that the planner would fill in on an update that leaves them out.
fn pretend_planning(new: &mut Service, old: &Service) {
    let old = service::spec_of(old).clone();
    let spec = new.spec.as_mut().unwrap();
    if !service::needs_cluster_ip(spec) {
        return;
    }
    if spec.ip_family_policy.is_none() {
        spec.ip_family_policy = old.ip_family_policy.or(Some("SingleStack".to_owned()));
    }
    if service::families(spec).is_empty() {
        let family = |ip: &String| if ip.contains(':') { "IPv6" } else { "IPv4" }.to_owned();
        spec.ip_families = if service::is_headless(spec) {
            old.ip_families
        } else {
            Some(service::cluster_ips(spec).iter().map(family).collect())
        };
    }
}

fn update_service(new: &Value, old: &Value, sub: bool) -> Outcome {
    let (mut new, old): (Service, Service) = (typed(new), typed(old));
    service::default(&mut new);
    if sub {
        service::prepare_status_update(&mut new, &old);
        return outcome(
            "Service",
            &new,
            service::validate_status_update(&new, &old),
            service::warnings(&new, Some(&old)),
        );
    }
    service::prepare_update(&mut new, &old);
    pretend_planning(&mut new, &old);
    let mut errors = service::validate_cluster_ips(&new);
    if errors.is_empty() {
        errors = service::validate_update(&new, &old);
    }
    let warnings = service::warnings(&new, Some(&old));
    outcome("Service", &new, errors, warnings)
}

fn update(kind: &str, new: &Value, old: &Value, sub: bool) -> Option<Outcome> {
    Some(match kind {
        "Service" => update_service(new, old, sub),
        "EndpointSlice" => {
            let (mut new, old): (EndpointSlice, EndpointSlice) = (typed(new), typed(old));
            endpointslice::default(&mut new);
            endpointslice::prepare_update(&mut new, &old);
            let warnings = endpointslice::warnings(&new, Some(&old));
            outcome(kind, &new, endpointslice::validate_update(&new, &old), warnings)
        }
        "Endpoints" => {
            let (mut new, old): (Endpoints, Endpoints) = (typed(new), typed(old));
            endpoints::default(&mut new);
            endpoints::prepare_update(&mut new, &old);
            let mut warnings = vec![endpoints::DEPRECATED.to_owned()];
            warnings.extend(endpoints::warnings(&new, Some(&old)));
            outcome(kind, &new, endpoints::validate_update(&new, &old), warnings)
        }
        "ServiceCIDR" => {
            let (mut new, old): (ServiceCIDR, ServiceCIDR) = (typed(new), typed(old));
            servicecidr::default(&mut new);
            if sub {
                servicecidr::prepare_status_update(&mut new, &old);
                return Some(outcome(
                    kind,
                    &new,
                    servicecidr::validate_status_update(&new, &old),
                    Vec::new(),
                ));
            }
            servicecidr::prepare_update(&mut new, &old);
            outcome(kind, &new, servicecidr::validate_update(&new, &old), Vec::new())
        }
        "IPAddress" => {
            let mut new = new.clone();
            let spec = new.as_object_mut().unwrap().entry("spec").or_insert(json!({}));
            if spec.is_null() {
                *spec = json!({});
            }
            let (mut new, old): (Address, Address) = (typed(&new), typed(old));
            ipaddress::default(&mut new);
            ipaddress::prepare_update(&mut new, &old);
            outcome(kind, &new, ipaddress::validate_update(&new, &old), Vec::new())
        }
        _ => return None,
    })
}

fn decided_elsewhere(message: &str) -> bool {
    [
        "failed to allocate",
        "provided port is",
        "configured",
        "must be 'RequireDualStack' or 'PreferDualStack'",
        "must be 'SingleStack' to release",
    ]
    .iter()
    .any(|m| message.contains(m))
}

fn strip(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
        if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("resourceVersion");
        }
    }
    value
}

/// Whether the answer shows that addresses, ports or families were chosen or given up.
fn planned(old: &Value, theirs: &Value) -> bool {
    let allocated = |v: &Value| {
        let ports: Vec<Value> = v["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|p| p["nodePort"].clone())
            .filter(|p| !p.is_null())
            .collect();
        let spec = &v["spec"];
        (
            spec["clusterIPs"].as_array().map_or(0, Vec::len),
            spec["ipFamilies"].as_array().map_or(0, Vec::len),
            ports,
            spec["healthCheckNodePort"].clone(),
        )
    };
    allocated(old) != allocated(theirs)
}

/// Cases in which upstream gives a port a new node port though it had one (report P14).
const KEEPS_MORE: [&str; 2] = ["nodeport-put-renamed-port", "nodeport-put-two-unnamed-ports"];

/// Whether all that is carried over is also in the answer; what is missing the planner adds.
fn agrees(ours: &Value, theirs: &Value) -> bool {
    let (ours, theirs) = (&ours["spec"], &theirs["spec"]);
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let mut pairs: Vec<(Value, Value)> =
        vec![(ours["healthCheckNodePort"].clone(), theirs["healthCheckNodePort"].clone())];
    for field in ["clusterIPs", "ipFamilies"] {
        pairs.extend(list(&ours[field]).into_iter().zip(list(&theirs[field])));
    }
    for (a, b) in list(&ours["ports"]).iter().zip(list(&theirs["ports"])) {
        pairs.push((a["nodePort"].clone(), b["nodePort"].clone()));
    }
    pairs.iter().all(|(a, b)| a.is_null() || a == b)
}

struct Replay {
    judged: usize,
    faults: Vec<String>,
}

impl Replay {
    fn case(&mut self, case: &Value) {
        let mut stand = Stand::default();
        let mut objects: BTreeMap<String, Value> = BTreeMap::new();
        for (i, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let path = step["path"].as_str().unwrap_or_default().split('?').next().unwrap();
            let (path, sub) = path.strip_suffix("/status").map_or((path, false), |p| (p, true));
            let request = stand.fill(&step["body"]);
            let answer = stand.fill(&step["expect"]["body"]);
            let at = format!("{} step {i}", case["name"].as_str().unwrap());
            let skip = step["path"].as_str().unwrap_or_default().contains('?');
            if let (Some(old), false) = (objects.get(path), skip) {
                let content = step["contentType"].as_str().unwrap_or("application/json");
                let new = match (step["method"].as_str().unwrap_or_default(), content) {
                    ("PUT", "application/json") => Some(request.clone()),
                    ("PATCH", "application/merge-patch+json") => {
                        let mut new = old.clone();
                        merge(&mut new, &request);
                        Some(new)
                    }
                    _ => None,
                };
                if let Some(new) = new {
                    self.judge(&at, &new, &old.clone(), &answer, sub, &step["expect"]);
                }
            }
            if answer["metadata"]["name"].is_string() {
                let name = answer["metadata"]["name"].as_str().unwrap();
                let key = if step["method"] == "POST" { format!("{path}/{name}") } else { path.to_owned() };
                objects.insert(key, answer);
            }
        }
    }

    fn judge(&mut self, at: &str, new: &Value, old: &Value, answer: &Value, sub: bool, expect: &Value) {
        let code = expect["code"].as_i64().unwrap();
        let message = answer["message"].as_str().unwrap_or_default();
        let kind = old["kind"].as_str().unwrap_or_default();
        if !(code == 200 || code == 422) || decided_elsewhere(message) || kind.is_empty() {
            return;
        }
        let mut new = new.clone();
        let namespace = old["metadata"]["namespace"].clone();
        if !namespace.is_null() && new["metadata"]["namespace"].is_null() {
            new["metadata"]["namespace"] = namespace;
        }
        let Some(outcome) = update(kind, &new, old, sub) else { return };
        let group = old["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(g, _)| g);
        let name = old["metadata"]["name"].as_str().unwrap();
        let refused = outcome.is_err();
        let (ours, theirs) = match outcome {
            Err(errors) => {
                (serde_json::to_value(status::invalid(group, kind, name, errors)).unwrap(), answer.clone())
            }
            Ok((value, _)) if code == 200 && planned(old, answer) => {
                if !agrees(&value, answer) && !KEEPS_MORE.iter().any(|c| at.starts_with(c)) {
                    self.faults.push(format!("{at}\n  ours   {value}\n  theirs {answer}"));
                }
                return;
            }
            Ok((value, warnings)) => {
                let theirs: Vec<&str> =
                    expect["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                if code == 200 && warnings != theirs {
                    self.faults.push(format!("{at}\n  ours   {warnings:?}\n  theirs {theirs:?}"));
                }
                (strip(&value), strip(answer))
            }
        };
        if refused && code == 200 && planned(old, answer) {
            return;
        }
        self.judged += 1;
        if ours != theirs {
            self.faults.push(format!("{at}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
}

#[test]
fn updates_are_judged_as_upstream_judged_them() {
    let mut replay = Replay { judged: 0, faults: Vec::new() };
    for (_, case) in cases() {
        replay.case(&case);
    }
    let faults = &replay.faults;
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), replay.judged, faults.join("\n"));
    assert!(replay.judged > 100, "only {} updates found", replay.judged);
}
