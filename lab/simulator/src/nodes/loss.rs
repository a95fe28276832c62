//! What happens to a node's pods when the node is lost: stand-ins for upstream's node lifecycle controller, taint eviction
//! controller and pod garbage collector.
//!
//! A node whose condition `Ready` is not `True` is tainted and its pods are no longer ready; pods that do not tolerate a
//! taint `NoExecute` (or no longer) are deleted; pods of a node that is gone are removed after a while. What is due is
//! decided by a pure function ([`judge`]). Heartbeats are not watched: a node is lost when somebody says so.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Key;
use super::taints::{self, Readiness};
use crate::events::{self, About};
use crate::local::{Local, NODES, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::{meta, parse, time_text};
use crate::store::{Event, EventType};

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long a node must be gone before its pods are removed.
    pub quarantine: SignedDuration,
}

impl Default for Times {
    /// As upstream.
    fn default() -> Self {
        Self { quarantine: SignedDuration::from_secs(40) }
    }
}

/// Watches over nodes and their pods until `stop` comes about.
///
/// # Errors
/// When the lab does not serve pods and nodes.
pub async fn run(local: &Local, times: Times, stop: impl Future<Output = ()>) -> Result<(), ApiError> {
    let mut stop = pin!(stop);
    loop {
        let (nodes, mut node_watch) = local.list_and_watch(NODES)?;
        let (pods, mut pod_watch) = local.list_and_watch(PODS)?;
        let mut keeper = Keeper::new(local.clone(), times);
        for pod in &pods {
            keeper.place(&parse(&pod.body));
        }
        for node in &nodes {
            keeper.see_node(parse(&node.body), Timestamp::now());
        }
        keeper.look_at_all(Timestamp::now());
        loop {
            let followed = tokio::select! {
                () = &mut stop => return Ok(()),
                batch = node_watch.next_batch() => batch.map(|events| {
                    for event in events {
                        keeper.follow_node(&event, Timestamp::now());
                    }
                }),
                batch = pod_watch.next_batch() => batch.map(|events| {
                    for event in events {
                        keeper.follow_pod(&event, Timestamp::now());
                    }
                }),
                () = tokio::time::sleep(keeper.time_to_wake(Timestamp::now())) => {
                    keeper.wake(Timestamp::now());
                    Ok(())
                }
            };
            // Too far behind: look at everything again.
            if followed.is_err() {
                break;
            }
        }
    }
}

/// A node, or the place where one was.
#[derive(Clone, Debug)]
enum Seen {
    /// The Node object, and since when it has its taints.
    Here(Value, Timestamp),
    /// There is none since then.
    Gone(Timestamp),
}

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays; it is looked at again then.
    Stays(Option<Timestamp>),
    /// Its node is gone: the object is removed.
    Orphaned,
    /// Its node was given up and it is being deleted: the object is removed.
    GivenUp,
    /// It does not tolerate its node's taints: it is deleted.
    Evicted,
}

/// What is due for a pod because of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judgement {
    /// It is said to be ready and can not be.
    unready: bool,
    fate: Fate,
}

fn judge(pod: &Value, node: &Seen, times: Times, now: Timestamp) -> Judgement {
    let deleted = !meta(pod, "deletionTimestamp").is_empty();
    match node {
        Seen::Gone(since) => {
            let end = since.saturating_add(times.quarantine).unwrap_or(Timestamp::MAX);
            let fate = if end <= now { Fate::Orphaned } else { Fate::Stays(Some(end)) };
            Judgement { unready: false, fate }
        }
        Seen::Here(node, since) => {
            let lost = matches!(taints::readiness(node), Readiness::NotReady | Readiness::Unknown);
            let fate = match taints::evicted_at(node, pod, *since) {
                _ if deleted && taints::is_given_up(node) => Fate::GivenUp,
                Some(end) if end <= now && !deleted => Fate::Evicted,
                end => Fate::Stays(end.filter(|_| !deleted)),
            };
            Judgement { unready: lost && is_ready(pod), fate }
        }
    }
}

struct Keeper {
    local: Local,
    times: Times,
    nodes: HashMap<String, Seen>,
    /// The pods of each node, whether there is one or not.
    pods: HashMap<String, BTreeSet<Key>>,
    /// When pods are looked at again. One is looked at for each of its events; one wake for one moment is enough.
    wakes: BTreeSet<(Timestamp, Key)>,
}

impl Keeper {
    fn new(local: Local, times: Times) -> Self {
        Self { local, times, nodes: HashMap::new(), pods: HashMap::new(), wakes: BTreeSet::new() }
    }

    fn place(&mut self, pod: &Value) {
        let node = node_of(pod);
        if !node.is_empty() {
            let key = (meta(pod, "namespace").into(), meta(pod, "name").into());
            self.pods.entry(node.to_owned()).or_default().insert(key);
        }
    }

    fn follow_pod(&mut self, event: &Event, now: Timestamp) {
        let key = (Arc::clone(&event.object.namespace), Arc::clone(&event.object.name));
        let pod = parse(&event.object.body);
        if event.ty == EventType::Deleted {
            if let Some(pods) = self.pods.get_mut(node_of(&pod)) {
                pods.remove(&key);
                if pods.is_empty() {
                    self.pods.remove(node_of(&pod));
                }
            }
            return;
        }
        self.place(&pod);
        self.look(&key, now);
    }

    fn follow_node(&mut self, event: &Event, now: Timestamp) {
        let name = event.object.name.to_string();
        if event.ty == EventType::Deleted {
            self.nodes.remove(&name);
        } else {
            self.see_node(parse(&event.object.body), now);
        }
        self.look_at_pods_of(&name, now);
    }

    fn see_node(&mut self, node: Value, now: Timestamp) {
        let name = meta(&node, "name").to_owned();
        let before = self.nodes.get(&name);
        let since = match before {
            Some(Seen::Here(before, since)) if taints::of(before) == taints::of(&node) => *since,
            _ => now,
        };
        let was_ready =
            matches!(before, Some(Seen::Here(before, _)) if taints::readiness(before) == Readiness::Ready);
        let lost = matches!(taints::readiness(&node), Readiness::NotReady | Readiness::Unknown);
        if was_ready && lost {
            let about = About { object: &node, component: "node-controller", host: "" };
            let text = format!("Node {name} status is now: NodeNotReady");
            events::tell(&self.local, &about, ("Normal", "NodeNotReady"), &text, None);
        }
        if let Some(taints) = taints::corrected(&node, now) {
            let done = self.local.update(NODES, ("", &name), |node| node["spec"]["taints"] = json!(taints));
            told(&name, done);
        }
        self.nodes.insert(name, Seen::Here(node, since));
    }

    fn look_at_all(&mut self, now: Timestamp) {
        for node in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.look_at_pods_of(&node, now);
        }
    }

    fn look_at_pods_of(&mut self, node: &str, now: Timestamp) {
        for key in self.pods.get(node).cloned().unwrap_or_default() {
            self.look(&key, now);
        }
    }

    fn time_to_wake(&self, now: Timestamp) -> std::time::Duration {
        const LONG: i64 = 3_600_000;
        let wait = self.wakes.first().map_or(LONG, |(at, _)| at.as_millisecond() - now.as_millisecond() + 1);
        std::time::Duration::from_millis(u64::try_from(wait).unwrap_or_default())
    }

    fn wake(&mut self, now: Timestamp) {
        let mut due = BTreeSet::new();
        while self.wakes.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.wakes.pop_first().map(|(_, key)| key));
        }
        for key in due {
            self.look(&key, now);
        }
    }

    /// Does what is due for a pod.
    fn look(&mut self, key: &Key, now: Timestamp) {
        let Some(pod) = self.local.get(PODS, &key.0, &key.1) else { return };
        let name = node_of(&pod);
        if name.is_empty() {
            return;
        }
        let node = self.nodes.entry(name.to_owned()).or_insert(Seen::Gone(now));
        let judgement = judge(&pod, node, self.times, now);
        if judgement.unready {
            let done = self.local.update_status(PODS, (&key.0, &key.1), |pod| mark_unready(pod, now));
            told(&key.1, done);
            let about = About { object: &pod, component: "node-controller", host: "" };
            events::tell(&self.local, &about, ("Warning", "NodeNotReady"), "Node is not ready", None);
        }
        match judgement.fate {
            Fate::Stays(None) => {}
            Fate::Stays(Some(again)) => {
                self.wakes.insert((again, key.clone()));
            }
            // A pod's event may overtake its node's, as a node is made again: the store knows.
            Fate::Orphaned if self.local.get(NODES, "", name).is_some() => {}
            Fate::Orphaned => {
                let why = ("DeletionByPodGC", "PodGC: node no longer exists");
                self.remove(key, &pod, Some(why), now);
            }
            Fate::GivenUp => self.remove(key, &pod, None, now),
            Fate::Evicted => self.evict(key, &pod, now),
        }
    }

    /// Removes the object of a pod that no kubelet will report on any more.
    fn remove(&self, key: &Key, pod: &Value, why: Option<(&str, &str)>, now: Timestamp) {
        let place = (&*key.0, &*key.1);
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if !ended {
            let done = self.local.update_status(PODS, place, |pod| {
                pod["status"]["phase"] = json!("Failed");
                if let Some(why) = why {
                    mark_disrupted(pod, why, now);
                }
            });
            told(place.1, done);
        }
        told(place.1, self.local.delete(PODS, place, Some(0), Some(meta(pod, "uid"))));
    }

    fn evict(&self, key: &Key, pod: &Value, now: Timestamp) {
        let place = (&*key.0, &*key.1);
        let about = About { object: pod, component: "taint-eviction-controller", host: "" };
        let text = format!("Marking for deletion Pod {}/{}", place.0, place.1);
        events::tell(&self.local, &about, ("Normal", "TaintManagerEviction"), &text, None);
        let why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        told(place.1, self.local.update_status(PODS, place, |pod| mark_disrupted(pod, why, now)));
        told(place.1, self.local.delete(PODS, place, None, Some(meta(pod, "uid"))));
    }
}

/// What is gone meanwhile needs nothing any more; other refusals are told.
fn told<T>(name: &str, done: Result<T, ApiError>) {
    if let Err(error) = done
        && error.code() != 404
    {
        tracing::warn!(name, %error, "what a lost node asks for was refused");
    }
}

fn node_of(pod: &Value) -> &str {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn mark_unready(pod: &mut Value, now: Timestamp) {
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter(|condition| condition["type"] == "Ready") {
        if condition["status"] == "True" {
            condition["status"] = json!("False");
            condition["lastTransitionTime"] = json!(time_text(now));
        }
    }
}

fn mark_disrupted(pod: &mut Value, (reason, message): (&str, &str), now: Timestamp) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message, "lastProbeTime": null,
        "lastTransitionTime": time_text(now),
    });
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(list) = conditions {
        list.retain(|known| known["type"] != "DisruptionTarget");
        list.push(condition);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_pod_whose_node_is_there_stays_though_the_node_was_not_heard_of() {
        let local = Local::new(testing::api(), "keeper");
        local.create(NODES, "", &json!({"metadata": {"name": "back"}})).unwrap();
        for (name, node) in [("kept", "back"), ("orphan", "gone")] {
            let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i:1"}]});
            local.create(PODS, "default", &json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        }
        let mut keeper = Keeper::new(local.clone(), Times { quarantine: SignedDuration::ZERO });
        for pod in local.list(PODS, None) {
            keeper.place(&pod);
        }
        keeper.look_at_all(at(100));
        let pods = local.list(PODS, None);
        assert_eq!(pods.iter().map(|pod| meta(pod, "name")).collect::<Vec<_>>(), ["kept"]);
    }

    fn node(ready: &str, taints: &Value) -> Seen {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        Seen::Here(json!({"spec": {"taints": taints}, "status": {"conditions": conditions}}), at(100))
    }

    fn pod(deleted: bool) -> Value {
        let mut pod = json!({
            "metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            "spec": {"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}]},
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        pod
    }

    #[rstest]
    #[case::ready(node("True", &json!([])), false, 1000, (false, Fate::Stays(None)))]
    #[case::unknown(node("Unknown", &json!([])), false, 1000, (true, Fate::Stays(None)))]
    #[case::tolerated_for_a_while(node("Unknown", &json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])),
        false, 399, (true, Fate::Stays(Some(at(400)))))]
    #[case::no_longer_tolerated(node("Unknown", &json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])),
        false, 400, (true, Fate::Evicted))]
    #[case::evicted_once(node("Unknown", &json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])),
        true, 400, (true, Fate::Stays(None)))]
    #[case::not_tolerated(node("True", &json!([{"key": "mine", "effect": "NoExecute"}])), false, 100, (false, Fate::Evicted))]
    #[case::given_up(node("Unknown", &json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}])),
        true, 100, (true, Fate::GivenUp))]
    #[case::gone_a_moment_ago(Seen::Gone(at(100)), false, 139, (false, Fate::Stays(Some(at(140)))))]
    #[case::gone(Seen::Gone(at(100)), false, 140, (false, Fate::Orphaned))]
    #[case::gone_while_it_ended(Seen::Gone(at(100)), true, 140, (false, Fate::Orphaned))]
    fn a_pod_shares_its_nodes_fate(
        #[case] node: Seen,
        #[case] deleted: bool,
        #[case] now: i64,
        #[case] (unready, fate): (bool, Fate),
    ) {
        assert_eq!(judge(&pod(deleted), &node, Times::default(), at(now)), Judgement { unready, fate });
    }
}
