//! Packets through the rules in a real kernel: who answered, with which source address, refused or dropped.

use std::{collections::BTreeSet, net::UdpSocket, time::Instant};

use serde_json::json;
use service_api::address::Family;
use service_nodeproxy::{
    conntrack::{Cleaner, UdpServices, fronts},
    endpoint::ServiceKey,
    nft::netlink::Netlink,
    sync::Syncer,
};

use crate::{
    kube_proxy::{self, KubeProxy},
    namespace::{Namespace, possible},
    network::{Network, ask, udp_answers},
    scene::{Scene, full, ready},
};

fn program(network: &Network, scene: &Scene) -> Syncer<Netlink> {
    network.node.enter(|| {
        let mut syncer = Syncer::new(Netlink::open().unwrap(), &[Family::V4, Family::V6]);
        settle(&mut syncer, scene);
        syncer
    })
}

fn settle(syncer: &mut Syncer<Netlink>, scene: &Scene) {
    for _ in 0..100 {
        if syncer.has_work(Instant::now()) {
            let report = syncer.step(scene.known(), Instant::now());
            assert!(report.stopped.is_none() && report.refused.is_empty(), "{report:?}");
        }
    }
}

/// All answers of a few connections.
fn answers(from: &Namespace, to: &str) -> BTreeSet<String> {
    (0..12).map(|_| ask(from, to, false)).collect()
}

/// The answers are exactly these; one that is chosen at random may stay away from a dozen connections once in two thousand times,
/// so it gets another dozen.
fn assert_answers(from: &Namespace, to: &str, wanted: &[&str]) {
    let mut seen = answers(from, to);
    if seen.len() < wanted.len() {
        seen.extend(answers(from, to));
    }
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), wanted, "to {to}");
}

fn with_itself() -> Scene {
    let mut scene = full();
    scene.service("self", &json!({"clusterIPs": ["10.96.0.20"], "ports": [{"name": "http", "port": 80}]}));
    scene.slice("self", "TCP", &json!([ready("10.7.0.2", "one")]));
    scene
}

#[test]
fn packets_land_where_they_should() {
    if !possible("packets_land_where_they_should") {
        return;
    }
    let network = Network::new();
    let _syncer = program(&network, &with_itself());
    assert_landings(&network);
}

#[test]
fn packets_land_there_by_kube_proxys_rules() {
    let Some(program) = kube_proxy::program() else { return };
    if !possible("packets_land_there_by_kube_proxys_rules") {
        return;
    }
    let network = Network::new();
    let _running = KubeProxy::start(&program, &network, &with_itself(), "demo/plain/tcp/http");
    assert_landings(&network);
}

fn assert_landings(network: &Network) {
    let Network { node, pod, client, outside, .. } = network;

    // A cluster IP, from a pod with its own address, from elsewhere with the node's.
    assert_answers(client, "10.96.0.1:80", &["pod from 10.7.0.9", "remote from 10.7.0.9"]);
    assert_answers(node, "10.96.0.1:80", &["pod from 192.168.7.1", "remote from 192.168.7.1"]);
    assert_answers(outside, "10.96.0.1:80", &["pod from 192.168.7.1", "remote from 192.168.7.1"]);
    assert_answers(client, "[fd00:96::1]:80", &["pod from fd00:70::9", "remote from fd00:70::9"]);
    // A pod that asks for itself.
    assert_answers(pod, "10.96.0.20:80", &["pod from 192.168.7.1"]);
    // Refused at once: a wrong port, no endpoints. Dropped: nobody's address.
    assert_eq!(ask(client, "10.96.0.1:81", false), "refused");
    assert_eq!(ask(node, "10.96.0.1:81", false), "refused");
    assert_eq!(ask(client, "10.96.0.7:80", false), "refused");
    assert_eq!(ask(outside, "192.168.7.1:30083", false), "refused");
    assert_eq!(ask(client, "[fd00:96::7]:80", false), "refused");
    assert_eq!(ask(client, "10.96.9.9:80", true), "nothing");
    // Node ports under both policies.
    assert_answers(outside, "192.168.7.1:30080", &["pod from 192.168.7.1", "remote from 192.168.7.1"]);
    assert_answers(outside, "192.168.7.1:30081", &["pod from 203.0.113.9"]);
    assert_answers(client, "192.168.7.1:30081", &["pod from 10.7.0.9", "remote from 10.7.0.9"]);
    assert_answers(outside, "[fd00:7::1]:30081", &["pod from 2001:db8:9::9"]);
    assert_eq!(ask(node, "127.0.0.1:30080", false), "refused");
    // Inside stays on the node, outside does not.
    assert_answers(client, "10.96.0.4:80", &["pod from 10.7.0.9"]);
    assert_answers(outside, "192.0.2.4:80", &["pod from 192.168.7.1", "remote from 192.168.7.1"]);
    // A load balancer that only some may reach.
    assert_answers(node, "192.0.2.5:80", &["pod from 192.168.7.1", "remote from 192.168.7.1"]);
    assert_eq!(ask(outside, "192.0.2.5:80", true), "nothing");
    // A client stays where it is.
    assert_eq!(answers(client, "10.96.0.6:80").len(), 1);
}

#[test]
fn a_policy_without_endpoints_here_drops() {
    if !possible("a_policy_without_endpoints_here_drops") {
        return;
    }
    let network = Network::new();
    let mut scene = Scene::new();
    scene.service(
        "web",
        &json!({"type": "NodePort", "clusterIPs": ["10.96.0.3"], "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Local", "ports": [{"name": "http", "port": 80, "nodePort": 30081}]}),
    );
    scene.slice("web", "TCP", &json!([ready("10.7.1.2", "two")]));
    let mut syncer = program(&network, &scene);
    assert_eq!(ask(&network.outside, "192.168.7.1:30081", true), "nothing");
    assert_eq!(ask(&network.client, "10.96.0.3:80", true), "nothing");
    assert_eq!(ask(&network.client, "192.168.7.1:30081", false), "remote from 10.7.0.9");
    // One comes that ends already: better than none.
    let ending = json!([ready("10.7.1.2", "two"), {"addresses": ["10.7.0.2"], "nodeName": "one",
        "conditions": {"ready": false, "serving": true, "terminating": true}}]);
    let touched = scene.slice("web", "TCP", &ending);
    syncer.touch(&touched, scene.known());
    settle(&mut syncer, &scene);
    assert_eq!(ask(&network.outside, "192.168.7.1:30081", false), "pod from 203.0.113.9");
}

#[test]
fn a_udp_client_is_led_to_the_new_endpoint() {
    if !possible("a_udp_client_is_led_to_the_new_endpoint") {
        return;
    }
    let network = Network::new();
    let mut scene = Scene::new();
    scene.service(
        "dns",
        &json!({"clusterIPs": ["10.96.0.10"], "ports": [{"name": "http", "port": 53, "protocol": "UDP"}]}),
    );
    scene.slice("dns", "UDP", &json!([ready("10.7.0.2", "one")]));
    let mut syncer = program(&network, &scene);
    let (key, mut udp) = (ServiceKey::new("demo", "dns"), UdpServices::default());
    let mut changed = |scene: &Scene| {
        let service = scene.cluster.service(&key).unwrap();
        udp.set(&key, fronts(service, scene.cluster.slices(&key)))
    };
    changed(&scene);
    let socket = network.client.enter(|| UdpSocket::bind("10.7.0.9:0").unwrap());
    udp_answers(&socket, "10.96.0.10:53", "pod from").unwrap();
    let touched = scene.slice("dns", "UDP", &json!([ready("10.7.1.2", "two")]));
    syncer.touch(&touched, scene.known());
    settle(&mut syncer, &scene);
    let cleaner = network.node.enter(|| Cleaner::start(&[Family::V4]).unwrap());
    cleaner.clean(changed(&scene), BTreeSet::new());
    udp_answers(&socket, "10.96.0.10:53", "remote from").unwrap();
}
