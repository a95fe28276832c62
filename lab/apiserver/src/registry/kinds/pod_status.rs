//! Faults of a pod's status: what is copied into endpoints, and what kubectl and controllers go by.
//!
//! Container statuses and resource claims are not judged (`docs/lab-api.md` says so). Source: the API reference of Pod v1.

use serde_json::Value;
use service_api::address::{Family, parse_lenient, validate_ip};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::names;

use super::fields::{list, text};

/// Faults of the status of `pod`.
pub(super) fn faults(pod: &Value) -> FieldErrors {
    let path = Path::root("status");
    let mut faults = FieldErrors::new();
    let node = text(pod, "/status/nominatedNodeName");
    if !node.is_empty() {
        let path = path.child("nominatedNodeName");
        faults.extend(names::dns_subdomain(node).into_iter().map(|why| errors::invalid(&path, node, why)));
    }
    for (at, condition) in list(pod, "/status/conditions").iter().enumerate() {
        let path = path.child("conditions").index(at);
        let kind = text(condition, "/type");
        // Upstream writes this one name as Go does.
        let name = path.child("Type");
        faults.extend(names::qualified_name(kind).into_iter().map(|why| errors::invalid(&name, kind, why)));
        generation_faults(condition.get("observedGeneration"), &path, &mut faults);
    }
    generation_faults(pod.pointer("/status/observedGeneration"), &path, &mut faults);
    address_faults(pod, "podIPs", &mut faults);
    address_faults(pod, "hostIPs", &mut faults);
    let (host, first) = (text(pod, "/status/hostIP"), text(pod, "/status/hostIPs/0/ip"));
    if !first.is_empty() && host != first {
        let path = path.child("hostIPs").index(0).child("ip");
        faults.push(errors::invalid(path, first, "must be equal to `hostIP`"));
    }
    faults
}

fn generation_faults(generation: Option<&Value>, path: &Path, faults: &mut FieldErrors) {
    if let Some(negative) = generation.and_then(Value::as_i64).filter(|number| *number < 0) {
        let why = "must be a non-negative integer";
        faults.push(errors::invalid(path.child("observedGeneration"), negative, why));
    }
}

/// Each is an address, and there is at most one of each family.
fn address_faults(pod: &Value, field: &str, faults: &mut FieldErrors) {
    let pointer = format!("/status/{field}");
    let path = Path::root("status").child(field);
    let addresses: Vec<&str> = list(pod, &pointer).iter().map(|entry| text(entry, "/ip")).collect();
    for (position, address) in addresses.iter().enumerate() {
        faults.extend(validate_ip(&path.index(position), address));
    }
    let families: Vec<Family> =
        addresses.iter().filter_map(|address| parse_lenient(address)).map(Family::of).collect();
    if families.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        faults.push(errors::invalid(
            &path,
            BadValue::json(pod.pointer(&pointer).unwrap_or(&Value::Null)),
            "may specify no more than one IP for each IP family",
        ));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "hostIP": "10.0.0.2", "hostIPs": [{"ip": "10.0.0.2"}],
        "conditions": [{"type": "example.com/a", "observedGeneration": 2}], "nominatedNodeName": "n"}), &[])]
    #[case(json!({"podIPs": [{"ip": "x"}]}), &["status.podIPs[0]: Invalid value: \"x\""])]
    #[case(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}), &["status.podIPs: Invalid value"])]
    #[case(json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}),
        &["status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`"])]
    #[case(json!({"conditions": [{"type": "a b"}, {"type": "Ready", "observedGeneration": -1}], "observedGeneration": -2}),
        &["status.conditions[0].Type: Invalid value: \"a b\"",
          "status.conditions[1].observedGeneration: Invalid value: -1: must be a non-negative integer",
          "status.observedGeneration: Invalid value: -2: must be a non-negative integer"])]
    #[case(json!({"nominatedNodeName": "A b"}), &["status.nominatedNodeName: Invalid value: \"A b\""])]
    fn statuses(#[case] status: Value, #[case] expected: &[&str]) {
        let found: Vec<String> = faults(&json!({"status": status})).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }
}
