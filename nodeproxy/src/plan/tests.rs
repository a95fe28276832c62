//! What packets land where: each rule of the planner as a table of packets and what becomes of them.

use rstest::rstest;
use serde_json::{Value, json};
use service_api::address::Family;

use crate::{
    config::{LocalTraffic, NodePortAddresses, NodeView, RuleSettings},
    endpoint::Protocol,
    nft::{
        diff::{Change, Table},
        trace::{Landing, Packet, Tracer},
    },
    sync::Known,
    track::{Cluster, Seen},
};

/// A node `one` in zone `a` at 192.168.7.1, with pods in 10.7.0.0/24, and a Service `demo/web` at 10.96.0.1:80.
struct Scene {
    cluster: Cluster,
    node: NodeView,
    settings: RuleSettings,
}

fn scene(spec: &Value, endpoints: &Value) -> Scene {
    let mut cluster = Cluster::new("one");
    let node = json!({"metadata": {"name": "one", "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.7.1"}]}});
    cluster.on_node(Seen::Object(serde_json::from_value(node).unwrap()));
    let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}});
    cluster.on_cidr(Seen::Object(serde_json::from_value(cidr).unwrap()));
    let mut service = json!({"metadata": {"namespace": "demo", "name": "web"}, "status": {},
        "spec": {"clusterIPs": ["10.96.0.1"], "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}});
    for (field, value) in spec.as_object().unwrap() {
        let part = if field == "loadBalancer" { "status" } else { "spec" };
        service[part][field] = value.clone();
    }
    cluster.on_service(Seen::Object(serde_json::from_value(service).unwrap()));
    let slice = json!({"metadata": {"namespace": "demo", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": endpoints});
    cluster.on_slice(Seen::Object(serde_json::from_value(slice).unwrap()));
    let node = NodeView { info: cluster.node().unwrap().clone(), interfaces: Vec::new() };
    let local_traffic = LocalTraffic::ClusterCidrs(vec!["10.7.0.0/16".parse().unwrap()]);
    Scene { cluster, node, settings: RuleSettings { local_traffic, ..RuleSettings::default() } }
}

impl Scene {
    fn table(&self) -> Table {
        let known = Known { cluster: &self.cluster, node: &self.node, settings: &self.settings };
        let (mut table, mut change) = (Table::default(), Change::default());
        known.plan_into(&mut table, &mut change, Family::V4);
        table
    }

    /// All landings of a packet, whichever endpoint is chosen.
    fn landings(&self, from: &str, to: &str) -> Vec<String> {
        let table = self.table();
        let mut all: Vec<String> = (0..6).map(|pick| land(&mut tracer(&table), from, to, pick)).collect();
        all.sort();
        all.dedup();
        all
    }
}

fn tracer(table: &Table) -> Tracer<'_> {
    // The second one is the node's as well, and not in its Node.
    let local = ["192.168.7.1", "192.168.8.1", "127.0.0.1"].map(|ip| ip.parse().unwrap());
    Tracer::new(table, local)
}

/// `to` is `address:port`, with `/udp` for UDP. The node's own packets come by no interface.
fn land(tracer: &mut Tracer<'_>, from: &str, to: &str, pick: usize) -> String {
    let (to, protocol) = to.strip_suffix("/udp").map_or((to, Protocol::Tcp), |to| (to, Protocol::Udp));
    let (destination, port) = to.rsplit_once(':').unwrap();
    let own = ["192.168.7.1", "192.168.8.1", "127.0.0.1"].contains(&from);
    let packet = Packet {
        source: from.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        port: port.parse().unwrap(),
        interface: (!own).then(|| if from.starts_with("10.7.0.") { "cali1" } else { "eth0" }.to_owned()),
    };
    match tracer.send(packet, pick) {
        Landing::Unchanged => "unchanged".to_owned(),
        Landing::Rejected => "rejected".to_owned(),
        Landing::Dropped => "dropped".to_owned(),
        Landing::Sent { to, masqueraded: false } => to.ip.to_string(),
        Landing::Sent { to, masqueraded: true } => format!("{} masqueraded", to.ip),
    }
}

/// A pod here and one elsewhere, both ready.
fn two() -> Value {
    json!([{"addresses": ["10.7.0.2"], "nodeName": "one"}, {"addresses": ["10.7.1.2"], "nodeName": "two"}])
}

fn elsewhere() -> Value {
    json!([{"addresses": ["10.7.1.2"], "nodeName": "two"}])
}

const POD: &str = "10.7.0.9";
const NODE: &str = "192.168.7.1";
const OUTSIDE: &str = "203.0.113.9";

#[rstest]
#[case::a_pod(POD, "10.96.0.1:80", &["10.7.0.2", "10.7.1.2"])]
#[case::the_node(NODE, "10.96.0.1:80", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::outside(OUTSIDE, "10.96.0.1:80", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::to_itself("10.7.0.2", "10.96.0.1:80", &["10.7.0.2 masqueraded", "10.7.1.2"])]
#[case::wrong_port(POD, "10.96.0.1:81", &["rejected"])]
#[case::wrong_port_from_the_node(NODE, "10.96.0.1:81", &["rejected"])]
#[case::wrong_protocol(POD, "10.96.0.1:80/udp", &["rejected"])]
#[case::nobodys_address(POD, "10.96.0.9:80", &["dropped"])]
#[case::node_port(OUTSIDE, "192.168.7.1:30080", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::node_port_from_a_pod(POD, "192.168.7.1:30080", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::node_port_of_another_address(OUTSIDE, "192.168.8.1:30080", &["unchanged"])]
#[case::node_port_on_loopback("127.0.0.1", "127.0.0.1:30080", &["unchanged"])]
#[case::something_else(POD, "10.7.1.2:80", &["unchanged"])]
fn a_node_port_service(#[case] from: &str, #[case] to: &str, #[case] lands: &[&str]) {
    assert_eq!(scene(&json!({"type": "NodePort"}), &two()).landings(from, to), lands);
}

#[rstest]
#[case(OUTSIDE, "192.168.7.1:30080", &["rejected"])]
#[case(POD, "10.96.0.1:80", &["rejected"])]
#[case(NODE, "10.96.0.1:80", &["rejected"])]
#[case(OUTSIDE, "192.0.2.4:80", &["rejected"])]
fn without_endpoints_all_is_rejected(#[case] from: &str, #[case] to: &str, #[case] lands: &[&str]) {
    let service = json!({"type": "NodePort", "externalIPs": ["192.0.2.4"]});
    assert_eq!(scene(&service, &json!([])).landings(from, to), lands);
    let unready = json!([{"addresses": ["10.7.0.2"], "conditions": {"ready": false, "serving": false}}]);
    assert_eq!(scene(&service, &unready).landings(from, to), lands);
}

#[rstest]
#[case::from_outside_stays_here(two(), OUTSIDE, "192.168.7.1:30080", &["10.7.0.2"])]
#[case::a_pod_goes_anywhere(two(), POD, "192.168.7.1:30080", &["10.7.0.2", "10.7.1.2"])]
#[case::the_node_too(two(), NODE, "192.168.7.1:30080", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::inside_is_another_policy(two(), POD, "10.96.0.1:80", &["10.7.0.2", "10.7.1.2"])]
#[case::nobody_here(elsewhere(), OUTSIDE, "192.168.7.1:30080", &["dropped"])]
#[case::nobody_here_for_a_pod(elsewhere(), POD, "192.168.7.1:30080", &["10.7.1.2"])]
#[case::external_address(two(), OUTSIDE, "192.0.2.4:80", &["10.7.0.2"])]
#[case::external_address_nobody_here(elsewhere(), OUTSIDE, "192.0.2.4:80", &["dropped"])]
#[case::load_balancer(two(), OUTSIDE, "192.0.2.5:80", &["10.7.0.2"])]
#[case::load_balancer_from_a_pod(two(), POD, "192.0.2.5:80", &["10.7.0.2", "10.7.1.2"])]
#[case::one_that_answers_itself(two(), OUTSIDE, "192.0.2.6:80", &["unchanged"])]
fn the_external_policy_local(
    #[case] endpoints: Value,
    #[case] from: &str,
    #[case] to: &str,
    #[case] lands: &[&str],
) {
    let service = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.4"],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.5"}, {"ip": "192.0.2.6", "ipMode": "Proxy"}]}});
    assert_eq!(scene(&service, &endpoints).landings(from, to), lands);
}

#[rstest]
#[case(two(), POD, "10.96.0.1:80", &["10.7.0.2"])]
#[case(elsewhere(), POD, "10.96.0.1:80", &["dropped"])]
#[case(elsewhere(), NODE, "10.96.0.1:80", &["dropped"])]
#[case(elsewhere(), OUTSIDE, "192.168.7.1:30080", &["10.7.1.2 masqueraded"])]
#[case(json!([]), POD, "10.96.0.1:80", &["rejected"])]
fn the_internal_policy_local(
    #[case] endpoints: Value,
    #[case] from: &str,
    #[case] to: &str,
    #[case] lands: &[&str],
) {
    let service = json!({"type": "NodePort", "internalTrafficPolicy": "Local"});
    assert_eq!(scene(&service, &endpoints).landings(from, to), lands);
}

#[rstest]
#[case("198.51.100.7", "192.0.2.5:80", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case(OUTSIDE, "192.0.2.5:80", &["dropped"])]
#[case(POD, "192.0.2.5:80", &["dropped"])]
#[case::node_ports_are_open_to_all(OUTSIDE, "192.168.7.1:30080", &["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"])]
#[case::so_is_the_cluster_ip(POD, "10.96.0.1:80", &["10.7.0.2", "10.7.1.2"])]
fn source_ranges(#[case] from: &str, #[case] to: &str, #[case] lands: &[&str]) {
    let service = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["198.51.100.0/24"],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.5"}]}});
    assert_eq!(scene(&service, &two()).landings(from, to), lands);
}

#[test]
fn a_node_in_the_source_ranges_may_loop_back_with_the_balancers_address() {
    let service = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.168.7.0/24"],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.5"}]}});
    let lands = scene(&service, &two()).landings("192.0.2.5", "192.0.2.5:80");
    assert_eq!(lands, ["10.7.0.2 masqueraded", "10.7.1.2 masqueraded"]);
    let open = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["0.0.0.0/0"],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.5"}]}});
    assert_eq!(scene(&open, &two()).landings(OUTSIDE, "192.0.2.5:80").len(), 2);
}

/// An endpoint: its last number, its node, its conditions (`r`eady, `s`erving, `t`erminating), its hints.
fn endpoint(n: u8, node: &str, conditions: &str, hints: &Value) -> Value {
    json!({"addresses": [format!("10.7.9.{n}")], "nodeName": node, "hints": hints, "conditions": {
        "ready": conditions.contains('r'), "serving": conditions.contains('s'), "terminating": conditions.contains('t')}})
}

#[rstest]
#[case::ready_wins(&[(1, "one", "rs"), (2, "two", "st")], POD, "10.96.0.1:80", &["10.7.9.1"])]
#[case::all_end(&[(1, "one", "st"), (2, "two", "st")], POD, "10.96.0.1:80", &["10.7.9.1", "10.7.9.2"])]
#[case::not_serving_is_nobody(&[(1, "one", "t"), (2, "two", "t")], POD, "10.96.0.1:80", &["rejected"])]
#[case::unready_that_does_not_end(&[(1, "one", "s")], POD, "10.96.0.1:80", &["rejected"])]
#[case::here_the_last_ends(&[(1, "one", "st"), (2, "two", "rs")], OUTSIDE, "192.168.7.1:30080", &["10.7.9.1"])]
#[case::here_all_ended(&[(1, "one", "t"), (2, "two", "rs")], OUTSIDE, "192.168.7.1:30080", &["dropped"])]
fn endpoints_that_end(
    #[case] endpoints: &[(u8, &str, &str)],
    #[case] from: &str,
    #[case] to: &str,
    #[case] lands: &[&str],
) {
    let endpoints: Vec<_> =
        endpoints.iter().map(|(n, node, conditions)| endpoint(*n, node, conditions, &json!(null))).collect();
    let service = json!({"type": "NodePort", "externalTrafficPolicy": "Local"});
    assert_eq!(scene(&service, &json!(endpoints)).landings(from, to), lands);
}

fn zone(name: &str) -> Value {
    json!({"forZones": [{"name": name}]})
}

fn node(name: &str) -> Value {
    json!({"forNodes": [{"name": name}]})
}

#[rstest]
#[case::this_zone(&[(1, zone("a")), (2, zone("b"))], &["10.7.9.1"])]
#[case::no_endpoint_for_this_zone(&[(1, zone("b")), (2, zone("c"))], &["10.7.9.1", "10.7.9.2"])]
#[case::one_without_a_hint(&[(1, zone("a")), (2, json!(null))], &["10.7.9.1", "10.7.9.2"])]
#[case::this_node(&[(1, node("one")), (2, node("two"))], &["10.7.9.1"])]
#[case::no_endpoint_for_this_node(&[(1, node("two")), (2, node("three"))], &["10.7.9.1", "10.7.9.2"])]
#[case::nodes_before_zones(&[(1, json!({"forNodes": [{"name": "one"}], "forZones": [{"name": "b"}]})),
    (2, json!({"forNodes": [{"name": "two"}], "forZones": [{"name": "a"}]}))], &["10.7.9.1"])]
#[case::zones_where_nodes_do_not_help(&[(1, json!({"forNodes": [{"name": "three"}], "forZones": [{"name": "b"}]})),
    (2, json!({"forNodes": [{"name": "two"}], "forZones": [{"name": "a"}]}))], &["10.7.9.2"])]
fn hints_are_all_or_nothing(#[case] hints: &[(u8, Value)], #[case] lands: &[&str]) {
    let endpoints: Vec<_> = hints.iter().map(|(n, hints)| endpoint(*n, "x", "rs", hints)).collect();
    assert_eq!(scene(&json!({}), &json!(endpoints)).landings(POD, "10.96.0.1:80"), lands);
}

#[test]
fn an_endpoint_that_is_not_ready_needs_no_hint() {
    let endpoints = json!([
        endpoint(1, "x", "rs", &zone("a")),
        endpoint(2, "x", "rs", &zone("b")),
        endpoint(3, "x", "", &json!(null))
    ]);
    assert_eq!(scene(&json!({}), &endpoints).landings(POD, "10.96.0.1:80"), ["10.7.9.1"]);
}

#[test]
fn a_client_stays_with_its_endpoint() {
    let service = json!({"type": "NodePort", "sessionAffinity": "ClientIP"});
    let scene = scene(&service, &two());
    let table = scene.table();
    let mut tracing = tracer(&table);
    assert_eq!(land(&mut tracing, POD, "10.96.0.1:80", 1), "10.7.1.2");
    assert_eq!(land(&mut tracing, POD, "10.96.0.1:80", 0), "10.7.1.2");
    assert_eq!(land(&mut tracing, POD, "192.168.7.1:30080", 0), "10.7.1.2 masqueraded");
    assert_eq!(land(&mut tracing, "10.7.0.8", "10.96.0.1:80", 0), "10.7.0.2");
    assert!(table.affinity().all(|set| set.timeout == 10_800));
}

#[test]
fn a_pod_that_ends_does_not_hide_its_successor_at_the_same_address() {
    let endpoints = json!([{"addresses": ["10.7.0.2"], "nodeName": "one"},
        {"addresses": ["10.7.0.2"], "nodeName": "one", "conditions": {"ready": false, "serving": true, "terminating": true}}]);
    assert_eq!(scene(&json!({}), &endpoints).landings(POD, "10.96.0.1:80"), ["10.7.0.2"]);
}

#[rstest]
#[case(NodePortAddresses::All, "192.168.8.1:30080", 2)]
#[case(NodePortAddresses::All, "127.0.0.1:30080", 1)]
#[case(NodePortAddresses::In(vec!["192.168.8.0/24".parse().unwrap()]), "192.168.8.1:30080", 2)]
#[case(NodePortAddresses::In(vec!["192.168.8.0/24".parse().unwrap()]), "192.168.7.1:30080", 1)]
#[case(NodePortAddresses::In(vec!["0.0.0.0/0".parse().unwrap()]), "192.168.7.1:30080", 2)]
fn node_ports_answer_where_they_should(
    #[case] addresses: NodePortAddresses,
    #[case] to: &str,
    #[case] landings: usize,
) {
    let mut scene = scene(&json!({"type": "NodePort"}), &two());
    scene.settings.node_port_addresses = addresses;
    scene.node.interfaces =
        ["192.168.7.1", "192.168.8.1", "127.0.0.1"].map(|ip| ip.parse().unwrap()).to_vec();
    let from = if to.starts_with("127.") { "127.0.0.1" } else { OUTSIDE };
    assert_eq!(scene.landings(from, to).len(), landings);
}

#[rstest]
#[case(LocalTraffic::Unknown, OUTSIDE, "10.7.0.2")]
#[case(LocalTraffic::InterfacePrefix("cali".to_owned()), POD, "10.7.0.2")]
#[case(LocalTraffic::InterfacePrefix("cali".to_owned()), OUTSIDE, "10.7.0.2 masqueraded")]
#[case(LocalTraffic::Bridge("eth0".to_owned()), OUTSIDE, "10.7.0.2")]
#[case(LocalTraffic::Bridge("br0".to_owned()), OUTSIDE, "10.7.0.2 masqueraded")]
#[case(LocalTraffic::NodeCidr, OUTSIDE, "10.7.0.2")]
fn pods_are_known_by_what_was_chosen(#[case] by: LocalTraffic, #[case] from: &str, #[case] lands: &str) {
    let mut scene = scene(&json!({}), &json!([{"addresses": ["10.7.0.2"], "nodeName": "one"}]));
    scene.settings.local_traffic = by;
    assert_eq!(scene.landings(from, "10.96.0.1:80"), [lands]);
    scene.settings.masquerade_all = true;
    assert_eq!(scene.landings(from, "10.96.0.1:80"), ["10.7.0.2 masqueraded"]);
}
