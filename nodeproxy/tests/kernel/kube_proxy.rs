//! The same packets on the rules of an unmodified kube-proxy, when `KUBE_PROXY_BINARY` names one: what is expected of our rules is what its
//! rules do.
//!
//! It asks a server of its own in the node's namespace, which knows the scene's objects and nothing else.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{network::Network, scene::Scene};

const VARIABLE: &str = "KUBE_PROXY_BINARY";
/// How long it may take to write its rules.
const PATIENCE: Duration = Duration::from_mins(1);

/// A kube-proxy at work on the node, killed when dropped.
pub(crate) struct KubeProxy {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for KubeProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, if one is given.
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::var_os(VARIABLE).map(PathBuf::from);
    if program.is_none() {
        eprintln!("skipped on kube-proxy's rules: {VARIABLE} names no kube-proxy");
    }
    program
}

impl KubeProxy {
    /// Starts it for the scene and waits until the rules hold a chain.
    pub(crate) fn start(program: &Path, network: &Network, scene: &Scene, chain: &str) -> Self {
        let port = serve(network, scene);
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let server = format!("http://127.0.0.1:{port}");
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let configuration = dir.path().join("config");
        let text = json!({"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
            "clusterCIDR": "10.7.0.0/16,fd00:70::/64", "hostnameOverride": "one", "clientConnection": {"kubeconfig": kubeconfig},
            "conntrack": {"maxPerCore": 0, "min": 0}});
        std::fs::write(&configuration, text.to_string()).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", network.node.name()]).arg(program).arg("--config").arg(&configuration);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let running = Self { child: command.spawn().unwrap(), dir };
        let deadline = Instant::now() + PATIENCE;
        while ["ip", "ip6"].iter().any(|family| !has_chain(network, family, chain)) {
            let log = || std::fs::read_to_string(running.dir.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "kube-proxy writes no rules:\n{}", log());
            thread::sleep(Duration::from_millis(100));
        }
        running
    }
}

fn has_chain(network: &Network, family: &str, chain: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.node.name(), "nft", "list", "table", family, "kube-proxy"]);
    command.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(chain))
}

/// Serves the objects in the node's namespace, for as long as the tests run; the port.
fn serve(network: &Network, scene: &Scene) -> u16 {
    let listener = network.node.enter(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let objects = scene.objects.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let objects = objects.clone();
            thread::spawn(move || answer(stream, &objects));
        }
    });
    port
}

/// Lists, and watches in which nothing happens.
fn answer(mut stream: TcpStream, objects: &[(&'static str, Value)]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut first, mut line) = (String::new(), String::new());
        if reader.read_line(&mut first).unwrap_or_default() == 0 {
            return;
        }
        while reader.read_line(&mut line).unwrap_or_default() > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        if path.contains("watch=true") && !path.contains("sendInitialEvents=true") {
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            thread::park();
        }
        let (code, body) = answer_to(&path, objects);
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer_to(path: &str, objects: &[(&'static str, Value)]) -> (u16, Value) {
    let refused = |code: u16, reason: &str| {
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}),
        )
    };
    if path.contains("sendInitialEvents=true") {
        return refused(422, "Invalid");
    }
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    if path.starts_with("/version") {
        return (200, json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"}));
    }
    let kinds = [
        ("services", "v1", "Service"),
        ("endpointslices", "discovery.k8s.io/v1", "EndpointSlice"),
        ("nodes", "v1", "Node"),
        ("servicecidrs", "networking.k8s.io/v1", "ServiceCIDR"),
    ];
    let mut words = path.rsplit('/');
    let (last, before) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if let Some((_, version, kind)) = kinds.iter().find(|(plural, ..)| *plural == last) {
        let items: Vec<&Value> =
            objects.iter().filter(|(of, _)| of == kind).map(|(_, object)| object).collect();
        return (
            200,
            json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}),
        );
    }
    let named = objects
        .iter()
        .find(|(kind, object)| *kind == "Node" && before == "nodes" && object["metadata"]["name"] == last);
    match named {
        Some((_, object)) => {
            let mut object = object.clone();
            (object["kind"], object["apiVersion"]) = (json!("Node"), json!("v1"));
            (200, object)
        }
        None => refused(404, "NotFound"),
    }
}

/// A Service as a server completes it.
pub(crate) fn completed(service: &Value) -> Value {
    let mut service = service.clone();
    let spec = &mut service["spec"];
    let ips: Vec<String> = spec["clusterIPs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|ip| ip.as_str().map(str::to_owned))
        .collect();
    let family = |ip: &String| if ip.contains(':') { "IPv6" } else { "IPv4" };
    spec["clusterIP"] = json!(ips.first());
    spec["ipFamilies"] = json!(ips.iter().map(family).collect::<Vec<_>>());
    for (field, value) in
        [("type", "ClusterIP"), ("sessionAffinity", "None"), ("internalTrafficPolicy", "Cluster")]
    {
        if spec[field].is_null() {
            spec[field] = json!(value);
        }
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port["protocol"].is_null() {
            port["protocol"] = json!("TCP");
        }
    }
    service
}
