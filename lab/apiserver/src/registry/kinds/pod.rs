//! Pod: what a client may say of it, and how long it lives after a delete.
//!
//! Light: enough for controllers, kubectl and simulated nodes. It checks what would confuse those, not every rule of a
//! container runtime.

use std::collections::HashSet;

use serde_json::{Value, json};
use service_api::address::{Family, parse_lenient, validate_ip};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::meta::Naming;

use super::fields::{
    bump_generation, default_fields, keep, keep_metadata, list, object_at, set_generation, text,
};
use super::meta;
use super::pod_spec::{default_pod_spec, qos_class};
use super::topology;
use crate::registry::Tx;
use crate::registry::error::ApiError;
use crate::registry::strategy::{Context, Strategy, Subresource};

/// The rules of Pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pod;

impl Strategy for Pod {
    fn default(&self, obj: &mut Value) {
        if let Some(spec) = obj.get_mut("spec") {
            default_pod_spec(spec);
            default_fields(spec, [("enableServiceLinks", json!(true))]);
        }
        sync_addresses(obj, "podIP", "podIPs");
        sync_addresses(obj, "hostIP", "hostIPs");
    }

    fn begin_create(&self, obj: &mut Value, tx: &mut Tx<'_>, ctx: &Context<'_>) -> Result<(), ApiError> {
        let node = text(obj, "/spec/nodeName").to_owned();
        if !node.is_empty() {
            topology::copy_labels(obj, &node, tx, ctx.registry);
        }
        Ok(())
    }

    fn prepare_create(&self, obj: &mut Value) {
        set_generation(obj, 1);
        admit(obj);
        obj["status"] = json!({"phase": "Pending", "qosClass": qos_class(obj)});
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(spec_faults(obj));
        faults
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        match sub {
            Subresource::Status => {
                keep(new, old, "spec");
                keep_metadata(new, old, "ownerReferences");
                keep_metadata(new, old, "generation");
                if let Some(status) = object_at(new, &["status"]) {
                    status.insert("qosClass".to_owned(), json!(qos_class(old)));
                }
            }
            Subresource::Binding => bump_generation(new, old, false),
            _ => {
                keep(new, old, "status");
                let changed = new.get("spec") != old.get("spec");
                bump_generation(new, old, changed);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        match sub {
            Subresource::Status => faults.extend(status_faults(new)),
            Subresource::Binding => {}
            _ => faults.extend(spec_update_faults(new, old)),
        }
        faults
    }

    fn grace_seconds(&self, obj: &Value, asked: Option<i64>) -> Option<i64> {
        let wanted =
            asked.or_else(|| obj.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64));
        let unscheduled = text(obj, "/spec/nodeName").is_empty();
        let ended = matches!(text(obj, "/status/phase"), "Failed" | "Succeeded");
        match wanted.unwrap_or_default() {
            _ if unscheduled || ended => Some(0),
            negative if negative < 0 => Some(1),
            seconds => Some(seconds),
        }
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// What upstream's admission adds to a pod: its priority, its account and how long it stands a lost node.
fn admit(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    default_fields(
        spec,
        [
            ("serviceAccountName", json!("default")),
            ("serviceAccount", json!("default")),
            ("priority", json!(0)),
            ("preemptionPolicy", json!("PreemptLowerPriority")),
        ],
    );
    let known: Vec<String> =
        list(spec, "/tolerations").iter().map(|toleration| text(toleration, "/key").to_owned()).collect();
    let everything = list(spec, "/tolerations").iter().any(|toleration| {
        text(toleration, "/key").is_empty() && matches!(text(toleration, "/effect"), "" | "NoExecute")
    });
    let missing: Vec<Value> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|key| !everything && !known.iter().any(|have| have == key))
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}))
        .collect();
    if !missing.is_empty() {
        default_fields(spec, [("tolerations", json!([]))]);
        if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            tolerations.extend(missing);
        }
    }
}

/// One address field and its list are two views of the same: the single one wins where both are given and differ.
fn sync_addresses(pod: &mut Value, single: &str, plural: &str) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    let one = status.get(single).and_then(Value::as_str).unwrap_or_default().to_owned();
    let first =
        status.get(plural).and_then(|list| list.pointer("/0/ip")).and_then(Value::as_str).unwrap_or_default();
    if one.is_empty() && !first.is_empty() {
        let first = json!(first);
        status.insert(single.to_owned(), first);
    } else if !one.is_empty() && one != first {
        status.insert(plural.to_owned(), json!([{"ip": one}]));
    }
}

fn spec_faults(pod: &Value) -> FieldErrors {
    let path = Path::root("spec").child("containers");
    let containers = list(pod, "/spec/containers");
    if containers.is_empty() {
        return errors::required(path, "").into();
    }
    let mut faults = FieldErrors::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for (position, container) in containers.iter().enumerate() {
        let path = path.index(position);
        let name = text(container, "/name");
        if name.is_empty() {
            faults.push(errors::required(path.child("name"), ""));
        } else if seen.contains(&name) {
            faults.push(errors::duplicate(path.child("name"), name));
        } else {
            let bad = service_api::names::dns_label(name);
            faults.extend(bad.into_iter().map(|why| errors::invalid(path.child("name"), name, why)));
            seen.insert(name);
        }
        if text(container, "/image").is_empty() {
            faults.push(errors::required(path.child("image"), ""));
        }
    }
    faults
}

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn spec_update_faults(new: &Value, old: &Value) -> FieldErrors {
    let mut faults = spec_faults(new);
    let tolerated: HashSet<&Value> = list(new, "/spec/tolerations").iter().collect();
    let kept = list(old, "/spec/tolerations").iter().all(|toleration| tolerated.contains(toleration));
    let mut comparable = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").cloned().unwrap_or_default();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        keep(&mut comparable, &before, field);
    }
    if before.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0)
    {
        keep(&mut comparable, &before, "terminationGracePeriodSeconds");
    }
    for containers in ["/containers", "/initContainers"] {
        let images: Vec<Value> = list(&before, containers).to_vec();
        for (container, before) in super::fields::each_mut(&mut comparable, containers).zip(&images) {
            keep(container, before, "image");
        }
    }
    if !kept || comparable != before {
        faults.push(errors::forbidden("spec", IMMUTABLE));
    }
    faults
}

fn status_faults(pod: &Value) -> FieldErrors {
    let path = Path::root("status").child("podIPs");
    let addresses: Vec<&str> = list(pod, "/status/podIPs").iter().map(|entry| text(entry, "/ip")).collect();
    let mut faults = FieldErrors::new();
    for (position, address) in addresses.iter().enumerate() {
        faults.extend(validate_ip(&path.index(position), address));
    }
    let families: Vec<Family> =
        addresses.iter().filter_map(|address| parse_lenient(address)).map(Family::of).collect();
    if families.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        faults.push(errors::invalid(
            &path,
            BadValue::json(pod.pointer("/status/podIPs").unwrap_or(&Value::Null)),
            "may specify no more than one IP for each IP family",
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pod(status: &Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i:1"}], "nodeName": "n1", "terminationGracePeriodSeconds": 30},
            "status": status
        })
    }

    #[rstest]
    #[case::both_from_one(json!({"podIP": "10.0.0.1"}), json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}))]
    #[case::one_from_list(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
        json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}))]
    #[case::single_wins(json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}),
        json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}))]
    fn addresses(#[case] before: Value, #[case] after: Value) {
        let mut object = pod(&before);
        Pod.default(&mut object);
        assert_eq!(object["status"], after);
    }

    #[rstest]
    #[case::default(json!({"phase": "Running"}), None, 30)]
    #[case::asked(json!({"phase": "Running"}), Some(5), 5)]
    #[case::negative(json!({"phase": "Running"}), Some(-1), 1)]
    #[case::ended(json!({"phase": "Succeeded"}), Some(5), 0)]
    fn grace(#[case] status: Value, #[case] asked: Option<i64>, #[case] seconds: i64) {
        assert_eq!(Pod.grace_seconds(&pod(&status), asked), Some(seconds));
    }

    #[test]
    fn an_unscheduled_pod_goes_at_once() {
        let mut object = pod(&json!({"phase": "Pending"}));
        object["spec"]["nodeName"] = json!("");
        assert_eq!(Pod.grace_seconds(&object, None), Some(0));
    }

    #[test]
    fn a_creator_has_no_say_in_the_status() {
        let mut object = pod(&json!({"phase": "Running", "podIP": "10.0.0.1"}));
        Pod.prepare_create(&mut object);
        assert_eq!(object["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
        assert_eq!(object["spec"]["tolerations"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn only_images_and_a_few_others_may_change() {
        let old = pod(&json!({}));
        let mut new = old.clone();
        new["spec"]["containers"][0]["image"] = json!("i:2");
        new["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(spec_update_faults(&new, &old), []);
        new["spec"]["nodeName"] = json!("n2");
        assert_eq!(spec_update_faults(&new, &old).len(), 1);
    }
}
