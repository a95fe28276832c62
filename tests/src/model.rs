//! Random operations on Services over HTTP, held against a simple model: which addresses and ports are taken, and so what the
//! next answer must be. The ranges are small, so that they run full.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::Path,
};

use ipnet::IpNet;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use crate::{
    case::{ServerOptions, field},
    http::{Client, HttpError},
    launch::{LaunchError, Launcher, Server},
    ledger,
    placeholder::{Placeholder, PortRange},
};

const CIDRS: [&str; 2] = ["10.20.0.32/27", "fd00:20::/124"];
const PORTS: PortRange = PortRange { first: 30000, last: 30023 };
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Names that are used over and over, more than there are addresses.
const NAMES: usize = 40;

/// Something that must not happen.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The server does not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The answer is not what the model says.
    #[error("operation {number} (seed {seed}), {what}: {complaint}")]
    Differs {
        /// The operation, from 0.
        number: usize,
        /// The seed of the run.
        seed: u64,
        /// What was done.
        what: String,
        /// What is wrong.
        complaint: String,
    },
}

/// How often each outcome was seen: a run that never fills a range shows little.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Creates and updates that succeeded.
    pub written: usize,
    /// Deletes.
    pub deleted: usize,
    /// Refused because a value was taken.
    pub taken: usize,
    /// Refused because a range was full.
    pub full: usize,
    /// Restarts.
    pub restarts: usize,
}

/// What a Service is to have.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    kind: &'static str,
    dual: bool,
    /// A cluster IP that is asked for.
    ip: Option<String>,
    /// Node ports that are asked for, `None` for any; one for each port.
    ports: Vec<Option<u64>>,
    local: bool,
}

impl Wanted {
    fn has_cluster_ip(&self) -> bool {
        !matches!(self.kind, "None" | "ExternalName")
    }

    fn is_exposed(&self) -> bool {
        matches!(self.kind, "NodePort" | "LoadBalancer")
    }

    fn has_health_check(&self) -> bool {
        self.kind == "LoadBalancer" && self.local
    }
}

/// What is taken, seen from one Service: by all others.
#[derive(Debug, Clone, Default, PartialEq)]
struct Taken {
    ips: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

/// Why a write must be refused; it succeeds if neither holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Prediction {
    /// A value that is asked for is taken: the user's mistake.
    taken: bool,
    /// Nothing is left: not the user's mistake.
    full: bool,
}

/// Runs random operations on a server with a data directory that is restarted in between.
pub async fn run(
    launcher: &Launcher,
    data_dir: &Path,
    operations: usize,
    seed: u64,
) -> Result<Outcomes, ModelError> {
    let options = ServerOptions {
        service_cidrs: CIDRS.map(ToOwned::to_owned).to_vec(),
        node_port_range: format!("{}-{}", PORTS.first, PORTS.last),
    };
    let directory = data_dir.to_string_lossy().into_owned();
    let arguments = ["--controllers", "none", "--data-dir", &directory];
    let mut run = Run {
        server: launcher.start(&options, &arguments).await?,
        chance: StdRng::seed_from_u64(seed),
        known: BTreeMap::new(),
        outcomes: Outcomes::default(),
    };
    run.adopt_kubernetes().await?;
    for number in 0..operations {
        let (what, result) = run.operation().await;
        let differs = |complaint| ModelError::Differs { number, seed, what: what.clone(), complaint };
        result.map_err(differs)?;
        if number % 50 == 49 {
            let before = run.settled().await?;
            run.server.stop().await?;
            run.server = launcher.start(&options, &arguments).await?;
            run.outcomes.restarts += 1;
            run.adopt_kubernetes().await?;
            let after = run.settled().await?;
            if before != after {
                return Err(differs(format!("a restart changed {before:?} to {after:?}")));
            }
        }
    }
    run.server.stop().await?;
    Ok(run.outcomes)
}

struct Run {
    server: Server,
    chance: StdRng,
    /// The last answered state by name.
    known: BTreeMap<String, Value>,
    outcomes: Outcomes,
}

impl Run {
    fn client(&self) -> Client {
        Client::new(self.server.target.clone())
    }

    async fn adopt_kubernetes(&mut self) -> Result<(), HttpError> {
        let (_, service) = self.client().get(&format!("{SERVICES}/kubernetes")).await?;
        self.known.insert("kubernetes".into(), service);
        Ok(())
    }

    /// Services and addresses as they are listed, with the version of the list.
    async fn listing(&self) -> Result<(Value, Vec<Value>, Vec<Value>), HttpError> {
        let client = self.client();
        let (_, services) = client.get("/api/v1/services").await?;
        let (_, addresses) = client.get("/apis/networking.k8s.io/v1/ipaddresses").await?;
        let items =
            |list: &Value| field(list, "items").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok((services["metadata"]["resourceVersion"].clone(), items(&services), items(&addresses)))
    }

    /// What a restart must leave as it is: all but the server's own Service, which leads to its port.
    async fn settled(&self) -> Result<(Vec<Value>, Vec<Value>), HttpError> {
        let (_, mut services, addresses) = self.listing().await?;
        services.retain(|service| ledger::text(service, "metadata.name") != "kubernetes");
        Ok((services, addresses))
    }

    async fn operation(&mut self) -> (String, Result<(), String>) {
        let name = format!("s{}", self.chance.random_range(0..NAMES));
        let exists = self.known.contains_key(&name);
        let headless =
            self.known.get(&name).is_some_and(|service| ledger::text(service, "spec.clusterIP") == "None");
        if headless || exists && self.chance.random_bool(0.25) {
            return (format!("DELETE {name}"), self.delete(&name).await);
        }
        let wanted = self.wanted(!exists);
        let dry_run = self.chance.random_bool(0.15);
        let what = format!("{} {name} {wanted:?} dry run {dry_run}", if exists { "PUT" } else { "POST" });
        (what, self.write(&name, &wanted, dry_run).await)
    }

    /// Something to ask for. Only a new Service is headless or asks for values: what an update makes of those is not simple.
    fn wanted(&mut self, fresh: bool) -> Wanted {
        let kinds = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "None"];
        let kinds = if fresh { &kinds[..] } else { &kinds[..4] };
        let kind = kinds.choose(&mut self.chance).copied().unwrap_or("ClusterIP");
        let dual = self.chance.random_bool(0.4);
        let ip = (fresh && self.chance.random_bool(0.2))
            .then(|| format!("10.20.0.{}", self.chance.random_range(33..63)));
        let mut port = || {
            let port = u64::from(self.chance.random_range(PORTS.first..=PORTS.last));
            (fresh && self.chance.random_bool(0.15)).then_some(port)
        };
        let ports = [port(), port(), port()];
        let count = self.chance.random_range(1..=ports.len());
        Wanted { kind, dual, ip, ports: ports[..count].to_vec(), local: self.chance.random_bool(0.5) }
    }

    async fn delete(&mut self, name: &str) -> Result<(), String> {
        let client = self.client();
        let answer = client.call("DELETE", &format!("{SERVICES}/{name}"), &Value::Null).await;
        let (code, body) = answer.map_err(|error| error.to_string())?;
        if code != 200 {
            return Err(format!("{code} {body}"));
        }
        self.known.remove(name);
        self.outcomes.deleted += 1;
        self.check().await
    }

    async fn write(&mut self, name: &str, wanted: &Wanted, dry_run: bool) -> Result<(), String> {
        let failed = |error: HttpError| error.to_string();
        let taken = self.taken_by_others(name);
        let old = self.known.get(name);
        let prediction = predict(wanted, old, &taken);
        // A dry run says less about what is taken than a write.
        let dry_run = dry_run && prediction == Prediction::default();
        let before = self.listing().await.map_err(failed)?;
        let method = if old.is_some() { "PUT" } else { "POST" };
        let path = if old.is_some() { format!("{SERVICES}/{name}") } else { SERVICES.to_owned() };
        let path = if dry_run { format!("{path}?dryRun=All") } else { path };
        let body = body(name, wanted, old);
        let (code, answer) = self.client().call(method, &path, &body).await.map_err(failed)?;
        match (prediction, code) {
            (Prediction { taken: false, full: false }, 200 | 201) => {
                if !dry_run {
                    check_values(&answer, wanted, old, &taken)?;
                    self.known.insert(name.to_owned(), answer);
                    self.outcomes.written += 1;
                    return self.check().await;
                }
            }
            (Prediction { taken: true, .. }, 422) => self.outcomes.taken += 1,
            (Prediction { full: true, .. }, 500) => self.outcomes.full += 1,
            _ => return Err(format!("expected {prediction:?}, got {code} {answer}")),
        }
        let after = self.listing().await.map_err(failed)?;
        if before == after { Ok(()) } else { Err(format!("it changed {before:?} to {after:?}")) }
    }

    /// Whether the server has exactly what the model knows, and nothing twice or leaked.
    async fn check(&self) -> Result<(), String> {
        let (_, services, addresses) = self.listing().await.map_err(|error| error.to_string())?;
        let complaints = ledger::complaints(&services, &addresses);
        if !complaints.is_empty() {
            return Err(complaints.join("; "));
        }
        let named =
            |service: &Value| (ledger::text(service, "metadata.name"), field(service, "spec").cloned());
        let there: BTreeMap<_, _> = services.iter().map(named).collect();
        let known: BTreeMap<_, _> = self.known.values().map(named).collect();
        if there == known { Ok(()) } else { Err(format!("the model has {known:?}, the server {there:?}")) }
    }

    fn taken_by_others(&self, name: &str) -> Taken {
        let mut taken = Taken::default();
        for service in self.known.iter().filter(|(other, _)| *other != name).map(|(_, service)| service) {
            taken.ips.extend(ledger::cluster_ips(service));
            taken.ports.extend(ledger::node_ports(service).into_iter().map(|(_, port)| port));
        }
        taken
    }
}

/// The request for what is wanted; an update starts from what is there.
fn body(name: &str, wanted: &Wanted, old: Option<&Value>) -> Value {
    let headless = wanted.kind == "None";
    let ports: Vec<Value> = wanted
        .ports
        .iter()
        .enumerate()
        .map(|(index, node_port)| {
            let mut port = json!({"name": format!("p{index}"), "port": 80 + index});
            if let Some(node_port) = node_port.filter(|_| wanted.is_exposed()) {
                port["nodePort"] = json!(node_port);
            }
            port
        })
        .collect();
    let mut spec = json!({"type": if headless { "ClusterIP" } else { wanted.kind }, "ports": ports});
    if wanted.kind == "ExternalName" {
        spec["externalName"] = json!("example.test");
    } else {
        spec["ipFamilyPolicy"] = json!(if wanted.dual { "PreferDualStack" } else { "SingleStack" });
        if headless {
            spec["clusterIP"] = json!("None");
            spec["selector"] = json!({"app": name});
        } else if let Some(ip) = &wanted.ip {
            spec["clusterIP"] = json!(ip);
        }
    }
    if wanted.has_health_check() {
        spec["externalTrafficPolicy"] = json!("Local");
    }
    let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    if let Some(old) = old {
        body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    }
    body
}

/// What must come of a write, given what others have taken.
fn predict(wanted: &Wanted, old: Option<&Value>, taken: &Taken) -> Prediction {
    let mut prediction = Prediction::default();
    let old_ips = old.map(ledger::cluster_ips).unwrap_or_default();
    if wanted.has_cluster_ip() {
        for (index, cidr) in CIDRS.iter().enumerate().take(if wanted.dual { 2 } else { 1 }) {
            match wanted.ip.as_ref().filter(|_| index == 0) {
                Some(ip) => prediction.taken |= taken.ips.contains(ip),
                None if old_ips.len() > index => {}
                None => prediction.full |= usable(cidr).all(|ip| taken.ips.contains(&ip)),
            }
        }
    }
    if wanted.is_exposed() {
        let explicit: Vec<u64> = wanted.ports.iter().flatten().copied().collect();
        let mut used: BTreeSet<u64> = explicit.iter().copied().collect();
        prediction.taken |= used.len() < explicit.len() || used.iter().any(|port| taken.ports.contains(port));
        let carried = old.map(|old| carried_ports(wanted, old)).unwrap_or_default();
        let needed =
            wanted.ports.len() + usize::from(wanted.has_health_check()) - explicit.len() - carried.len();
        used.extend(carried);
        let free = all_ports().filter(|port| !used.contains(port) && !taken.ports.contains(port)).count();
        prediction.full |= free < needed;
    }
    prediction
}

/// Node ports that an update without node ports keeps: those of ports of the same name, and that of the health check.
fn carried_ports(wanted: &Wanted, old: &Value) -> Vec<u64> {
    let number =
        |value: &Value, name: &str| field(value, name).and_then(Value::as_u64).filter(|number| *number > 0);
    let names: BTreeSet<String> = (0..wanted.ports.len()).map(|index| format!("p{index}")).collect();
    let old_ports = field(old, "spec.ports").and_then(Value::as_array).into_iter().flatten();
    let kept = old_ports.filter(|port| names.contains(&ledger::text(port, "name")));
    let mut carried: Vec<u64> = kept.filter_map(|port| number(port, "nodePort")).collect();
    if wanted.has_health_check() {
        carried.extend(number(old, "spec.healthCheckNodePort"));
    }
    carried
}

fn usable(cidr: &str) -> impl Iterator<Item = String> + use<> {
    let cidr: Option<IpNet> = cidr.parse().ok();
    let first = cidr.map(|cidr| cidr.network());
    cidr.into_iter()
        .flat_map(|cidr| cidr.hosts())
        .filter(move |ip| Some(*ip) != first)
        .map(|ip: IpAddr| ip.to_string())
}

fn all_ports() -> impl Iterator<Item = u64> {
    (PORTS.first..=PORTS.last).map(u64::from)
}

/// Whether the values of an answer were free, and none is of the lower band while the upper one has room.
fn check_values(answer: &Value, wanted: &Wanted, old: Option<&Value>, taken: &Taken) -> Result<(), String> {
    let ips = ledger::cluster_ips(answer);
    let ports: Vec<u64> = ledger::node_ports(answer).into_iter().map(|(_, port)| port).collect();
    if let Some(ip) = ips.iter().find(|ip| taken.ips.contains(*ip)) {
        return Err(format!("{ip} is taken"));
    }
    if let Some(port) = ports.iter().find(|port| taken.ports.contains(port)) {
        return Err(format!("node port {port} is taken"));
    }
    let count = if wanted.has_cluster_ip() { 1 + usize::from(wanted.dual) } else { 0 };
    if ips.len() != count {
        return Err(format!("{count} cluster IPs are wanted, there are {ips:?}"));
    }
    let old_ips = old.map(ledger::cluster_ips).unwrap_or_default();
    for (ip, cidr) in ips.iter().zip(CIDRS) {
        let upper = |ip: &str| in_upper_band(&Value::from(ip), &format!("$ip:{cidr}:upper"));
        let chosen = !old_ips.contains(ip) && wanted.ip.as_ref() != Some(ip);
        if chosen && !upper(ip) && usable(cidr).any(|other| upper(&other) && !taken.ips.contains(&other)) {
            return Err(format!("{ip} is of the lower band, and the upper one has room"));
        }
    }
    let old_ports: Vec<u64> =
        old.map(ledger::node_ports).unwrap_or_default().into_iter().map(|(_, port)| port).collect();
    let upper = |port: u64| in_upper_band(&Value::from(port), "$port:upper");
    // What the Service had is free only after the update.
    let held = |port: &u64| taken.ports.contains(port) || ports.contains(port) || old_ports.contains(port);
    let room = all_ports().any(|port| upper(port) && !held(&port));
    let chosen = |port: &u64| !old_ports.contains(port) && !wanted.ports.contains(&Some(*port));
    match ports.iter().find(|port| chosen(port) && !upper(**port)).filter(|_| room) {
        Some(port) => Err(format!("node port {port} is of the lower band, and the upper one has room")),
        None => Ok(()),
    }
}

fn in_upper_band(value: &Value, placeholder: &str) -> bool {
    Placeholder::parse(placeholder)
        .ok()
        .flatten()
        .is_some_and(|placeholder| placeholder.kind.accepts(value, PORTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: &'static str, dual: bool, ports: &[Option<u64>]) -> Wanted {
        Wanted { kind, dual, ip: None, ports: ports.to_vec(), local: true }
    }

    #[test]
    fn full_ranges_and_taken_values_are_foreseen() {
        let everything = Taken { ips: usable(CIDRS[0]).collect(), ports: all_ports().skip(2).collect() };
        let foreseen = |wanted: &Wanted| predict(wanted, None, &everything);
        assert_eq!(foreseen(&wanted("ClusterIP", false, &[None])), Prediction { taken: false, full: true });
        assert_eq!(foreseen(&wanted("None", false, &[None])), Prediction::default());
        let ports_only = Taken { ips: BTreeSet::new(), ..everything };
        let foreseen = |wanted: &Wanted| predict(wanted, None, &ports_only);
        assert_eq!(foreseen(&wanted("NodePort", true, &[None, Some(30000)])), Prediction::default());
        assert_eq!(
            foreseen(&wanted("LoadBalancer", true, &[None, Some(30000)])),
            Prediction { taken: false, full: true }
        );
        assert_eq!(
            foreseen(&wanted("NodePort", true, &[Some(30002)])),
            Prediction { taken: true, full: false }
        );
        assert_eq!(
            foreseen(&wanted("NodePort", true, &[Some(30000), Some(30000)])),
            Prediction { taken: true, full: false }
        );
    }

    #[test]
    fn an_update_carries_values_over() {
        let old = json!({"spec": {"clusterIPs": ["10.20.0.40"], "healthCheckNodePort": 30001,
            "ports": [{"name": "p0", "nodePort": 30000}]}});
        let full = Taken { ips: usable(CIDRS[0]).collect(), ports: all_ports().skip(2).collect() };
        assert_eq!(predict(&wanted("LoadBalancer", true, &[None]), Some(&old), &full), Prediction::default());
        assert!(predict(&wanted("LoadBalancer", true, &[None, None]), Some(&old), &full).full);
    }

    #[test]
    fn a_lower_value_is_refused_while_the_upper_band_has_room() {
        let answer = |ip: &str| json!({"spec": {"clusterIPs": [ip]}});
        let check =
            |ip, taken: &Taken| check_values(&answer(ip), &wanted("ClusterIP", false, &[]), None, taken);
        assert_eq!(check("10.20.0.62", &Taken::default()), Ok(()));
        assert!(check("10.20.0.34", &Taken::default()).is_err());
        let upper = usable(CIDRS[0]).skip(16).collect();
        assert_eq!(check("10.20.0.34", &Taken { ips: upper, ports: BTreeSet::new() }), Ok(()));
    }
}
