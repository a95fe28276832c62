//! Node: what it can carry and where its pods' addresses come from.

use serde_json::{Value, json};
use service_api::errors::FieldErrors;
use service_api::meta::Naming;

use super::fields::{default_fields, keep, list, text};
use super::meta;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of Node. Unlike most kinds a Node may be created with a status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node;

impl Strategy for Node {
    fn default(&self, obj: &mut Value) {
        default_fields(obj, [("spec", json!({})), ("status", json!({}))]);
        let capacity = obj.pointer("/status/capacity").cloned().filter(|capacity| !capacity.is_null());
        if let (Some(status), Some(capacity)) = (obj.get_mut("status"), capacity) {
            default_fields(status, [("allocatable", capacity)]);
        }
        sync_pod_ranges(obj);
    }

    fn storage_prefix(&self) -> Option<&'static str> {
        Some("minions")
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        meta::faults(obj, Naming::CLUSTER_SUBDOMAIN)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        keep(new, old, if sub == Subresource::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        let range = |node: &Value| text(node, "/spec/podCIDR").to_owned();
        if !range(old).is_empty() && range(new) != range(old) {
            faults.push(service_api::errors::forbidden(
                "spec.podCIDRs",
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        faults
    }
}

/// `podCIDR` and `podCIDRs` are two views of the same.
fn sync_pod_ranges(node: &mut Value) {
    let one = text(node, "/spec/podCIDR").to_owned();
    let first = list(node, "/spec/podCIDRs").first().and_then(Value::as_str).unwrap_or_default().to_owned();
    if one.is_empty() && !first.is_empty() {
        node["spec"]["podCIDR"] = json!(first);
    } else if !one.is_empty() && first != one {
        node["spec"]["podCIDRs"] = json!([one]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_can_give_away_what_it_has() {
        let mut node = json!({"status": {"capacity": {"cpu": "4"}}, "spec": {"podCIDR": "10.244.1.0/24"}});
        Node.default(&mut node);
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.244.1.0/24"]));
    }

    #[test]
    fn spec_and_status_are_written_apart() {
        let old = json!({"spec": {"unschedulable": true}, "status": {"capacity": {"cpu": "4"}}});
        let sent = json!({"spec": {}, "status": {}});
        let mut new = sent.clone();
        Node.prepare_update(&mut new, &old, Subresource::None);
        assert_eq!(new, json!({"spec": {}, "status": {"capacity": {"cpu": "4"}}}));
        let mut new = sent;
        Node.prepare_update(&mut new, &old, Subresource::Status);
        assert_eq!(new, json!({"spec": {"unschedulable": true}, "status": {}}));
    }
}
