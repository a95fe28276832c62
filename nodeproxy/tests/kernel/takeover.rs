//! A table that is there already: kube-proxy's, one that is neither's, and one that a process left in the middle.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Instant,
};

use serde_json::json;
use service_api::address::Family;
use service_nodeproxy::{
    nft::{
        model::Op,
        netlink::Netlink,
        run::{Kernel, RunError},
        wire::Snapshot,
    },
    sync::{Report, Syncer},
};

use crate::{
    namespace::{Namespace, possible},
    network::Network,
    rules::{listed, normal, settle},
    scene::{Scene, full, ready},
};

/// As kube-proxy leaves it: two Services with endpoints that are old by now, one that is gone, one without endpoints.
const LEFT: &str = include_str!("left-by-kube-proxy.nft");

fn web() -> Scene {
    let mut scene = Scene::new();
    let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}]);
    scene.service("web", &json!({"type": "NodePort", "clusterIPs": ["10.96.0.30"], "ports": ports}));
    scene.slice("web", "TCP", &json!([ready("10.7.0.2", "one"), ready("10.7.1.2", "two")]));
    scene
}

/// Waits for a connection and sends back what comes over it.
fn echo(at: &Namespace, port: u16) {
    let listener = at.enter(|| TcpListener::bind(("0.0.0.0", port)).unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut word = [0; 4];
        while stream.read_exact(&mut word).is_ok() {
            stream.write_all(&word).unwrap();
        }
    });
}

fn says(stream: &mut TcpStream, word: [u8; 4]) -> [u8; 4] {
    let mut back = [0; 4];
    stream.write_all(&word).unwrap();
    stream.read_exact(&mut back).unwrap();
    back
}

fn load(namespace: &Namespace, text: &str) {
    let file = std::env::temp_dir().join(format!("{}.nft", namespace.name()));
    std::fs::write(&file, text).unwrap();
    namespace.run("nft", &["-f", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn kube_proxys_table_is_taken_over_and_connections_go_on() {
    if !possible("kube_proxys_table_is_taken_over_and_connections_go_on") {
        return;
    }
    let (network, fresh) = (Network::new(), Namespace::new());
    let scene = web();
    load(&network.node, LEFT);
    // The old table leads to a port that the new one does not know.
    echo(&network.pod, 9090);
    let front: SocketAddr = "10.96.0.30:80".parse().unwrap();
    let mut stream = network.client.enter(|| TcpStream::connect(front).unwrap());
    assert_eq!(says(&mut stream, *b"old?"), *b"old?");
    let (report, mut syncer) = network.node.enter(|| {
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &[Family::V4]);
        (settle(&mut syncer, &scene, Instant::now()), syncer)
    });
    assert!(report.put_right > 0);
    assert_eq!(says(&mut stream, *b"new!"), *b"new!");
    assert!(crate::network::ask(&network.client, "10.96.0.30:80", false).ends_with("from 10.7.0.9"));
    // Chains that nothing leads to go a moment later; then it is as if nobody had been there before.
    syncer.overdue(Instant::now() + std::time::Duration::from_secs(2));
    fresh.enter(|| settle(&mut Syncer::new(Netlink::open().unwrap(), &[Family::V4]), &scene, Instant::now()));
    assert_eq!(normal(&listed(&network.node, "ip")), normal(&listed(&fresh, "ip")));
}

#[test]
fn a_table_that_is_neither_ours_nor_kube_proxys_is_left_alone() {
    if !possible("a_table_that_is_neither_ours_nor_kube_proxys_is_left_alone") {
        return;
    }
    let namespace = Namespace::new();
    load(
        &namespace,
        "table ip kube-proxy { comment \"mine\"; chain input { type filter hook input priority 0; drop; }; }",
    );
    let before = listed(&namespace, "ip");
    namespace.enter(|| {
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &[Family::V4]);
        let scene = web();
        let report = syncer.step(scene.known(), Instant::now());
        let error = report.stopped.expect("the table is somebody's");
        assert!(matches!(error, RunError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("\"mine\""), "{error}");
        assert!(syncer.clean_up().is_err(), "nor is it removed");
    });
    assert_eq!(listed(&namespace, "ip"), before);
}

/// A kernel whose caller is gone after so many transactions, as a process that is killed.
struct Killed {
    kernel: Netlink,
    left: usize,
}

impl Kernel for Killed {
    fn apply(&mut self, ops: &[Op], family: Family) -> Result<usize, RunError> {
        let gone = || RunError::NotAllowed(std::io::Error::other("killed"));
        self.left = self.left.checked_sub(1).ok_or_else(gone)?;
        self.kernel.apply(ops, family)
    }

    fn read(&mut self, family: Family) -> Result<Snapshot, RunError> {
        self.kernel.read(family)
    }

    fn generation(&mut self) -> Result<u32, RunError> {
        self.kernel.generation()
    }
}

#[test]
fn what_a_killed_proxy_left_is_finished_by_the_next() {
    if !possible("what_a_killed_proxy_left_is_finished_by_the_next") {
        return;
    }
    let mut scene = full();
    for n in 0..600 {
        let ip = format!("10.97.{}.{}", n / 250, n % 250 + 1);
        scene
            .service(&format!("n{n}"), &json!({"clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]}));
        scene.slice(&format!("n{n}"), "TCP", &json!([ready("10.7.0.2", "one"), ready("10.7.1.2", "two")]));
    }
    let whole = Namespace::new();
    let transactions = whole.enter(|| {
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &[Family::V4]);
        settle(&mut syncer, &scene, Instant::now()).transactions
    });
    assert!(transactions >= 3, "{transactions}");
    let wanted = normal(&listed(&whole, "ip"));
    for left in 0..transactions {
        let namespace = Namespace::new();
        namespace.enter(|| {
            let now = Instant::now();
            let kernel = Killed { kernel: Netlink::open().unwrap(), left };
            let report: Report = Syncer::new(kernel, &[Family::V4]).step(scene.known(), now);
            assert!(report.stopped.is_some(), "{left}");
            let mut next = Syncer::new(Netlink::open().unwrap(), &[Family::V4]);
            let report = settle(&mut next, &scene, now);
            assert!(report.transactions <= transactions - left, "what is there stays: {report:?}");
        });
        assert_eq!(normal(&listed(&namespace, "ip")), wanted, "after {left} transactions");
    }
}
