//! Replays the recorded requests that create one object: what upstream refused must be refused
//! here in the same words, what it accepted must pass, with the same warnings.
//!
//! Only the rules of this crate run; answers that come from choosing addresses and ports, from
//! decoding or from the server itself are left to the tests of the whole system.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::Value;
use service_api::errors::FieldErrors;
use service_api::ipaddress::Address;
use service_api::{endpoints, endpointslice, ipaddress, service, servicecidr, status};

use crate::cases;

/// What this crate says about a create.
struct Verdict {
    group: &'static str,
    kind: &'static str,
    errors: FieldErrors,
    warnings: Vec<String>,
}

/// Addresses and ports that the planner would have chosen, as far as validation asks for them.
fn pretend_allocation(service: &mut Service) {
    let spec = service.spec.as_mut().unwrap();
    if service::needs_health_check(spec) {
        spec.health_check_node_port.get_or_insert(32_000);
    }
}

fn judge_service(object: Value) -> Verdict {
    let mut service: Service = serde_json::from_value(object).unwrap();
    service::default(&mut service);
    service::prepare_create(&mut service);
    let mut errors = service::validate_cluster_ips(&service);
    pretend_allocation(&mut service);
    if errors.is_empty() {
        errors = service::validate_create(&service);
    }
    Verdict { group: "", kind: "Service", errors, warnings: service::warnings(&service, None) }
}

fn judge_slice(object: Value) -> Verdict {
    let mut slice: EndpointSlice = serde_json::from_value(object).unwrap();
    endpointslice::default(&mut slice);
    endpointslice::prepare_create(&mut slice);
    Verdict {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        errors: endpointslice::validate_create(&slice),
        warnings: endpointslice::warnings(&slice, None),
    }
}

fn judge_endpoints(object: Value) -> Verdict {
    let mut object: Endpoints = serde_json::from_value(object).unwrap();
    endpoints::default(&mut object);
    endpoints::prepare_create(&mut object);
    let mut warnings = vec![endpoints::DEPRECATED.to_owned()];
    warnings.extend(endpoints::warnings(&object, None));
    Verdict { group: "", kind: "Endpoints", errors: endpoints::validate_create(&object), warnings }
}

fn judge_cidr(object: Value) -> Verdict {
    let mut cidr: ServiceCIDR = serde_json::from_value(object).unwrap();
    servicecidr::default(&mut cidr);
    servicecidr::prepare_create(&mut cidr);
    Verdict {
        group: "networking.k8s.io",
        kind: "ServiceCIDR",
        errors: servicecidr::validate_create(&cidr),
        warnings: servicecidr::warnings(&cidr, None),
    }
}

fn judge_address(object: Value) -> Verdict {
    let mut address: Address = serde_json::from_value(object).unwrap();
    ipaddress::default(&mut address);
    if address.metadata.name.is_none() {
        let base = address.metadata.generate_name.clone();
        address.metadata.name = base.map(|b| ipaddress::generated_name(&b));
    }
    ipaddress::prepare_create(&mut address);
    Verdict {
        group: "networking.k8s.io",
        kind: "IPAddress",
        errors: ipaddress::validate_create(&address),
        warnings: ipaddress::warnings(&address, None),
    }
}

/// Whether the recorded refusal stems from something this crate does not decide.
fn decided_elsewhere(expect: &Value) -> bool {
    let message = expect["body"]["message"].as_str().unwrap_or_default();
    [
        "failed to allocate",
        "provided port is",
        "this cluster is not configured",
        "not configured on this cluster",
        "is not configured on this cluster",
        "must be 'RequireDualStack' or 'PreferDualStack'",
        "${",
    ]
    .iter()
    .any(|m| message.contains(m))
}

fn namespace_of(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/namespaces/")?;
    rest.split('/').next()
}

fn judge(path: &str, mut object: Value, raw_name: bool) -> Option<Verdict> {
    let resource = path.split('?').next()?.rsplit('/').next()?;
    let meta = object.get_mut("metadata")?.as_object_mut()?;
    if let Some(namespace) = namespace_of(path) {
        let given = meta.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        if given != namespace {
            return None;
        }
        meta.insert("namespace".to_owned(), namespace.into());
    }
    let base = meta.get("generateName").and_then(Value::as_str);
    if let (true, Some(base)) = (raw_name, base) {
        let name = service_api::meta::generated_name(base, "bcdfg");
        meta.insert("name".to_owned(), name.into());
    }
    match resource {
        "services" => Some(judge_service(object)),
        "endpointslices" => Some(judge_slice(object)),
        "endpoints" => Some(judge_endpoints(object)),
        "servicecidrs" => Some(judge_cidr(object)),
        "ipaddresses" => Some(judge_address(object)),
        _ => None,
    }
}

#[test]
fn creates_are_judged_as_upstream_judged_them() {
    let mut judged = 0;
    let mut faults = Vec::new();
    for (_, case) in cases() {
        for (i, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let expect = &step["expect"];
            let code = expect["code"].as_i64().unwrap_or(0);
            let path = step["path"].as_str().unwrap_or_default();
            if step["method"] != "POST" || !(code == 201 || code == 422) {
                continue;
            }
            if decided_elsewhere(expect) || path.contains("fieldValidation") || path.contains("dryRun=all") {
                continue;
            }
            if step["body"]["apiVersion"].is_null() {
                continue;
            }
            let text = step["body"].to_string();
            if text.contains("${ip") || text.contains("${port") {
                continue;
            }
            let is_address = path.contains("ipaddresses");
            let Some(verdict) = judge(path, step["body"].clone(), !is_address) else {
                continue;
            };
            judged += 1;
            let at = format!("{} step {i}", case["name"].as_str().unwrap());
            let name = step["body"]["metadata"]["name"]
                .as_str()
                .or(step["body"]["metadata"]["generateName"].as_str())
                .unwrap_or_default();
            let ours = if verdict.errors.is_empty() {
                Value::Null
            } else {
                let status = status::invalid(verdict.group, verdict.kind, name, verdict.errors);
                serde_json::to_value(status).unwrap()
            };
            let theirs = if code == 422 { expect["body"].clone() } else { Value::Null };
            if ours != theirs {
                faults.push(format!("{at}\n  ours   {}\n  theirs {}", ours["message"], theirs["message"]));
                continue;
            }
            let warnings: Vec<&str> = expect["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .filter(|w| !w.starts_with("unknown field") && !w.starts_with("duplicate field"))
                .collect();
            let warned = code == 201 || path.contains("/endpoints");
            if warned && code == 201 && verdict.warnings != warnings {
                faults.push(format!("{at}\n  ours   {:?}\n  theirs {warnings:?}", verdict.warnings));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {judged}:\n{}", faults.len(), faults.join("\n"));
    assert!(judged > 500, "only {judged} creates found");
}
