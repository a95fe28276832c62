//! The one task behind all simulated nodes: it follows the pods and the clock and writes what [`super::lifecycle`] says.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::lifecycle::{self, Moment};
use super::{Machine, probes, scheduler};
use crate::events::{self, About};
use crate::local::{Local, NODES, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::{meta, parse};
use crate::store::{Event, EventType};

/// How long a pod that fits nowhere waits before the scheduler looks again, in milliseconds.
const RETRY: i64 = 2_000;

/// Namespace and name of a pod.
type Key = (Arc<str>, Arc<str>);

/// Runs the nodes until `stop` comes about.
///
/// # Errors
/// When the lab does not serve pods and nodes, or refuses the Node objects.
pub async fn run(
    local: &Local,
    machines: Vec<Machine>,
    stop: impl Future<Output = ()>,
) -> Result<(), ApiError> {
    for machine in &machines {
        match local.create(NODES, "", &machine.object(Timestamp::now())) {
            Err(error) if error.code() != 409 => return Err(error),
            _ => {}
        }
    }
    let mut stop = pin!(stop);
    let mut nodes = Nodes::new(local.clone(), machines);
    loop {
        let (pods, mut watch) = local.list_and_watch(PODS)?;
        nodes.restart();
        for pod in &pods {
            nodes.see(&parse(&pod.body), Timestamp::now());
        }
        loop {
            let wait = nodes.time_to_wake(Timestamp::now());
            tokio::select! {
                () = &mut stop => return Ok(()),
                batch = watch.next_batch() => match batch {
                    Ok(events) => events.iter().for_each(|event| nodes.follow(event)),
                    // Too far behind: look at everything again.
                    Err(_) => break,
                },
                () = tokio::time::sleep(wait) => nodes.wake(Timestamp::now()),
            }
        }
    }
}

/// What is known of a pod on one of the nodes.
struct Known {
    uid: String,
    machine: usize,
    addresses: Vec<IpAddr>,
    start: Timestamp,
    failures: i64,
}

struct Nodes {
    local: Local,
    machines: Vec<Machine>,
    pods: HashMap<Key, Known>,
    used: BTreeSet<IpAddr>,
    /// The last address that was given away on each node, so that one that is free again is not given at once.
    last: Vec<u32>,
    turn: usize,
    wakes: BinaryHeap<Reverse<(Timestamp, Key)>>,
}

impl Nodes {
    fn new(local: Local, machines: Vec<Machine>) -> Self {
        let last = vec![0; machines.len()];
        Self {
            local,
            machines,
            pods: HashMap::new(),
            used: BTreeSet::new(),
            last,
            turn: 0,
            wakes: BinaryHeap::new(),
        }
    }

    fn restart(&mut self) {
        self.pods.clear();
        self.used.clear();
        self.wakes.clear();
    }

    fn follow(&mut self, event: &Event) {
        let key = (Arc::clone(&event.object.namespace), Arc::clone(&event.object.name));
        if event.ty == EventType::Deleted {
            self.forget(&key);
        } else {
            // Several events of one pod may have come; only its latest version counts.
            self.look(&key, Timestamp::now());
        }
    }

    fn time_to_wake(&self, now: Timestamp) -> std::time::Duration {
        const LONG: i64 = 3_600_000;
        let wait =
            self.wakes.peek().map_or(LONG, |Reverse((at, _))| at.as_millisecond() - now.as_millisecond());
        std::time::Duration::from_millis(u64::try_from(wait).unwrap_or_default())
    }

    fn wake(&mut self, now: Timestamp) {
        while self.wakes.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, key))) = self.wakes.pop() else { return };
            self.look(&key, now);
        }
    }

    fn look(&mut self, key: &Key, now: Timestamp) {
        match self.local.get(PODS, &key.0, &key.1) {
            Some(pod) => self.see(&pod, now),
            None => self.forget(key),
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(known) = self.pods.remove(key) {
            for address in known.addresses {
                self.used.remove(&address);
            }
        }
    }

    /// Brings one pod forward to `now`.
    fn see(&mut self, pod: &Value, now: Timestamp) {
        let key: Key = (meta(pod, "namespace").into(), meta(pod, "name").into());
        if scheduler::waits(pod) {
            self.schedule(pod, key, now);
            return;
        }
        let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let Some(machine) = self.machines.iter().position(|machine| machine.name == node) else { return };
        if self.pods.get(&key).is_some_and(|known| known.uid != meta(pod, "uid")) {
            self.forget(&key);
        }
        if !self.pods.contains_key(&key) && !self.admit(&key, pod, machine, now) {
            tracing::warn!(pod = %key.1, node, "the node's pod range is full");
            self.wakes.push(Reverse((later(now, RETRY), key)));
            return;
        }
        if let Err(error) = self.advance(&key, pod, now)
            && error.code() != 404
        {
            tracing::warn!(namespace = %key.0, pod = %key.1, %error, "a simulated pod's status was refused");
        }
    }

    fn schedule(&mut self, pod: &Value, key: Key, now: Timestamp) {
        let nodes: Vec<Value> =
            self.machines.iter().filter_map(|machine| self.local.get(NODES, "", &machine.name)).collect();
        let Some(node) = scheduler::choose(pod, &nodes, self.turn).map(str::to_owned) else {
            self.wakes.push(Reverse((later(now, RETRY), key)));
            return;
        };
        self.turn = self.machines.iter().position(|machine| machine.name == node).map_or(0, |at| at + 1);
        match self.local.bind(&key.0, &key.1, &node) {
            Ok(()) => {
                let text = format!("Successfully assigned {}/{} to {node}", key.0, key.1);
                let about = About { object: pod, component: "default-scheduler", host: "" };
                events::tell(&self.local, &about, ("Normal", "Scheduled"), &text, None);
            }
            Err(error) => tracing::debug!(pod = %key.1, %error, "a pod could not be bound"),
        }
    }

    /// Takes a pod in: with the addresses it has, or new ones. False when there are none left.
    fn admit(&mut self, key: &Key, pod: &Value, machine: usize, now: Timestamp) -> bool {
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
            vec![IpAddr::V4(self.machines[machine].address)]
        } else if !has.is_empty() {
            has
        } else {
            let Some(new) = self.machines[machine].pod_addresses(&self.used, self.last[machine]) else {
                return false;
            };
            if let Some(IpAddr::V4(first)) = new.first() {
                // The range starts with its network's address and pods with the second after it.
                self.last[machine] =
                    (first.to_bits() - self.machines[machine].pods_v4.network().to_bits()).saturating_sub(1);
            }
            new
        };
        if !host_network {
            self.used.extend(&addresses);
        }
        let known = Known {
            uid: meta(pod, "uid").to_owned(),
            machine,
            addresses,
            start: started.unwrap_or(now),
            failures: 0,
        };
        self.pods.insert(key.clone(), known);
        true
    }

    fn advance(&mut self, key: &Key, pod: &Value, now: Timestamp) -> Result<(), ApiError> {
        let Some(known) = self.pods.get_mut(key) else { return Ok(()) };
        let machine = &self.machines[known.machine];
        let before = phase(pod).to_owned();
        if matches!(before.as_str(), "Failed" | "Succeeded") && meta(pod, "deletionTimestamp").is_empty() {
            return Ok(());
        }
        let moment = lifecycle::at(pod, machine, &known.addresses, known.start, now);
        if moment.ended {
            return self.local.delete(PODS, (&key.0, &key.1), Some(0), Some(&known.uid));
        }
        let about = About { object: pod, component: "kubelet", host: &machine.name };
        if let Some((container, count)) =
            moment.failed_probes.as_ref().filter(|(_, count)| *count > known.failures)
        {
            known.failures = *count;
            let path = probes::field_path(container);
            events::tell(&self.local, &about, ("Warning", "Unhealthy"), probes::FAILED, Some((path, *count)));
        }
        if let Some(next) = moment.next {
            self.wakes.push(Reverse((next, key.clone())));
        }
        if differs(pod, &moment) {
            let uid = known.uid.clone();
            let after = self.local.update_status(PODS, (&key.0, &key.1), |pod| {
                if meta(pod, "uid") == uid {
                    merge(pod, &moment);
                }
            })?;
            if before == "Pending" && phase(&after) == "Running" {
                events::tell(
                    &self.local,
                    &about,
                    ("Normal", "Started"),
                    "Started the pod's containers",
                    None,
                );
            }
        }
        Ok(())
    }
}

fn phase(pod: &Value) -> &str {
    pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default()
}

fn later(now: Timestamp, millis: i64) -> Timestamp {
    now.saturating_add(jiff::SignedDuration::from_millis(millis)).unwrap_or(now)
}

fn differs(pod: &Value, moment: &Moment) -> bool {
    let mut new = pod.clone();
    merge(&mut new, moment);
    new != *pod
}

/// Takes the kubelet's part of the status over; conditions of others stay.
fn merge(pod: &mut Value, moment: &Moment) {
    let Value::Object(fields) = &moment.status else { return };
    for (field, value) in fields {
        if field != "conditions" {
            pod["status"][field] = value.clone();
        }
    }
    let ours = moment.status["conditions"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<Value> = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for condition in ours {
        match all.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => *known = condition,
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
