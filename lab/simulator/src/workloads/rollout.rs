//! What one Deployment does: which ReplicaSets it has and how large each is. Pure.
//!
//! Old and new pods together never exceed the replicas by more than `maxSurge`, and never fewer than the replicas less
//! `maxUnavailable` are available by its doing.

use serde_json::{Value, json};

use super::replicas::owner;
use super::template::{self, HASH_LABEL};
use crate::registry::object::meta;

/// Where a Deployment counts the names that it found taken.
pub(super) const COLLISIONS: &str = "/status/collisionCount";

/// The annotation with the revision of a template.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// What is to be done for a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A ReplicaSet to make.
    pub create: Option<Value>,
    /// New sizes of ReplicaSets, by name.
    pub resize: Vec<(String, i64)>,
    /// ReplicaSets to delete, by name: older than the history limit.
    pub delete: Vec<String>,
    /// The revision to note on the Deployment and on its newest ReplicaSet (by name, if there is one already).
    pub revision: Option<(i64, Option<String>)>,
    /// The status to report.
    pub status: Value,
}

/// Compares a Deployment with the ReplicaSets it owns.
pub fn plan(deployment: &Value, sets: &[Value], now: &str) -> Plan {
    let wanted = deployment.pointer("/spec/template").unwrap_or(&Value::Null);
    let hash = template::hash(wanted, number(deployment, COLLISIONS));
    let current = current(sets, wanted);
    let old: Vec<&Value> =
        sets.iter().filter(|set| current.is_none_or(|current| !std::ptr::eq(*set, current))).collect();
    let mut out = Plan { status: status(deployment, current, sets, now), ..Plan::default() };
    let paused = deployment.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or_default();
    if !meta(deployment, "deletionTimestamp").is_empty() {
        return out;
    }
    let latest = old.iter().map(|set| revision(set)).max().unwrap_or_default();
    let wanted = current.map_or(latest + 1, |set| revision(set).max(latest + 1));
    let noted = current.is_some_and(|set| revision(set) == wanted) && revision(deployment) == wanted;
    if !noted && (!paused || current.is_some()) {
        out.revision = Some((wanted, current.map(|set| meta(set, "name").to_owned())));
    }
    let sizes = Sizes::of(deployment, &old);
    match current {
        None if paused => {}
        None => out.create = Some(replica_set(deployment, &hash, wanted, sizes.first())),
        Some(current) if !paused => out.resize = sizes.steps(current, &old),
        Some(current) => out.resize = resize(current, sizes.replicas - sizes.old_total).into_iter().collect(),
    }
    if current.is_some() {
        out.delete = outdated(deployment, &old);
    }
    out
}

/// The set with the Deployment's template, whatever it is called; the oldest if there are several.
fn current<'a>(sets: &'a [Value], wanted: &Value) -> Option<&'a Value> {
    let wanted = template::without_hash(wanted);
    let same = |set: &&Value| {
        set.pointer("/spec/template").is_some_and(|template| template::without_hash(template) == wanted)
    };
    let age = |set: &&Value| (meta(set, "creationTimestamp").to_owned(), meta(set, "name").to_owned());
    sets.iter().filter(same).min_by_key(age)
}

/// How large things are and may be.
struct Sizes {
    replicas: i64,
    surge: i64,
    unavailable: i64,
    recreate: bool,
    old_total: i64,
    /// Pods of old sets that are still there, deleted or not.
    old_present: i64,
}

impl Sizes {
    fn of(deployment: &Value, old: &[&Value]) -> Self {
        let replicas = number(deployment, "/spec/replicas");
        let limit = |field: &str, up: bool| {
            percentage(deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}")), replicas, up)
        };
        let (surge, mut unavailable) = (limit("maxSurge", true), limit("maxUnavailable", false));
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        let recreate = deployment.pointer("/spec/strategy/type").and_then(Value::as_str) == Some("Recreate");
        Self {
            replicas,
            surge,
            unavailable: unavailable.min(replicas),
            recreate,
            old_total: old.iter().map(|set| number(set, "/spec/replicas")).sum(),
            old_present: old.iter().map(|set| number(set, "/status/replicas")).sum(),
        }
    }

    /// The size of a ReplicaSet that is made now.
    fn first(&self) -> i64 {
        if self.recreate {
            return if self.old_total == 0 && self.old_present == 0 { self.replicas } else { 0 };
        }
        (self.replicas + self.surge - self.old_total).clamp(0, self.replicas)
    }

    /// The next sizes of all sets.
    fn steps(&self, current: &Value, old: &[&Value]) -> Vec<(String, i64)> {
        let size = number(current, "/spec/replicas");
        if self.recreate {
            let mut out: Vec<_> = old.iter().filter_map(|set| resize(set, 0)).collect();
            if self.old_total == 0 && self.old_present == 0 {
                out.extend(resize(current, self.replicas));
            }
            return out;
        }
        let mut out = Vec::new();
        let grown = if self.old_total == 0 {
            self.replicas
        } else {
            let room = self.replicas + self.surge - self.old_total;
            size.max(room.min(self.replicas)).min(self.replicas)
        };
        out.extend(resize(current, grown));
        out.extend(self.shrink(current, old, grown));
        out
    }

    /// Old sets lose what is not needed: unready pods at once, ready ones as new ones become available.
    fn shrink(&self, current: &Value, old: &[&Value], grown: i64) -> Vec<(String, i64)> {
        let available =
            |set: &Value| number(set, "/status/availableReplicas").min(number(set, "/spec/replicas"));
        let least = self.replicas - self.unavailable;
        let fresh = available(current);
        let unready_new = grown - fresh;
        // Pods that may go without the available ones falling below the least.
        let mut budget = (self.old_total + grown - least - unready_new).clamp(0, self.old_total);
        let mut out = Vec::new();
        let mut sizes: Vec<(&Value, i64)> =
            old.iter().map(|set| (*set, number(set, "/spec/replicas"))).collect();
        for (set, size) in &mut sizes {
            let unready = (*size - available(set)).clamp(0, budget);
            *size -= unready;
            budget -= unready;
        }
        let ready_left: i64 = sizes.iter().map(|(_, size)| size).sum();
        let mut spare = (ready_left + fresh - least).clamp(0, ready_left).min(budget);
        for (set, size) in &mut sizes {
            let less = spare.min(*size);
            *size -= less;
            spare -= less;
            out.extend(resize(set, *size));
        }
        out
    }
}

fn resize(set: &Value, size: i64) -> Option<(String, i64)> {
    let size = size.max(0);
    (number(set, "/spec/replicas") != size).then(|| (meta(set, "name").to_owned(), size))
}

/// An absolute number or a percentage of the replicas, rounded up or down.
fn percentage(value: Option<&Value>, of: i64, up: bool) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default().max(0),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let hundredths = percent.max(0).saturating_mul(of);
            if up { (hundredths + 99) / 100 } else { hundredths / 100 }
        }
        _ => 0,
    }
}

fn replica_set(deployment: &Value, hash: &str, revision: i64, size: i64) -> Value {
    let mut template = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment.pointer("/spec/selector").cloned().unwrap_or_default();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let mut annotations = json!({
        REVISION: revision.to_string(),
        "deployment.kubernetes.io/desired-replicas": number(deployment, "/spec/replicas").to_string(),
    });
    // What people wrote on the Deployment explains the revision (`kubectl rollout history`).
    if let Some(cause) =
        deployment.pointer("/metadata/annotations").and_then(|map| map.get("kubernetes.io/change-cause"))
    {
        annotations["kubernetes.io/change-cause"] = cause.clone();
    }
    json!({
        "metadata": {
            "name": format!("{}-{hash}", meta(deployment, "name")), "labels": template.pointer("/metadata/labels"),
            "annotations": annotations, "ownerReferences": [owner(deployment, "Deployment")],
        },
        "spec": {
            "replicas": size, "selector": selector, "template": template,
            "minReadySeconds": number(deployment, "/spec/minReadySeconds"),
        },
    })
}

/// Empty sets beyond the history limit, the oldest first.
fn outdated(deployment: &Value, old: &[&Value]) -> Vec<String> {
    let limit = deployment.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64).unwrap_or(10);
    let mut empty: Vec<&&Value> = old
        .iter()
        .filter(|set| number(set, "/spec/replicas") == 0 && number(set, "/status/replicas") == 0)
        .collect();
    empty.sort_by_key(|set| revision(set));
    let excess = empty.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    empty.into_iter().take(excess).map(|set| meta(set, "name").to_owned()).collect()
}

fn status(deployment: &Value, current: Option<&Value>, sets: &[Value], now: &str) -> Value {
    let sum = |field: &str| sets.iter().map(|set| number(set, &format!("/status/{field}"))).sum::<i64>();
    let replicas = number(deployment, "/spec/replicas");
    let (total, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let updated = current.map_or(0, |set| number(set, "/status/replicas"));
    let mut out = json!({"observedGeneration": deployment.pointer("/metadata/generation")});
    if let Some(collisions) = deployment.pointer(COLLISIONS) {
        out["collisionCount"] = collisions.clone();
    }
    let unavailable = (replicas.max(total) - available).max(0);
    for (field, count) in [
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", unavailable),
    ] {
        if count > 0 {
            out[field] = json!(count);
        }
    }
    let sizes = Sizes::of(deployment, &[]);
    let enough = available >= replicas - sizes.unavailable;
    let done = updated == replicas && total == replicas && available == replicas;
    let name = current.map_or("", |set| meta(set, "name"));
    let progress = if done {
        ("NewReplicaSetAvailable", format!("ReplicaSet \"{name}\" has successfully progressed."))
    } else {
        ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."))
    };
    let availability = if enough {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    out["conditions"] = json!([
        condition(deployment, "Available", enough, availability.0, availability.1, now),
        condition(deployment, "Progressing", true, progress.0, &progress.1, now),
    ]);
    out
}

/// A condition; its times stay while it says the same.
fn condition(deployment: &Value, kind: &str, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let known = deployment.pointer("/status/conditions").and_then(Value::as_array);
    let known = known.into_iter().flatten().find(|condition| condition["type"] == kind);
    let kept = |field: &str, same: bool| match known {
        Some(known) if same => known[field].clone(),
        _ => json!(now),
    };
    let same_status = known.is_some_and(|known| known["status"] == status);
    let same =
        same_status && known.is_some_and(|known| known["reason"] == reason && known["message"] == message);
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": kept("lastTransitionTime", same_status), "lastUpdateTime": kept("lastUpdateTime", same),
    })
}

fn revision(object: &Value) -> i64 {
    let annotations = object.pointer("/metadata/annotations");
    let text = annotations.and_then(|annotations| annotations.get(REVISION)).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn deployment(replicas: i64, image: &str) -> Value {
        json!({
            "metadata": {"name": "hello", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"a": "1"}}, "revisionHistoryLimit": 2,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"image": image}]}}
            }
        })
    }

    /// A model of the cluster: sets change as planned, `unready` images never become available.
    fn settle(deployment: &mut Value, sets: &mut Vec<Value>, unready: &str) {
        for _ in 0..50 {
            let plan = plan(deployment, sets, "now");
            let before = sets.clone();
            if let Some((revision, name)) = &plan.revision {
                deployment["metadata"]["annotations"][REVISION] = json!(revision.to_string());
                for set in sets.iter_mut().filter(|set| name.as_deref() == Some(meta(set, "name"))) {
                    set["metadata"]["annotations"][REVISION] = json!(revision.to_string());
                }
            }
            sets.extend(plan.create);
            for (name, size) in plan.resize {
                for set in sets.iter_mut().filter(|set| meta(set, "name") == name) {
                    set["spec"]["replicas"] = json!(size);
                }
            }
            sets.retain(|set| !plan.delete.contains(&meta(set, "name").to_owned()));
            let total: i64 = sets.iter().map(|set| number(set, "/spec/replicas")).sum();
            let most = number(deployment, "/spec/replicas") + (number(deployment, "/spec/replicas") + 3) / 4;
            assert!(total <= most, "{total} pods of at most {most}");
            for set in sets.iter_mut() {
                let size = set["spec"]["replicas"].clone();
                let ready = if set.pointer("/spec/template/spec/containers/0/image").unwrap() == unready {
                    json!(0)
                } else {
                    size.clone()
                };
                set["status"] = json!({"replicas": size, "readyReplicas": ready, "availableReplicas": ready});
            }
            if before == *sets {
                return;
            }
        }
        panic!("the rollout never settles");
    }

    fn sizes(sets: &[Value]) -> Vec<(String, i64)> {
        let image = |set: &Value| {
            set.pointer("/spec/template/spec/containers/0/image").unwrap().as_str().unwrap().to_owned()
        };
        sets.iter().map(|set| (image(set), number(set, "/spec/replicas"))).collect()
    }

    fn named(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
        pairs.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
    }

    #[test]
    fn a_new_template_replaces_the_old() {
        let (mut object, mut sets) = (deployment(3, "i:1"), Vec::new());
        settle(&mut object, &mut sets, "");
        assert_eq!(sizes(&sets), named(&[("i:1", 3)]));
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        settle(&mut object, &mut sets, "");
        assert_eq!(sizes(&sets), named(&[("i:1", 0), ("i:2", 3)]));
        assert_eq!((revision(&object), revision(&sets[1])), (2, 2));
    }

    #[test]
    fn a_stuck_rollout_leaves_the_old_pods_and_can_be_undone() {
        let (mut object, mut sets) = (deployment(3, "i:1"), Vec::new());
        settle(&mut object, &mut sets, "bad");
        let good = object["spec"]["template"].clone();
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("bad");
        settle(&mut object, &mut sets, "bad");
        assert_eq!(sizes(&sets), named(&[("i:1", 3), ("bad", 1)]));
        object["spec"]["template"] = good;
        settle(&mut object, &mut sets, "bad");
        assert_eq!(sizes(&sets), named(&[("i:1", 3), ("bad", 0)]));
        assert_eq!(revision(&object), 3);
    }

    #[rstest]
    #[case(3, 0)]
    #[case(1, 5)]
    #[case(10, 3)]
    fn scaling_changes_the_newest(#[case] from: i64, #[case] to: i64) {
        let (mut object, mut sets) = (deployment(from, "i:1"), Vec::new());
        settle(&mut object, &mut sets, "");
        object["spec"]["replicas"] = json!(to);
        settle(&mut object, &mut sets, "");
        assert_eq!(sizes(&sets), named(&[("i:1", to)]));
    }

    #[test]
    fn recreation_waits_for_the_old_pods() {
        let (mut object, mut sets) = (deployment(2, "i:1"), Vec::new());
        object["spec"]["strategy"] = json!({"type": "Recreate"});
        settle(&mut object, &mut sets, "");
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        let first = plan(&object, &sets, "now");
        assert_eq!(first.create.unwrap()["spec"]["replicas"], json!(0));
        settle(&mut object, &mut sets, "");
        assert_eq!(sizes(&sets), named(&[("i:1", 0), ("i:2", 2)]));
    }

    #[test]
    fn old_sets_are_kept_up_to_the_limit() {
        let (mut object, mut sets) = (deployment(1, "i:1"), Vec::new());
        for image in ["i:1", "i:2", "i:3", "i:4", "i:5"] {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
            settle(&mut object, &mut sets, "");
        }
        assert_eq!(sizes(&sets), named(&[("i:3", 0), ("i:4", 0), ("i:5", 1)]));
    }

    #[test]
    fn the_status_is_what_kubectl_waits_for() {
        let (mut object, mut sets) = (deployment(3, "i:1"), Vec::new());
        settle(&mut object, &mut sets, "");
        let status = plan(&object, &sets, "now").status;
        for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
            assert_eq!(status[field], json!(3), "{field}");
        }
        assert_eq!(status.get("unavailableReplicas"), None);
        assert_eq!(status["conditions"][1]["reason"], json!("NewReplicaSetAvailable"));
    }

    #[test]
    fn a_set_is_known_by_its_template_not_by_its_name() {
        let (mut object, mut sets) = (deployment(2, "i:1"), Vec::new());
        settle(&mut object, &mut sets, "");
        sets[0]["metadata"]["name"] = json!("taken-over");
        sets[0]["metadata"]["labels"] = json!({"a": "1"});
        let plan = plan(&object, &sets, "now");
        assert_eq!((plan.create, plan.resize), (None, vec![]));
    }

    #[test]
    fn a_name_that_is_taken_is_counted_and_another_one_tried() {
        let mut object = deployment(2, "i:1");
        let name = |object: &Value| meta(&plan(object, &[], "now").create.unwrap(), "name").to_owned();
        let first = name(&object);
        object["status"]["collisionCount"] = json!(1);
        assert_ne!(name(&object), first);
        assert_eq!(plan(&object, &[], "now").status["collisionCount"], json!(1));
    }

    #[rstest]
    #[case(json!("25%"), 3, true, 1)]
    #[case(json!("25%"), 3, false, 0)]
    #[case(json!(2), 3, true, 2)]
    #[case(Value::Null, 3, true, 0)]
    fn limits(#[case] value: Value, #[case] of: i64, #[case] up: bool, #[case] comes_to: i64) {
        assert_eq!(percentage(Some(&value), of, up), comes_to);
    }
}
