//! Kills a server under write load and compares what it answered with what is there after the next start.
//!
//! Every writer has a namespace of its own, so what must be there follows from its answers alone. A write that was answered
//! must be there; the one that was under way when the server died may be there or not, but nothing else.

use std::{collections::BTreeMap, path::Path, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    case::{ServerOptions, field},
    http::{Client, HttpError, Target},
    launch::{LaunchError, Launcher},
    ledger,
};

const WRITERS: usize = 6;
/// Names a writer uses over and over.
const NAMES: usize = 12;
const LABEL: &str = "written-by";

/// Something that must not happen.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// The server does not start again.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No request gets through to a server that runs.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// What is there is not what was answered.
    #[error("after kill {round}: {}", complaints.join("\n"))]
    Lost {
        /// The round, from 1.
        round: usize,
        /// What differs.
        complaints: Vec<String>,
    },
    /// A writer panicked.
    #[error("a writer broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// What happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Servers killed.
    pub kills: usize,
    /// Writes that were answered with success.
    pub answered: usize,
    /// Writes that were under way when the server died.
    pub under_way: usize,
    /// Of these, how many had come to be.
    pub came_to_be: usize,
}

/// Kills and restarts a server over one data directory, `rounds` times. The seed decides what is written and when it dies.
pub async fn run(
    launcher: &Launcher,
    data_dir: &Path,
    rounds: usize,
    seed: u64,
) -> Result<Tally, CrashError> {
    let options = ServerOptions {
        service_cidrs: vec!["10.96.0.0/16".into(), "fd00:10:96::/112".into()],
        node_port_range: "30000-32767".into(),
    };
    let directory = data_dir.to_string_lossy();
    let arguments = ["--controllers", "none", "--data-dir", &directory];
    let mut chance = StdRng::seed_from_u64(seed);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, chance.random())).collect();
    let mut tally = Tally::default();
    for round in 0..=rounds {
        let server = launcher.start(&options, &arguments).await?;
        let complaints = inspect(&server.target, &mut writers, &mut tally).await?;
        if !complaints.is_empty() {
            return Err(CrashError::Lost { round, complaints });
        }
        if round == rounds {
            server.stop().await?;
            break;
        }
        let mut writing = JoinSet::new();
        for writer in writers.drain(..) {
            writing.spawn(writer.write(Client::new(server.target.clone())));
        }
        sleep(Duration::from_millis(chance.random_range(20..300))).await;
        server.process.kill().await.map_err(LaunchError::from)?;
        tally.kills += 1;
        while let Some(writer) = writing.join_next().await {
            writers.push(writer?);
        }
        writers.sort_by_key(|writer| writer.number);
    }
    tally.answered = writers.iter().map(|writer| writer.answered).sum();
    Ok(tally)
}

/// A write that got no answer.
#[derive(Debug, Clone, PartialEq)]
struct UnderWay {
    name: String,
    /// The label of the object it would leave; `None` for a delete.
    label: Option<String>,
}

/// Writes Services in its own namespace and remembers every answer.
struct Writer {
    number: usize,
    chance: StdRng,
    /// The last answered state by name.
    known: BTreeMap<String, Value>,
    under_way: Option<UnderWay>,
    answered: usize,
    /// Answers that were no success although nothing spoke against it.
    refused: Vec<String>,
    writes: usize,
    has_namespace: bool,
}

impl Writer {
    fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            chance: StdRng::seed_from_u64(seed),
            known: BTreeMap::new(),
            under_way: None,
            answered: 0,
            refused: Vec::new(),
            writes: 0,
            has_namespace: false,
        }
    }

    fn namespace(&self) -> String {
        format!("writer-{}", self.number)
    }

    /// Writes until the server is gone.
    async fn write(mut self, client: Client) -> Self {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace()}});
        if !self.has_namespace {
            // It may be there already, from a create that was not answered.
            let made = client.call("POST", "/api/v1/namespaces", &namespace).await;
            let Ok((201 | 409, _)) = made else { return self };
            self.has_namespace = true;
        }
        loop {
            let name = format!("s-{}", self.chance.random_range(0..NAMES));
            self.writes += 1;
            let label = format!("{}-{}", self.number, self.writes);
            let (method, path, body) = self.next_write(&name, &label);
            let label = (method != "DELETE").then_some(label);
            self.under_way = Some(UnderWay { name: name.clone(), label: label.clone() });
            match client.call(method, &path, &body).await {
                Ok((200 | 201, answer)) => {
                    self.answered += 1;
                    match label {
                        Some(_) => self.known.insert(name, stripped(answer)),
                        None => self.known.remove(&name),
                    };
                }
                Ok((code, answer)) => self.refused.push(format!("{method} {path}: {code} {answer}")),
                Err(_) => return self,
            }
            self.under_way = None;
        }
    }

    fn next_write(&mut self, name: &str, label: &str) -> (&'static str, String, Value) {
        let path = format!("/api/v1/namespaces/{}/services", self.namespace());
        let Some(current) = self.known.get(name) else {
            return ("POST", path, new_service(&mut self.chance, name, label));
        };
        let path = format!("{path}/{name}");
        match self.chance.random_range(0..3) {
            0 => ("DELETE", path, Value::Null),
            1 => ("PATCH", path, json!({"metadata": {"labels": {LABEL: label}}})),
            _ => {
                let mut changed = current.clone();
                changed["metadata"]["labels"][LABEL] = json!(label);
                if field(current, "spec.clusterIP") != Some(&json!("None")) {
                    change_type(&mut self.chance, &mut changed);
                }
                ("PUT", path, changed)
            }
        }
    }
}

fn new_service(chance: &mut StdRng, name: &str, label: &str) -> Value {
    let spec = match chance.random_range(0..5) {
        0 => json!({"clusterIP": "None", "ports": [{"port": 80}]}),
        1 => {
            json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]})
        }
        2 => json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}),
        3 => json!({"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]}),
        _ => json!({"ports": [{"port": 80}]}),
    };
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {LABEL: label}}, "spec": spec})
}

fn change_type(chance: &mut StdRng, service: &mut Value) {
    let kinds = ["ClusterIP", "NodePort", "LoadBalancer"];
    let spec = &mut service["spec"];
    spec["type"] = json!(kinds.choose(chance));
    // What belongs to the old type is left to the server.
    if let Some(spec) = spec.as_object_mut() {
        for owned in ["healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
            spec.remove(owned);
        }
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

fn stripped(mut service: Value) -> Value {
    crate::normalise::answer(&mut service);
    service
}

/// Compares what is there with what the writers know, and takes over what came to be.
async fn inspect(
    target: &Target,
    writers: &mut [Writer],
    tally: &mut Tally,
) -> Result<Vec<String>, HttpError> {
    let client = Client::new(target.clone());
    let (services, version) = list(&client, "/api/v1/services").await?;
    let (addresses, _) = list(&client, "/apis/networking.k8s.io/v1/ipaddresses").await?;
    let mut complaints = ledger::complaints(&services, &addresses);
    for writer in writers {
        complaints.append(&mut writer.refused);
        let namespace = writer.namespace();
        let there: BTreeMap<String, Value> = services
            .iter()
            .filter(|service| ledger::text(service, "metadata.namespace") == namespace)
            .map(|service| (ledger::text(service, "metadata.name"), typed(service)))
            .collect();
        let pending = writer.under_way.take();
        tally.under_way += usize::from(pending.is_some());
        if let Some(pending) = pending {
            tally.came_to_be += usize::from(take_over(&pending, &there, &mut writer.known));
        }
        for name in there.keys().chain(writer.known.keys()) {
            let (known, found) = (writer.known.get(name), there.get(name));
            if known != found {
                let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
                complaints.push(format!(
                    "{namespace}/{name}: answered {}, there is {}",
                    shown(known),
                    shown(found)
                ));
            }
        }
        let newest = writer
            .known
            .values()
            .filter_map(|service| ledger::text(service, "metadata.resourceVersion").parse().ok());
        if let Some(newest) = newest.max().filter(|newest: &u64| *newest > version) {
            complaints
                .push(format!("{namespace}: version {newest} was answered, the server is at {version}"));
        }
    }
    Ok(complaints)
}

/// Takes an unanswered write over if it came to be.
fn take_over(
    pending: &UnderWay,
    there: &BTreeMap<String, Value>,
    known: &mut BTreeMap<String, Value>,
) -> bool {
    let found = there.get(&pending.name);
    let label =
        found.and_then(|service| field(service, "metadata.labels")).and_then(|labels| labels.get(LABEL));
    match (&pending.label, found) {
        (Some(wanted), Some(service)) if label.and_then(Value::as_str) == Some(wanted) => {
            known.insert(pending.name.clone(), service.clone());
            true
        }
        (None, None) => known.remove(&pending.name).is_some(),
        _ => false,
    }
}

/// A listed Service as an answer to a request for it would show it.
fn typed(service: &Value) -> Value {
    let mut service = stripped(service.clone());
    service["kind"] = json!("Service");
    service["apiVersion"] = json!("v1");
    service
}

async fn list(client: &Client, path: &str) -> Result<(Vec<Value>, u64), HttpError> {
    let (_, list) = client.get(path).await?;
    let version = ledger::text(&list, "metadata.resourceVersion").parse().unwrap_or_default();
    Ok((field(&list, "items").and_then(Value::as_array).cloned().unwrap_or_default(), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_write_is_taken_over_only_if_it_came_to_be() {
        let service = |label: &str| json!({"metadata": {"name": "a", "labels": {LABEL: label}}});
        let there = BTreeMap::from([("a".to_owned(), service("1-2"))]);
        let pending =
            |label: Option<&str>| UnderWay { name: "a".into(), label: label.map(ToOwned::to_owned) };
        let mut known = BTreeMap::from([("a".to_owned(), service("1-1"))]);
        assert!(!take_over(&pending(Some("1-3")), &there, &mut known));
        assert!(!take_over(&pending(None), &there, &mut known));
        assert!(take_over(&pending(Some("1-2")), &there, &mut known));
        assert_eq!(known, there);
        assert!(take_over(&pending(None), &BTreeMap::new(), &mut known));
        assert!(known.is_empty());
    }
}
