//! Node: what it can carry and where its pods' addresses come from.

use std::collections::HashSet;

use serde_json::{Value, json};
use service_api::address::{Cidr, Family, validate_cidr};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::meta::Naming;
use service_api::names;

use super::fields::{default_fields, keep, list, text};
use super::meta;
use super::pod_validate::effect_faults;
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
        let mut faults = meta::faults(obj, Naming::CLUSTER_SUBDOMAIN);
        faults.extend(taint_faults(obj));
        faults.extend(pod_range_faults(obj));
        faults
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        keep(new, old, if sub == Subresource::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = self.validate_create(new);
        faults.extend(meta::update_faults(new, old));
        faults.extend(address_faults(new));
        let (ranges, before) = (list(new, "/spec/podCIDRs"), list(old, "/spec/podCIDRs"));
        let why = "node updates may not change podCIDR except from \"\" to valid";
        if !before.is_empty() && ranges.len() != before.len() {
            faults.push(errors::forbidden("spec.podCIDRs", why));
        } else if !before.is_empty() {
            let changed = ranges.iter().zip(before).filter(|(now, before)| now != before);
            faults.extend(changed.map(|_| errors::forbidden("spec.podCIDRs", why)));
        }
        let provider = |node: &Value| text(node, "/spec/providerID").to_owned();
        if !provider(old).is_empty() && provider(new) != provider(old) {
            let why = "node updates may not change providerID except from \"\" to valid";
            faults.push(errors::forbidden("spec.providerID", why));
        }
        faults.extend(taint_faults(new));
        faults
    }
}

/// Upstream names the taints as if they stood in the metadata.
fn taint_faults(node: &Value) -> FieldErrors {
    let path = Path::root("metadata").child("taints");
    let mut faults = FieldErrors::new();
    let mut seen = HashSet::new();
    for (at, taint) in list(node, "/spec/taints").iter().enumerate() {
        let path = path.index(at);
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        let wrong = names::qualified_name(key).into_iter();
        faults.extend(wrong.map(|why| errors::invalid(path.child("key"), key, why)));
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            faults.push(errors::invalid(path.child("value"), value, wrong.join(";")));
        }
        if effect.is_empty() {
            faults.push(errors::required(path.child("effect"), ""));
        }
        effect_faults(effect, &path.child("effect"), &mut faults);
        if !seen.insert((effect, key)) {
            let shown = Printed {
                key,
                value,
                effect,
                time_added: taint.get("timeAdded").cloned().unwrap_or_default(),
            };
            let mut fault = errors::duplicate(path, BadValue::json(&shown));
            "taints must be unique by key and effect pair".clone_into(&mut fault.detail);
            faults.push(fault);
        }
    }
    faults
}

/// How upstream prints a taint.
#[derive(serde::Serialize)]
#[serde(rename_all = "PascalCase")]
struct Printed<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
    time_added: Value,
}

/// The ranges that a node's pods have their addresses from: one, or two of different families.
fn pod_range_faults(node: &Value) -> FieldErrors {
    let path = Path::root("spec").child("podCIDRs");
    let ranges: Vec<&str> = list(node, "/spec/podCIDRs").iter().filter_map(Value::as_str).collect();
    let each = ranges.iter().enumerate();
    let mut faults: FieldErrors =
        each.flat_map(|(at, range)| validate_cidr(&path.index(at), range, false)).collect();
    let families: Vec<Option<Family>> =
        ranges.iter().map(|range| Cidr::parse_lenient(range).map(|cidr| Family::of(cidr.ip))).collect();
    if ranges.len() > 2 || matches!(families[..], [Some(a), Some(b)] if a == b) {
        let why = "may specify no more than one CIDR for each IP family";
        faults.push(errors::invalid(path, BadValue::json(&ranges), why));
    }
    faults
}

fn address_faults(node: &Value) -> FieldErrors {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let all = list(node, "/status/addresses").iter().enumerate();
    let twice = all.filter(|(_, address)| !seen.insert((text(address, "/type"), text(address, "/address"))));
    let fault = |(at, address): (usize, &Value)| {
        let shown = format!(
            "{{\"Type\":{},\"Address\":{}}}",
            Value::from(text(address, "/type")),
            Value::from(text(address, "/address"))
        );
        errors::duplicate(Path::root("status").child("addresses").index(at), BadValue::Json(shown))
    };
    twice.map(fault).collect()
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
    use rstest::rstest;

    use super::*;

    fn messages(faults: &FieldErrors) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case(json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]), &[])]
    #[case(json!([{"key": "a"}]), &["metadata.taints[0].effect: Required value"])]
    #[case(json!([{"key": "", "effect": "NoSchedule"}]), &["metadata.taints[0].key: Invalid value: \"\"", "metadata.taints[0].key"])]
    #[case(json!([{"key": "a", "value": "-", "effect": "X"}]),
        &["metadata.taints[0].value: Invalid value: \"-\"", "metadata.taints[0].effect: Unsupported value: \"X\""])]
    #[case(json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "v", "effect": "NoSchedule"}]),
        &["metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"v\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: \
           taints must be unique by key and effect pair"])]
    fn taints(#[case] listed: Value, #[case] expected: &[&str]) {
        let found = messages(&taint_faults(&json!({"spec": {"taints": listed}})));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[rstest]
    #[case(json!(["10.244.0.0/24", "fd00::/64"]), 0)]
    #[case(json!(["10.244.0.0/24", "10.245.0.0/24"]), 1)]
    #[case(json!(["bad"]), 1)]
    fn pod_ranges(#[case] ranges: Value, #[case] count: usize) {
        assert_eq!(pod_range_faults(&json!({"spec": {"podCIDRs": ranges}})).len(), count);
    }

    #[test]
    fn ranges_and_provider_stay() {
        let node = |ranges: Value, provider: &str| {
            json!({"metadata": {"name": "n", "resourceVersion": "1"},
                "spec": {"podCIDRs": ranges, "podCIDR": ranges[0], "providerID": provider}})
        };
        let old = node(json!(["10.244.0.0/24"]), "a");
        let fields = |new: &Value| -> Vec<String> {
            Node.validate_update(new, &old, Subresource::None).into_iter().map(|fault| fault.field).collect()
        };
        assert_eq!(fields(&old), Vec::<String>::new());
        assert_eq!(fields(&node(json!(["10.245.0.0/24"]), "b")), ["spec.podCIDRs", "spec.providerID"]);
        assert_eq!(fields(&node(json!(["10.244.0.0/24", "fd00::/64"]), "a")), ["spec.podCIDRs"]);
        assert_eq!(fields(&node(json!([]), "a")), ["spec.podCIDRs"]);
    }

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
