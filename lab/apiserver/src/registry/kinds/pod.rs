//! Pod: what a client may say of it, and how long it lives after a delete.
//!
//! Enough for controllers, kubectl and simulated nodes: what of the spec is judged stands in `pod_validate`.

use std::collections::HashSet;

use serde_json::{Value, json};
use service_api::errors::{self, BadValue, FieldError, FieldErrors, Path};
use service_api::meta::Naming;

use super::fields::{
    bump_generation, default_fields, keep, keep_metadata, list, object_at, set_generation, text,
};
use super::meta;
use super::pod_parts;
use super::pod_spec::{default_pod_spec, qos_class};
use super::pod_status;
use super::pod_validate::{self, SpecOf};
use super::pod_warnings::spec_warnings;
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
        if list(obj, "/status/hostIPs").is_empty() {
            sync_addresses(obj, "hostIP", "hostIPs");
        }
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
        if !list(obj, "/spec/schedulingGates").is_empty() {
            let now = obj.pointer("/metadata/creationTimestamp").cloned().unwrap_or_default();
            obj["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": now,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(cost_faults(obj));
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
                match sub {
                    Subresource::EphemeralContainers => pod_parts::take_ephemeral(new, old),
                    Subresource::Resize => pod_parts::take_resources(new, old),
                    _ => admit_update(new, old),
                }
                let changed = new.get("spec") != old.get("spec");
                bump_generation(new, old, changed);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        if text(new, COST) != text(old, COST) {
            faults.extend(cost_faults(new));
        }
        match sub {
            Subresource::Status if new.get("status") != old.get("status") => {
                faults.extend(pod_status::faults(new));
            }
            Subresource::Status | Subresource::Binding => {}
            Subresource::EphemeralContainers => faults.extend(pod_parts::ephemeral_faults(new, old)),
            Subresource::Resize => faults.extend(pod_parts::resize_faults(new, old)),
            _ => faults.extend(spec_update_faults(new, old)),
        }
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, sub: Subresource) -> Vec<String> {
        match new.get("spec") {
            Some(spec) if sub != Subresource::Status => spec_warnings(spec, &Path::root("spec")),
            _ => Vec::new(),
        }
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
    stand_lost_nodes(spec);
}

/// The same for an update: who writes a pod anew from its manifest leaves out what was filled in.
fn admit_update(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let fields = ["serviceAccountName", "serviceAccount", "priority", "preemptionPolicy"];
    let filled = fields.into_iter().filter_map(|field| Some((field, old.get("spec")?.get(field)?.clone())));
    default_fields(spec, filled);
    stand_lost_nodes(spec);
}

/// Adds the tolerations of nodes that are not ready or can not be reached, five minutes each, unless there are others.
fn stand_lost_nodes(spec: &mut Value) {
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
    let path = Path::root("spec");
    let mut faults = pod_validate::spec_faults(pod.get("spec").unwrap_or(&Value::Null), &path, SpecOf::Pod);
    if !list(pod, "/spec/ephemeralContainers").is_empty() {
        faults.push(errors::forbidden(path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(pod, "/spec/nodeName").is_empty() && !list(pod, "/spec/schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        faults.push(errors::forbidden(path.child("nodeName"), why));
    }
    faults
}

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn spec_update_faults(new: &Value, old: &Value) -> FieldErrors {
    let (spec, before) = (new.get("spec").unwrap_or(&Value::Null), old.get("spec").unwrap_or(&Value::Null));
    if spec == before {
        // What is stored stays, whoever let it in.
        return FieldErrors::new();
    }
    let path = Path::root("spec");
    let mut faults = pod_validate::spec_faults(spec, &path, SpecOf::Pod);
    for containers in ["containers", "initContainers"] {
        let pointer = format!("/{containers}");
        if list(spec, &pointer).len() != list(before, &pointer).len() {
            let why = "pod updates may not add or remove containers";
            faults.push(errors::forbidden(path.child(containers), why));
            return faults;
        }
    }
    if let Some(fault) = deadline_change(spec, before) {
        faults.push(fault);
        return faults;
    }
    for (at, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let name = text(gate, "/name");
        if !list(before, "/schedulingGates").iter().any(|known| text(known, "/name") == name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.push(errors::forbidden(path.child("schedulingGates").index(at).child("name"), why));
        }
    }
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let now: HashSet<Value> = list(spec, "/tolerations").iter().map(timeless).collect();
    if !list(before, "/tolerations").iter().all(|toleration| now.contains(&timeless(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.push(errors::forbidden("spec.tolerations", why));
    }
    let mut comparable = new.get("spec").cloned().unwrap_or_default();
    let before = before.clone();
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
    if comparable != before {
        faults.push(errors::forbidden("spec", IMMUTABLE));
    }
    faults
}

/// A deadline may be set and shortened.
fn deadline_change(spec: &Value, before: &Value) -> Option<FieldError> {
    let deadline = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    let path = Path::root("spec").child("activeDeadlineSeconds");
    match (deadline(spec), deadline(before)) {
        (Some(now), Some(earlier)) if now > earlier => {
            Some(errors::invalid(path, now, "must be less than or equal to previous value"))
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            Some(errors::invalid(path, BadValue::Null, why))
        }
        _ => None,
    }
}

/// What a pod costs its ReplicaSet to delete.
const COST: &str = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";

/// The fault of a cost of deletion that is none.
fn cost_faults(pod: &Value) -> FieldErrors {
    let cost = text(pod, COST);
    let canonical = cost.parse::<i32>().is_ok_and(|number| number.to_string() == cost);
    if cost.is_empty() || canonical {
        return FieldErrors::new();
    }
    let path = Path::root("metadata").child("annotations").key("controller.kubernetes.io/pod-deletion-cost");
    vec![errors::invalid(path, cost, "must be a 32bit integer")].into()
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

    /// `kubectl apply` twice, or `replace`, of a manifest with tolerations of its own or without any.
    #[rstest]
    #[case(json!({}))]
    #[case(json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}))]
    #[case(json!({"tolerations": [{"operator": "Exists"}]}))]
    fn what_is_filled_in_is_filled_in_again(#[case] spec: Value) {
        let mut manifest = pod(&json!({}));
        for (field, value) in spec.as_object().unwrap() {
            manifest["spec"][field] = value.clone();
        }
        Pod.default(&mut manifest);
        let mut old = manifest.clone();
        Pod.prepare_create(&mut old);
        let mut new = manifest;
        Pod.prepare_update(&mut new, &old, Subresource::None);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(spec_update_faults(&new, &old), []);
    }

    #[rstest]
    #[case::container(json!({"containers": []}), "spec.containers")]
    #[case::init(json!({"initContainers": [{"name": "i", "image": "i:1"}]}), "spec.initContainers")]
    #[case::longer(json!({"activeDeadlineSeconds": 50}), "spec.activeDeadlineSeconds")]
    #[case::without(json!({"activeDeadlineSeconds": null}), "spec.activeDeadlineSeconds")]
    #[case::gate(json!({"schedulingGates": [{"name": "old"}, {"name": "new"}]}), "spec.schedulingGates[1].name")]
    fn what_an_update_may_not_do(#[case] change: Value, #[case] field: &str) {
        let mut old = pod(&json!({}));
        old["spec"]["nodeName"] = json!("");
        old["spec"]["activeDeadlineSeconds"] = json!(5);
        old["spec"]["schedulingGates"] = json!([{"name": "old"}]);
        Pod.default(&mut old);
        let mut new = old.clone();
        for (name, value) in change.as_object().unwrap() {
            new["spec"][name] = value.clone();
        }
        let faults = spec_update_faults(&new, &old);
        assert_eq!(faults.iter().last().unwrap().field, field);
    }

    #[rstest]
    #[case("-5", true)]
    #[case("0", true)]
    #[case("abc", false)]
    #[case("+1", false)]
    #[case("01", false)]
    #[case("2147483648", false)]
    fn costs_of_deletion(#[case] cost: &str, #[case] fine: bool) {
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        assert_eq!(cost_faults(&json!({"metadata": {"annotations": annotations}})).is_empty(), fine);
    }

    #[test]
    fn a_pod_that_may_not_be_scheduled_yet_says_so() {
        let mut object = pod(&json!({}));
        object["spec"]["schedulingGates"] = json!([{"name": "a"}]);
        Pod.prepare_create(&mut object);
        assert_eq!(object["status"]["conditions"][0]["reason"], json!("SchedulingGated"));
    }

    #[test]
    fn a_toleration_stays_but_for_its_time() {
        let mut old = pod(&json!({}));
        Pod.default(&mut old);
        Pod.prepare_create(&mut old);
        let mut new = old.clone();
        new["spec"]["tolerations"][0]["tolerationSeconds"] = json!(5);
        assert_eq!(spec_update_faults(&new, &old), []);
        new["spec"]["tolerations"][0]["effect"] = json!("NoSchedule");
        new["spec"]["tolerations"][0]["tolerationSeconds"] = Value::Null;
        assert_eq!(spec_update_faults(&new, &old)[0].field, "spec.tolerations");
    }

    #[test]
    fn only_images_and_a_few_others_may_change() {
        let mut old = pod(&json!({}));
        Pod.default(&mut old);
        let mut new = old.clone();
        new["spec"]["containers"][0]["image"] = json!("i:2");
        new["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(spec_update_faults(&new, &old), []);
        new["spec"]["nodeName"] = json!("n2");
        assert_eq!(spec_update_faults(&new, &old).len(), 1);
    }
}
