//! How large a Service may be, and what is wrong with a large one before anything is allocated for it.
//!
//! A Service is judged while the transaction holds the writer's lock, for its faults are told with those of its allocation.
//! What is too much to be judged there is bounded here, or judged beforehand.

use serde_json::Value;
use service_api::errors::{self, FieldErrors, Path};
use service_api::meta::Naming;
use service_api::service;

use super::fields::list;
use super::{meta, typed};

/// Beyond this many ports, or labels and the like, a Service is looked at before anything is allocated for it.
const MANY: usize = 500;

/// Lists and maps that take their time, besides the ports.
const BOUNDED: [&str; 7] = [
    "spec/selector",
    "spec/clusterIPs",
    "spec/ipFamilies",
    "spec/externalIPs",
    "spec/loadBalancerSourceRanges",
    "status/loadBalancer/ingress",
    "status/conditions",
];

/// What of the metadata takes its time.
const METADATA: [&str; 5] = ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"];

/// Faults of a Service that is too large, or so faulty that no more than some faults are told.
///
/// Fewer faults are told together with the others, once it is known what can be allocated.
pub(super) fn faults(obj: &Value) -> FieldErrors {
    let ports = members(obj.pointer("/spec/ports"));
    let mut faults = FieldErrors::new();
    if ports > service::MAX_PORTS {
        faults.push(errors::too_many(Path::root("spec").child("ports"), ports, service::MAX_PORTS));
    }
    for field in BOUNDED {
        let count = members(obj.pointer(&format!("/{field}")));
        if count > service::MAX_PORTS {
            faults.push(errors::too_many(field.replace('/', "."), count, service::MAX_PORTS));
        }
    }
    let ingress = list(obj, "/status/loadBalancer/ingress");
    let status_ports: usize = ingress.iter().map(|entry| members(entry.get("ports"))).sum();
    if status_ports > service::MAX_PORTS {
        let path = Path::root("status").child("loadBalancer").child("ingress");
        faults.push(errors::too_many(path, status_ports, service::MAX_PORTS));
    }
    if !faults.is_empty() {
        return faults;
    }
    let metadata: usize =
        METADATA.iter().map(|field| members(obj.pointer(&format!("/metadata/{field}")))).sum();
    if metadata > MANY {
        let faults = meta::faults(obj, Naming::LABEL);
        if faults.is_cut() {
            return faults;
        }
    }
    if ports > MANY {
        let faults = typed::judge(obj, service::port_faults);
        if faults.is_cut() {
            return faults;
        }
    }
    FieldErrors::new()
}

/// How many members a list or a map has.
fn members(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn many(count: usize) -> Value {
        Value::Array(vec![json!("x"); count])
    }

    fn map(count: usize, key: &str, value: &str) -> Value {
        (0..count).map(|at| (format!("{key}{at}"), json!(value))).collect::<serde_json::Map<_, _>>().into()
    }

    #[rstest]
    #[case(json!({"spec": {"externalIPs": many(10_001)}}), "spec.externalIPs: Too many: 10001: must have at most 10000 items")]
    #[case(json!({"spec": {"loadBalancerSourceRanges": many(10_001)}}),
        "spec.loadBalancerSourceRanges: Too many: 10001: must have at most 10000 items")]
    #[case(json!({"spec": {"clusterIPs": many(20_000)}}), "spec.clusterIPs: Too many: 20000: must have at most 10000 items")]
    #[case(json!({"spec": {"ipFamilies": many(20_000)}}), "spec.ipFamilies: Too many: 20000: must have at most 10000 items")]
    #[case(json!({"spec": {"selector": map(10_001, "a", "b")}}), "spec.selector: Too many: 10001: must have at most 10000 items")]
    #[case(json!({"spec": {"ports": many(10_001)}}), "spec.ports: Too many: 10001: must have at most 10000 items")]
    #[case(json!({"status": {"loadBalancer": {"ingress": [{"ports": many(6_000)}, {"ports": many(6_000)}]}}}),
        "status.loadBalancer.ingress: Too many: 12000: must have at most 10000 items")]
    fn a_service_has_a_size(#[case] object: Value, #[case] expected: &str) {
        let found: Vec<String> = faults(&object).iter().map(ToString::to_string).collect();
        assert_eq!(found, [expected]);
    }

    #[test]
    fn many_faults_of_the_metadata_are_told_before_anything_is_allocated() {
        let service = |labels: Value| json!({"metadata": {"name": "a", "namespace": "b", "labels": labels}, "spec": {}});
        assert!(faults(&service(map(1000, "!", "!"))).is_cut());
        assert_eq!(faults(&service(map(1000, "a", "b"))), []);
        assert_eq!(faults(&service(map(400, "!", "!"))), []);
    }
}
