//! The kubelets of the simulated nodes: they give pods their addresses, report what [`super::lifecycle`] says of them,
//! and finish their deletion.
//!
//! A kubelet whose node is not ready by its own word reports no pod and still finishes deletions; one that nobody hears of
//! (`Ready` is `Unknown`) does neither. It never places a pod.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::lifecycle::{self, Moment, PodEvent};
use super::probes::ProbeKind;
use super::probing::{Due, Ended, Found, Probing};
use super::taints::Readiness;
use super::{Key, SimulatedNode};
use crate::events::{self, About, Repeated};
use crate::local::{Local, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::{meta, meta_list};

/// What is known of a pod on one of the nodes.
struct Known {
    uid: String,
    node: usize,
    addresses: Vec<IpAddr>,
    start: Timestamp,
    told: HashMap<String, i64>,
    /// What its probes found, if they are asked.
    probing: Option<Probing>,
    /// When it is looked at again, as was said last.
    wake: Option<Timestamp>,
    /// It has not ended, so it takes room on its node.
    active: bool,
}

/// The kubelets of all nodes.
pub(super) struct Kubelets {
    local: Local,
    pub(super) simulated_nodes: Vec<SimulatedNode>,
    pods: HashMap<Key, Known>,
    used: BTreeSet<IpAddr>,
    /// The place of the last address that was given away on each node, so that one that is free again is not given at once.
    last: Vec<u32>,
    load: Vec<usize>,
    /// Whether probes are asked, and those that are to be asked now.
    asks: bool,
    asked: Vec<Ask>,
}

/// A probe that somebody is to ask now.
#[derive(Debug)]
pub(super) struct Ask {
    /// The pod.
    pub key: Key,
    /// Which of that name.
    pub uid: String,
    /// What is asked.
    pub due: Due,
    /// The container in the pod's spec.
    pub container: Value,
    /// The probe in it.
    pub probe: Value,
}

/// A node has no address left for a pod.
pub(super) struct Full;

impl Kubelets {
    /// The kubelets of these nodes; `asks`: their pods run and can be asked.
    pub(super) fn new(local: Local, simulated_nodes: Vec<SimulatedNode>, asks: bool) -> Self {
        let (last, load) = (vec![0; simulated_nodes.len()], vec![0; simulated_nodes.len()]);
        let (pods, used, asked) = (HashMap::new(), BTreeSet::new(), Vec::new());
        Self { local, simulated_nodes, pods, used, last, load, asks, asked }
    }

    /// The probes that are to be asked now, each once.
    pub(super) fn asked(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asked)
    }

    /// Takes in what a probe found; the pod is then to be looked at.
    pub(super) fn found(&mut self, ask: &Ask, found: &Found, now: Timestamp) {
        let known = self.pods.get_mut(&ask.key).filter(|known| known.uid == ask.uid);
        if let Some(probing) = known.and_then(|known| known.probing.as_mut()) {
            probing.found(&ask.due, found, now);
        }
    }

    /// Takes in what has ended by itself; the pod is then to be looked at.
    pub(super) fn ended(&mut self, key: &Key, what: &Ended, now: Timestamp) {
        if let Some(probing) = self.pods.get_mut(key).and_then(|known| known.probing.as_mut()) {
            match what {
                Ended::Container { name, code } => probing.exited(name, *code, now),
                Ended::Evicted(why) => probing.evicted(why, now),
            }
        }
    }

    /// Forgets all pods.
    pub(super) fn clear(&mut self) {
        self.pods.clear();
        self.used.clear();
        self.load.fill(0);
    }

    /// The number of the node of that name.
    pub(super) fn number(&self, node: &str) -> Option<usize> {
        self.simulated_nodes.iter().position(|simulated| simulated.name == node)
    }

    /// How many pods that have not ended are on the node.
    pub(super) fn load(&self, node: usize) -> usize {
        self.load.get(node).copied().unwrap_or_default()
    }

    /// The pods on the node.
    pub(super) fn pods_on(&self, node: usize) -> Vec<Key> {
        let on = self.pods.iter().filter(|(_, known)| known.node == node);
        on.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn forget(&mut self, key: &Key) {
        let Some(known) = self.pods.remove(key) else { return };
        for address in known.addresses {
            self.used.remove(&address);
        }
        self.load[known.node] -= usize::from(known.active);
    }

    /// Brings a pod on a node forward to `now`; gives when to look again.
    pub(super) fn see(
        &mut self,
        key: &Key,
        pod: &Value,
        (node, readiness): (usize, Readiness),
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Full> {
        if self.pods.get(key).is_some_and(|known| known.uid != meta(pod, "uid") || known.node != node) {
            self.forget(key);
        }
        if !self.pods.contains_key(key) && !self.admit(key, pod, node, now) {
            return Err(Full);
        }
        self.count(key, pod);
        let deleted = !meta(pod, "deletionTimestamp").is_empty();
        let acts = match readiness {
            Readiness::Ready | Readiness::Unsaid => true,
            Readiness::NotReady => deleted,
            Readiness::Unknown => false,
        };
        if !acts || (has_ended(pod) && !deleted) {
            return Ok(None);
        }
        match self.advance(key, pod, now) {
            Ok(next) => return Ok(self.news(key, next)),
            Err(error) if error.code() == 404 => {}
            Err(error) => {
                tracing::warn!(namespace = %key.0, pod = %key.1, %error, "a simulated pod's status was refused");
            }
        }
        Ok(None)
    }

    /// When to look at the pod again, unless that was said before.
    fn news(&mut self, key: &Key, next: Option<Timestamp>) -> Option<Timestamp> {
        let known = self.pods.get_mut(key)?;
        if known.wake == next {
            return None;
        }
        known.wake = next;
        next
    }

    fn count(&mut self, key: &Key, pod: &Value) {
        let Some(known) = self.pods.get_mut(key) else { return };
        let active = !has_ended(pod);
        self.load[known.node] += usize::from(active);
        self.load[known.node] -= usize::from(known.active);
        known.active = active;
    }

    /// Takes a pod in: with the addresses it has, or new ones. False when there are none left.
    fn admit(&mut self, key: &Key, pod: &Value, node: usize, now: Timestamp) -> bool {
        let host_network = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or_default();
        let has: Vec<IpAddr> = pod
            .pointer("/status/podIPs")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.get("ip")?.as_str()?.parse().ok())
            .collect();
        let started =
            pod.pointer("/status/startTime").and_then(Value::as_str).and_then(|time| time.parse().ok());
        let addresses = if host_network {
            self.simulated_nodes[node].addresses.clone()
        } else if has.is_empty() {
            let new = self.simulated_nodes[node].pod_addresses(&self.used, self.last[node]);
            let Some((new, last)) = new else { return false };
            self.last[node] = last;
            new
        } else {
            has
        };
        if !host_network {
            self.used.extend(&addresses);
        }
        let known = Known {
            uid: meta(pod, "uid").to_owned(),
            node,
            addresses,
            start: started.unwrap_or(now),
            told: HashMap::new(),
            probing: self.asks.then(|| Probing::of(pod)),
            wake: None,
            active: false,
        };
        self.pods.insert(key.clone(), known);
        true
    }

    fn advance(&mut self, key: &Key, pod: &Value, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
        let Some(known) = self.pods.get_mut(key) else { return Ok(None) };
        let simulated = &self.simulated_nodes[known.node];
        let place = (known.addresses.as_slice(), known.start);
        let mut moment = lifecycle::at(pod, simulated, place, known.probing.as_ref(), now);
        if let Some(probing) = &mut known.probing {
            self.asked.extend(ask(probing, (key, pod), &moment, now));
            moment.next = [moment.next, probing.next()].into_iter().flatten().min();
        }
        // What holds the object shows that its containers are gone.
        if moment.ended && meta_list(pod, "finalizers").is_empty() || has_ended(pod) {
            if moment.ended {
                self.local.delete(PODS, (&key.0, &key.1), Some(0), Some(&known.uid))?;
            }
            return Ok(moment.next);
        }
        let about = About { object: pod, component: "kubelet", host: &simulated.name };
        for event in &moment.happened {
            let count = known.told.entry(event.key.clone()).or_default();
            if event.count > *count {
                *count = event.count;
                tell(&self.local, &about, event);
            }
        }
        if differs(pod, &moment) {
            let after = self.local.update_status(PODS, (&key.0, &key.1), |pod| {
                if meta(pod, "uid") == known.uid {
                    merge(pod, &moment);
                }
            })?;
            if phase(pod) == "Pending" && phase(&after) == "Running" {
                let text = "Started the pod's containers";
                events::tell(&self.local, &about, ("Normal", "Started"), text, None);
            }
        }
        if moment.ended {
            self.local.delete(PODS, (&key.0, &key.1), Some(0), Some(&known.uid))?;
        }
        Ok(moment.next)
    }
}

/// What is to be asked of a pod now.
fn ask(probing: &mut Probing, (key, pod): (&Key, &Value), moment: &Moment, now: Timestamp) -> Vec<Ask> {
    let deleted = !meta(pod, "deletionTimestamp").is_empty();
    probing.run(moment.running.iter().map(|(name, begun)| (name.as_str(), *begun)), deleted, now);
    let spec = |name: &str| {
        let lists = ["/spec/containers", "/spec/initContainers"];
        let mut all = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
        all.find(|container| container["name"] == name).cloned()
    };
    let due = probing.due(now).into_iter();
    let asks = due.filter_map(|due| {
        let container = spec(probing.name(due.container))?;
        let probe = container.get(ProbeKind::field(due.kind))?.clone();
        Some(Ask { key: key.clone(), uid: meta(pod, "uid").to_owned(), due, container, probe })
    });
    asks.collect()
}

fn tell(local: &Local, about: &About<'_>, event: &PodEvent) {
    let repeated = Repeated { path: event.path.clone(), key: &event.key, count: event.count };
    events::tell(local, about, (event.kind, event.reason), &event.message, Some(repeated));
}

fn phase(pod: &Value) -> &str {
    pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default()
}

fn has_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

fn differs(pod: &Value, moment: &Moment) -> bool {
    let mut new = pod.clone();
    merge(&mut new, moment);
    new != *pod
}

/// Takes the kubelet's part of the status over; conditions of others stay, and so does the time of one that says the same.
fn merge(pod: &mut Value, moment: &Moment) {
    let Value::Object(fields) = &moment.status else { return };
    for (field, value) in fields {
        if field != "conditions" {
            pod["status"][field] = value.clone();
        }
    }
    let ours = moment.status["conditions"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<Value> = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for mut condition in ours {
        match all.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => {
                if known["status"] == condition["status"] {
                    condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
                }
                *known = condition;
            }
            None => all.push(condition),
        }
    }
    // A pod that was created on its node never saw a scheduler.
    if all.iter().all(|known| known["type"] != "PodScheduled") {
        all.push(json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": moment.status["startTime"],
        }));
    }
    pod["status"]["conditions"] = json!(all);
}
