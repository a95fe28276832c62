//! Small clusters, and what is said of them.

use serde_json::{Value, json};

use super::*;

fn read<T: serde::de::DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

fn service(name: &str, ip: &str, port: Option<u16>) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "type": if port.is_some() { "NodePort" } else { "ClusterIP" }, "clusterIP": ip, "clusterIPs": [ip],
            "ports": [{"port": 80, "nodePort": port}],
        },
    })
}

fn cidr(name: &str, net: &str, deleted: bool) -> Value {
    let at = deleted.then_some("2026-01-01T00:00:00Z");
    json!({"metadata": {"name": name, "deletionTimestamp": at}, "spec": {"cidrs": [net]}})
}

fn address(ip: &str, name: &str) -> Value {
    let parent = json!({"resource": "services", "namespace": "shop", "name": name});
    json!({"metadata": {"name": ip}, "spec": {"parentRef": parent}})
}

fn cluster() -> Objects {
    Objects {
        services: read(&[
            service("a", "10.96.0.1", Some(30000)),
            service("b", "10.96.0.200", Some(31000)),
            service("c", "10.97.0.9", Some(20000)),
            service("d", "172.16.0.9", None),
        ]),
        cidrs: read(&[
            cidr("kubernetes", "10.96.0.0/24", false),
            cidr("old", "10.97.0.0/24", true),
            cidr("wide", "10.96.0.0/23", true),
        ]),
        addresses: Some(read(&[
            address("10.96.0.1", "a"),
            address("10.96.0.200", "b"),
            address("10.97.0.9", "c"),
            json!({"metadata": {"name": "10.97.0.77"}, "spec": {"parentRef": {
                "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "infra", "name": "front"}}}),
        ])),
        nodes: read(&[json!({
            "metadata": {"name": "n1"}, "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.168.1.10"}]},
        })]),
        ..Objects::default()
    }
}

#[test]
fn each_range_is_counted_by_band() {
    let report = survey(&cluster(), &Questions::default());
    let of = |name: &str| report.service_cidrs.iter().find(|r| r.name == name).unwrap();
    assert_eq!(
        (of("kubernetes").lower, of("kubernetes").upper),
        (Band { used: 1, free: 15 }, Band { used: 1, free: 237 })
    );
    // Its own lower band is 32 addresses; it has those of the smaller range in it, too.
    assert_eq!((of("wide").lower.used, of("wide").upper.used), (1, 1));
    assert_eq!(of("wide").lower.free + of("wide").upper.free, 510 - 2);
    assert_eq!(of("old").state, "Deleting");
    let ports = &report.node_port_ranges[0];
    assert_eq!(
        (ports.name.as_str(), ports.lower, ports.upper.used),
        ("kubernetes", Band { used: 1, free: 85 }, 1)
    );
}

#[test]
fn who_blocks_the_removal_of_a_range_is_named() {
    let report = survey(&cluster(), &Questions { shown: 1, ..Questions::default() });
    let blockers = |name: &str| {
        let range = report.service_cidrs.iter().find(|r| r.name == name).unwrap();
        (range.blockers.count, Shown(&range.blockers).to_string())
    };
    assert_eq!(blockers("kubernetes"), (2, "shop/a (10.96.0.1) and 1 more".to_owned()));
    assert_eq!(blockers("old"), (2, "shop/c (10.97.0.9) and 1 more".to_owned()));
    assert_eq!(blockers("wide"), (0, String::new()), "the other range has them all");
    let ports = &report.node_port_ranges[0].blockers;
    assert_eq!((ports.count, Shown(ports).to_string()), (2, "shop/a (30000) and 1 more".to_owned()));
}

#[test]
fn what_is_in_no_range_is_named() {
    let report = survey(&cluster(), &Questions::default());
    let strays: Vec<String> = report.outside.first.iter().map(ToString::to_string).collect();
    assert_eq!(strays, ["shop/c (node port 20000)", "shop/d (172.16.0.9)"]);
}

#[test]
fn another_range_is_looked_at_before_it_exists() {
    let questions = Questions {
        if_cidrs: ["10.96.0.0/16", "10.244.0.0/16", "fd00::/48"].iter().map(|t| t.parse().unwrap()).collect(),
        if_node_ports: Some("30500-40000".parse().unwrap()),
        ..Questions::default()
    };
    let report = survey(&cluster(), &questions);
    let [same, pods, huge, ports] = &report.outlook[..] else { panic!("{:#?}", report.outlook) };
    assert_eq!((same.lower.used, same.upper.used, same.moves.count), (2, 0, 2));
    assert_eq!(Shown(&same.moves).to_string(), "shop/c (10.97.0.9), shop/d (172.16.0.9)");
    assert_eq!(pods.clashes, ["overlaps the pod network 10.244.0.0/24"]);
    assert_eq!(pods.moves.count, 4);
    assert!(huge.fault.as_deref().unwrap().starts_with("shortest allowed prefix length"), "{huge:?}");
    assert_eq!(Shown(&ports.moves).to_string(), "shop/c (node port 20000), shop/a (node port 30000)");
    assert!(ports.clashes[0].starts_with("overlaps the ports 32768-60999"), "{:?}", ports.clashes);
}

#[test]
fn networks_that_clash_are_named() {
    let mut objects = cluster();
    objects.cidrs = read(&[cidr("a", "192.168.0.0/16", false), cidr("b", "10.0.0.0/8", false)]);
    let report = survey(&objects, &Questions::default());
    assert_eq!(report.service_cidrs[0].clashes, ["has the address 192.168.1.10 of Node n1"]);
    assert_eq!(report.service_cidrs[1].clashes, ["overlaps the pod network 10.244.0.0/24"]);
}

#[test]
fn roles_and_pools_are_shown() {
    let mut objects = cluster();
    let range = |name: &str, first: i32, last: i32, role: &str| json!({"metadata": {"name": name}, "spec": {"firstPort": first, "lastPort": last, "role": role}});
    objects.port_ranges = read(&[
        range("main", 30000, 30999, "Dynamic"),
        range("static", 31000, 31099, "StaticOnly"),
        range("mine", 30100, 30199, "Excluded"),
    ]);
    objects.pools = read(&[
        json!({"metadata": {"name": "gold"}, "spec": {"addresses": ["10.96.0.192/28", "10.1.0.0/24"]}}),
    ]);
    let report = survey(&objects, &Questions::default());
    let sizes: Vec<u64> = report.node_port_ranges.iter().map(|r| r.lower.free + r.upper.free).collect();
    assert_eq!(sizes, [899, 99, 0]);
    assert_eq!(report.node_port_ranges.iter().map(|r| r.blockers.count).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(report.pools[0].kinds["ipv4"], [Band::default(), Band { used: 1, free: 15 }]);
    assert_eq!(report.pools[0].faults, ["10.1.0.0/24 is in no ServiceCIDR"]);
}

#[test]
fn what_is_not_known_is_said() {
    let report = survey(&Objects::default(), &Questions::default());
    assert_eq!(report.notes.len(), 4, "{:?}", report.notes);
    assert!(serde_json::to_value(&report).unwrap()["serviceCIDRs"].is_array());
}
