//! `proxy` as a process of its own, in a network namespace, on a lab that it reaches by a passage which the test opens and closes: what it
//! does while the API server is away, beside another proxy, on a Node without an address, and at its end.
//!
//! Needs root, kubectl, ip and nft; without them it says that it is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "what is refused is for other tests")]
mod person;

use std::{
    fs::File,
    net::SocketAddr,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use person::Person;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use service_tests::{kubectl::programs, process::Process};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinSet,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long what follows from something may take.
const PATIENCE: Duration = Duration::from_mins(1);
const OBJECTS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, clusterIP: 10.96.0.77, ports: [{name: http, port: 80, nodePort: 30077}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: ["10.244.1.2"], conditions: {ready: true}}, {addresses: ["10.244.2.2"], conditions: {ready: true}}]
---
apiVersion: v1
kind: Node
metadata: {name: bare}
"#;

/// A network namespace; dropped with all that is in it.
struct Namespace(String);

impl Namespace {
    async fn new() -> Self {
        let namespace = Self(format!("scm-proxy-{}", std::process::id()));
        assert!(run("ip", &["netns", "add", &namespace.0]).await.1);
        assert!(run("ip", &["-n", &namespace.0, "link", "set", "lo", "up"]).await.1);
        namespace
    }

    /// What `nft` prints in it.
    async fn nft(&self, words: &[&str]) -> String {
        run("ip", &[&["netns", "exec", &self.0, "nft"], words].concat()).await.0
    }

    /// Asks `nft` until its answer has all of these, and none of those.
    async fn until(&self, words: &[&str], has: &[&str], lacks: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.nft(words).await;
            let holds =
                has.iter().all(|part| text.contains(part)) && !lacks.iter().any(|part| text.contains(part));
            if holds {
                return text;
            }
            assert!(Instant::now() < deadline, "never {has:?} without {lacks:?} in\n{text}");
        }
    }

    fn listen(&self, port: u16) -> std::net::TcpListener {
        let path = format!("/run/netns/{}", self.0);
        let bound = std::thread::spawn(move || {
            let file = File::open(path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            std::net::TcpListener::bind(("127.0.0.1", port)).unwrap()
        });
        bound.join().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

async fn run(program: &str, arguments: &[&str]) -> (String, bool) {
    match Command::new(program).args(arguments).kill_on_drop(true).output().await {
        Ok(output) => (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()),
        Err(_) => (String::new(), false),
    }
}

/// The way from the namespace to the API server, until it is dropped.
fn passage(namespace: &Namespace, port: u16) -> JoinSet<()> {
    let listener = namespace.listen(port);
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let mut server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    tasks
}

fn proxy(namespace: &Namespace, kubeconfig: &Path, node: &str, more: &[&str], log: &Path) -> Process {
    let mut command = Command::new("ip");
    command.args([
        "netns",
        "exec",
        &namespace.0,
        BINARY,
        "proxy",
        "--hostname-override",
        node,
        "--kubeconfig",
    ]);
    command.arg(kubeconfig).args(more);
    Process::start(command, log).unwrap()
}

async fn until_says(process: &mut Process, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !process.output().contains(words) {
        process.check_running().unwrap();
        assert!(Instant::now() < deadline, "never {words:?} in\n{}", process.output());
        tokio::task::yield_now().await;
    }
}

async fn possible() -> Option<PathBuf> {
    let root = run("id", &["-u"]).await.0.trim() == "0";
    let tools = run("ip", &["-V"]).await.1 && run("nft", &["--version"]).await.1;
    let kubectl = programs().await.into_iter().next();
    if !root || !tools || kubectl.is_none() {
        println!("skipped: needs root, kubectl, ip and nft");
        return None;
    }
    kubectl
}

#[tokio::test]
async fn rules_stay_while_the_api_server_is_away() {
    let Some(program) = possible().await else { return };
    let lab = Person::start(BINARY, program, &["--nodes", "1"]).await;
    lab.ok_with("apply -f -", OBJECTS).await;
    let (namespace, kubeconfig) = (Namespace::new().await, lab.kubectl.kubeconfig.clone());
    let url = lab.ok("config view -o jsonpath={.clusters[0].cluster.server}").await;
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let open = passage(&namespace, port);
    // A hundredth of the usual time between two looks at the table, so that many go by while nobody answers.
    let flags = ["--cluster-cidr", "10.244.0.0/16", "--sync-period", "300ms"];
    let mut ours = proxy(&namespace, &kubeconfig, "k8s-node-1", &flags, &dir.path().join("ours"));
    let table = ["list", "table", "ip", "kube-proxy"];
    let both =
        ["10.244.1.2 . 8080", "10.244.2.2 . 8080", "10.96.0.77 . tcp . 80", "tcp . 30077", "192.168.10.20"];
    namespace.until(&table, &both, &[]).await;

    // The API server is gone, and stays away for many looks: each puts right what somebody changes, and leaves all else.
    drop(open);
    until_says(&mut ours, "a watch fails; the rules stay as they are and it is tried again").await;
    for _ in 0..3 {
        namespace.nft(&["flush", "map", "ip", "kube-proxy", "service-ips"]).await;
        namespace.until(&table, &both, &[]).await;
    }
    until_says(&mut ours, "put right what differed in the table kube-proxy").await;

    // It is back, and what has changed meanwhile is done.
    lab.ok(r#"patch endpointslice web-1 --type=json -p='[{"op":"remove","path":"/endpoints/1"}]'"#).await;
    let _open = passage(&namespace, port);
    namespace.until(&table, &["10.244.1.2 . 8080"], &["10.244.2.2 . 8080"]).await;

    // Another proxy, of a Node without an address, has other ideas of the same table: both say so.
    let other = [
        "--cluster-cidr",
        "10.245.0.0/16",
        "--sync-period",
        "300ms",
        "--healthz-bind-address",
        "127.0.0.1:0",
        "--metrics-bind-address",
        "127.0.0.1:0",
    ];
    let mut other = proxy(&namespace, &kubeconfig, "bare", &other, &dir.path().join("other"));
    until_says(&mut other, "the Node has no address; node ports do not answer until it has one").await;
    until_says(&mut ours, "is another kube-proxy at work?").await;
    other.terminate().await.unwrap();

    // At the end the rules stay, until they are removed.
    namespace.until(&table, &["ip saddr != 10.244.0.0/16"], &["10.245.0.0/16"]).await;
    ours.terminate().await.unwrap();
    assert!(namespace.nft(&table).await.contains("10.244.1.2 . 8080"));
    let cleanup =
        ["netns", "exec", &namespace.0, BINARY, "proxy", "--cleanup", "--hostname-override", "k8s-node-1"];
    assert!(run("ip", &cleanup).await.1);
    assert_eq!(namespace.nft(&["list", "tables"]).await, "");
    lab.server.stop().await.unwrap();
}

#[tokio::test]
async fn without_root_it_says_so_and_ends() {
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", BINARY];
    if !run("setpriv", &[&nobody[..], &["--version"]].concat()).await.1 {
        println!("skipped: needs root, setpriv, and a program that others may run");
        return;
    }
    // Of the API server nothing is known yet.
    let config = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, config.to_string().as_bytes()).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(file.path(), everybody).unwrap();
    let flags = ["proxy", "--hostname-override", "x", "--kubeconfig", file.path().to_str().unwrap()];
    let mut command = Command::new("setpriv");
    command.args(nobody).args(flags).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("nftables may only be changed by root (CAP_NET_ADMIN)"), "{said}");
}
