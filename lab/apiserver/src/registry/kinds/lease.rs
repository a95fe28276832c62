//! Lease: who leads, and for how long.

use serde_json::Value;
use service_api::errors::{self, FieldErrors};
use service_api::meta::Naming;

use super::meta;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of Lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lease;

impl Strategy for Lease {
    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(spec_faults(obj));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        faults.extend(spec_faults(new));
        faults
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}

fn spec_faults(obj: &Value) -> FieldErrors {
    let number = |pointer: &str| obj.pointer(pointer).and_then(Value::as_i64);
    let mut faults = FieldErrors::new();
    if let Some(seconds) = number("/spec/leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        faults.push(errors::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if let Some(count) = number("/spec/leaseTransitions").filter(|count| *count < 0) {
        faults.push(errors::invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0}), &[])]
    #[case::let_go(json!({"holderIdentity": "", "leaseDurationSeconds": 1}), &[])]
    #[case(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}), &["spec.leaseDurationSeconds", "spec.leaseTransitions"])]
    fn specs(#[case] spec: Value, #[case] fields: &[&str]) {
        let faults: Vec<String> =
            spec_faults(&json!({"spec": spec})).into_iter().map(|fault| fault.field).collect();
        assert_eq!(faults, fields);
    }
}
