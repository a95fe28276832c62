//! The one task behind all simulated nodes: it follows nodes, pods and the clock, places pods and wakes their kubelets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kubelet::{Ask, Kubelets};
use super::probing::{Ended, Found};
use super::scheduler::{self, Candidate, Unschedulable};
use super::taints::{self, Readiness};
use super::{Key, SimulatedNode, registration};
use crate::events::{self, About};
use crate::local::{Local, NODES, PODS};
use crate::registry::error::ApiError;
use crate::registry::object::{meta, parse, time_text};
use crate::store::{Event, EventType};

/// How long a pod that fits nowhere waits before the scheduler looks again, in milliseconds.
const RETRY: i64 = 2_000;

/// A probe of a container, to be asked of a pod that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container, as in the pod's spec.
    pub container: Value,
    /// The probe, as in the container.
    pub probe: Value,
}

/// What asks the probes of pods that run, and knows what ends in them by itself.
pub trait Prober: Send + Sync {
    /// Asks a probe, within its own timeout.
    fn ask(&self, request: ProbeRequest) -> BoxFuture<'static, Found>;

    /// The next end: namespace and name of a pod, and what has ended there.
    fn ended(&self) -> BoxFuture<'_, (String, String, Ended)>;
}

/// Runs the nodes until `stop` comes about. With a prober pods run, and their probes are asked; without one they go by the clock.
///
/// # Errors
/// When the lab does not serve pods and nodes, or refuses the Node objects.
pub async fn run(
    local: &Local,
    simulated_nodes: Vec<SimulatedNode>,
    prober: Option<Arc<dyn Prober>>,
    stop: impl Future<Output = ()>,
) -> Result<(), ApiError> {
    registration::register(local, &simulated_nodes, Timestamp::now())?;
    let mut stop = pin!(stop);
    let mut simulation = Simulation::new(local.clone(), simulated_nodes, prober.is_some());
    let mut answers = JoinSet::new();
    loop {
        let (nodes, mut node_watch) = local.list_and_watch(NODES)?;
        let (pods, mut pod_watch) = local.list_and_watch(PODS)?;
        simulation.restart();
        for node in &nodes {
            simulation.see_node(parse(&node.body), Timestamp::now());
        }
        for pod in &pods {
            simulation.see(&parse(&pod.body), Timestamp::now());
        }
        loop {
            if let Some(prober) = &prober {
                for ask in simulation.kubelets.asked() {
                    answers.spawn(answer(Arc::clone(prober), ask));
                }
            }
            let wait = simulation.time_to_wake(Timestamp::now());
            let followed = tokio::select! {
                () = &mut stop => return Ok(()),
                Some(answered) = answers.join_next() => {
                    if let Ok((ask, found)) = answered {
                        simulation.found(&ask, &found);
                    }
                    Ok(())
                }
                (namespace, pod, what) = ended(prober.as_deref()) => {
                    simulation.ended(&(namespace.into(), pod.into()), &what);
                    Ok(())
                }
                batch = node_watch.next_batch() => batch.map(|events| {
                    for event in events {
                        simulation.follow_node(&event);
                    }
                }),
                // A pod is placed by the nodes as they are when it is there: what came of them goes first.
                batch = pod_watch.next_batch() => batch.and_then(|events| {
                    for event in node_watch.poll()? {
                        simulation.follow_node(&event);
                    }
                    for event in events {
                        simulation.follow(&event);
                    }
                    Ok(())
                }),
                () = tokio::time::sleep(wait) => {
                    simulation.wake(Timestamp::now());
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

/// Asks a probe.
async fn answer(prober: Arc<dyn Prober>, ask: Ask) -> (Ask, Found) {
    let (namespace, pod) = (ask.key.0.to_string(), ask.key.1.to_string());
    let request = ProbeRequest { namespace, pod, container: ask.container.clone(), probe: ask.probe.clone() };
    let found = prober.ask(request).await;
    (ask, found)
}

/// What ends next; nothing of pods that do not run.
async fn ended(prober: Option<&dyn Prober>) -> (String, String, Ended) {
    match prober {
        Some(prober) => prober.ended().await,
        None => std::future::pending().await,
    }
}

struct Simulation {
    local: Local,
    kubelets: Kubelets,
    /// The Node object of each node, while there is one.
    nodes: Vec<Option<Value>>,
    /// Pods that fit nowhere: what their Events said last, and when they are looked at again.
    pending: HashMap<Key, (String, Timestamp)>,
    /// The node that the last pod went to.
    last: Option<usize>,
    wakes: BinaryHeap<Reverse<(Timestamp, Key)>>,
}

impl Simulation {
    fn new(local: Local, simulated_nodes: Vec<SimulatedNode>, asks: bool) -> Self {
        let nodes = vec![None; simulated_nodes.len()];
        let kubelets = Kubelets::new(local.clone(), simulated_nodes, asks);
        Self { local, kubelets, nodes, pending: HashMap::new(), last: None, wakes: BinaryHeap::new() }
    }

    fn restart(&mut self) {
        self.kubelets.clear();
        self.nodes.fill(None);
        self.pending.clear();
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

    fn found(&mut self, ask: &Ask, found: &Found) {
        let now = Timestamp::now();
        self.kubelets.found(ask, found, now);
        self.look(&ask.key, now);
    }

    fn ended(&mut self, key: &Key, what: &Ended) {
        let now = Timestamp::now();
        self.kubelets.ended(key, what, now);
        self.look(key, now);
    }

    fn follow_node(&mut self, event: &Event) {
        let now = Timestamp::now();
        if event.ty != EventType::Deleted {
            self.see_node(parse(&event.object.body), now);
        } else if let Some(number) = self.kubelets.number(&event.object.name) {
            self.nodes[number] = None;
        }
    }

    /// Takes a Node in. What its pods do may depend on it, and pods that wait may fit now.
    fn see_node(&mut self, node: Value, now: Timestamp) {
        let Some(number) = self.kubelets.number(meta(&node, "name")) else { return };
        if taints::readiness(&node) == Readiness::Unsaid {
            // Somebody made it anew: its kubelet says what it is.
            let simulated = &self.kubelets.simulated_nodes[number];
            if let Err(error) = registration::report(&self.local, simulated, now) {
                tracing::warn!(node = simulated.name, %error, "a simulated node could not report");
            }
        }
        let before = self.readiness(number);
        self.nodes[number] = Some(node);
        if before != self.readiness(number) {
            for key in self.kubelets.pods_on(number) {
                self.look(&key, now);
            }
        }
        for key in self.pending.keys().cloned().collect::<Vec<_>>() {
            self.look(&key, now);
        }
    }

    /// What is heard of a node; the kubelet of one without a Node runs on.
    fn readiness(&self, number: usize) -> Readiness {
        self.nodes[number].as_ref().map_or(Readiness::Unsaid, taints::readiness)
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
        self.kubelets.forget(key);
        self.pending.remove(key);
    }

    /// Brings one pod forward to `now`.
    fn see(&mut self, pod: &Value, now: Timestamp) {
        let key: Key = (meta(pod, "namespace").into(), meta(pod, "name").into());
        if scheduler::waits(pod) {
            self.schedule(pod, &key, now);
            return;
        }
        self.pending.remove(&key);
        let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let Some(number) = self.kubelets.number(node) else { return };
        let readiness = self.readiness(number);
        if let Ok(next) = self.kubelets.see(&key, pod, (number, readiness), now) {
            self.wakes.extend(next.map(|next| Reverse((next, key))));
        } else {
            tracing::warn!(pod = %key.1, node, "the node's pod range is full");
            self.wakes.push(Reverse((later(now, RETRY), key)));
        }
    }

    fn schedule(&mut self, pod: &Value, key: &Key, now: Timestamp) {
        let candidates: Vec<Candidate<'_>> = self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(number, node)| {
                Some(Candidate { number, node: node.as_ref()?, pods: self.kubelets.load(number) })
            })
            .collect();
        let number = match scheduler::choose(pod, &candidates, self.last) {
            Ok(number) => number,
            Err(reason) => return self.wait(pod, key, &reason, now),
        };
        let node = self.kubelets.simulated_nodes[number].name.clone();
        match self.local.bind(&key.0, &key.1, &node) {
            Ok(()) => {
                self.last = Some(number);
                let text = format!("Successfully assigned {}/{} to {node}", key.0, key.1);
                let about = About { object: pod, component: "default-scheduler", host: "" };
                events::tell(&self.local, &about, ("Normal", "Scheduled"), &text, None);
                // It takes its room at once, not when its event comes.
                self.look(key, now);
            }
            Err(error) => tracing::debug!(pod = %key.1, %error, "a pod could not be bound"),
        }
    }

    /// Says why a pod fits nowhere, once for each reason, and has it looked at again.
    fn wait(&mut self, pod: &Value, key: &Key, reason: &Unschedulable, now: Timestamp) {
        let message = &reason.0;
        let (told, again) = self.pending.get(key).cloned().unwrap_or_default();
        let next = if again > now { again } else { later(now, RETRY) };
        if next != again {
            self.wakes.push(Reverse((next, key.clone())));
        }
        self.pending.insert(key.clone(), (message.clone(), next));
        if told == *message {
            return;
        }
        let about = About { object: pod, component: "default-scheduler", host: "" };
        events::tell(&self.local, &about, ("Warning", "FailedScheduling"), message, None);
        let noted = self.local.update_status(PODS, (&key.0, &key.1), |pod| {
            mark_unschedulable(pod, message, now);
        });
        if let Err(error) = noted {
            tracing::debug!(pod = %key.1, %error, "a pod could not be marked unschedulable");
        }
    }
}

/// Sets the condition `PodScheduled`.
fn mark_unschedulable(pod: &mut Value, message: &str, now: Timestamp) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return };
    let known = list.iter().position(|known| known["type"] == "PodScheduled");
    let since = known.map(|at| list.remove(at)).filter(|known| known["status"] == "False");
    list.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": since.map_or(json!(time_text(now)), |known| known["lastTransitionTime"].clone()),
    }));
}

fn later(now: Timestamp, millis: i64) -> Timestamp {
    now.saturating_add(jiff::SignedDuration::from_millis(millis)).unwrap_or(now)
}
