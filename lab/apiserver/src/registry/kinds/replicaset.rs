//! ReplicaSet: defaults and update rules; who acts on it is `workloads`.

use serde_json::{Value, json};
use service_api::errors::FieldErrors;

use super::fields::{bump_generation, keep, keep_metadata, set_generation};
use super::workload;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of ReplicaSet.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplicaSet;

/// The numbers of a status.
const STATUS: [&str; 5] =
    ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];

/// Those of them that count some of the replicas.
const COUNTS: [&str; 3] = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

impl Strategy for ReplicaSet {
    fn default(&self, obj: &mut Value) {
        workload::default_common(obj);
    }

    fn prepare_create(&self, obj: &mut Value) {
        obj["status"] = json!({"replicas": 0});
        set_generation(obj, 1);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        workload::create_faults(obj)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, sub: Subresource) -> Vec<String> {
        workload::warnings(new, sub)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            keep(new, old, "spec");
            keep_metadata(new, old, "generation");
            return;
        }
        keep(new, old, "status");
        let changed = new.get("spec") != old.get("spec");
        bump_generation(new, old, changed);
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        workload::update_faults(new, old, sub, &STATUS, &COUNTS)
    }
}
