//! The public reports about endpoints, hints and ports: each line of what they expect. (The numbers
//! are those of `tests/reports`.)

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service_controllers::endpointslice::explain::explain;
use service_controllers::keys;
use service_controllers::objects::{EndpointWire, IgnoredValue, Pairs, PodWire, SliceWire};

use crate::server::{Sim, named_port, node, pod, service, with_ports};

fn manager(slice: &SliceWire) -> &str {
    let labels = &slice.metadata.labels.0;
    labels.iter().find(|(k, _)| k == keys::MANAGED_BY).map_or("", |(_, v)| v.as_str())
}

fn on(mut pod: PodWire, node: &str) -> PodWire {
    pod.spec.node_name = node.into();
    pod
}

#[test]
fn p02_dropping_the_selector_leaves_one_source_of_truth() {
    let mut sim = Sim::new(100);
    sim.pod(pod("s1", "sel", "10.1.0.21"));
    sim.service(service("sel", "sel"));
    sim.settle();
    assert_eq!(sim.in_slices("sel"), ["10.1.0.21"]);

    sim.change_service("sel", |s| s.spec.selector = None);
    sim.settle();
    sim.remove_pod("s1");
    sim.settle();
    let naming: Vec<&SliceWire> = sim.slices_of("sel").filter(|s| !s.endpoints.is_empty()).collect();
    assert_eq!(naming.len(), 1, "one slice names the address: the mirror of an object the user can edit");
    assert_eq!(manager(naming[0]), keys::MIRROR_MANAGER);
    assert_eq!(sim.slices_of("sel").count(), 1);
    let told: Vec<_> = sim.notes.iter().filter(|n| n.reason == "SelectorRemoved").collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].message.contains("mirrored"), "{}", told[0].message);

    sim.change_service("sel", |s| s.spec.selector = service("sel", "sel").spec.selector);
    sim.pod(pod("s2", "sel", "10.1.0.22"));
    sim.settle();
    let slices: Vec<&SliceWire> = sim.slices_of("sel").collect();
    assert_eq!((slices.len(), manager(slices[0])), (1, keys::SLICE_MANAGER));
    assert_eq!(sim.in_slices("sel"), ["10.1.0.22"]);
    assert_eq!(sim.in_endpoints("sel"), ["10.1.0.22"]);
}

#[test]
fn p02_a_detour_by_external_name_leaves_no_second_source() {
    let mut sim = Sim::new(100);
    sim.pod(pod("s1", "sel", "10.1.0.21"));
    sim.service(service("sel", "sel"));
    sim.settle();
    sim.change_service("sel", |s| {
        s.spec.r#type = "ExternalName".into();
        s.spec.selector = None;
    });
    sim.settle();
    assert_eq!(sim.slices_of("sel").filter(|s| manager(s) == keys::SLICE_MANAGER).count(), 0);
    sim.remove_pod("s1");
    sim.pod(pod("s2", "sel", "10.1.0.22"));
    let before = service("sel", "sel");
    sim.change_service("sel", |s| s.spec = before.spec);
    sim.settle();
    assert_eq!(sim.slices_of("sel").count(), 1);
    assert_eq!(sim.in_slices("sel"), ["10.1.0.22"]);
    assert_eq!(sim.in_endpoints("sel"), ["10.1.0.22"]);
}

/// As long as a Service is an external name it has no endpoints (kubernetes/kubernetes 105986), the selector kept or not.
#[test]
fn an_external_name_has_no_endpoints() {
    let mut sim = Sim::new(100);
    sim.pod(pod("s1", "sel", "10.1.0.21"));
    sim.service(service("sel", "sel"));
    sim.settle();
    sim.change_service("sel", |s| s.spec.r#type = "ExternalName".into());
    sim.settle();
    assert_eq!((sim.slices_of("sel").count(), sim.endpoints.contains_key("sel")), (0, false));
    assert!(sim.notes.iter().all(|note| note.reason != "SelectorRemoved"));
    sim.remove_pod("s1");
    sim.pod(pod("s2", "sel", "10.1.0.22"));
    assert_eq!(sim.settle(), 0);
    sim.change_service("sel", |s| s.spec.r#type = "ClusterIP".into());
    sim.settle();
    assert_eq!((sim.slices_of("sel").count(), sim.in_slices("sel")), (1, vec!["10.1.0.22".to_owned()]));
    assert_eq!(sim.in_endpoints("sel"), ["10.1.0.22"]);
}

#[test]
fn p07_a_finished_pods_address_belongs_to_somebody_else() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    let mut all = service("web-all", "web");
    all.spec.publish_not_ready_addresses = true;
    sim.service(all);
    sim.service(service("other", "other"));
    sim.pod(pod("w1", "web", "10.1.1.1"));
    sim.pod(pod("w2", "web", "10.1.1.2"));
    sim.set_ready("w2", false);
    sim.settle();

    sim.change_pod("w1", |p| p.status.phase = "Failed".into());
    sim.pod(pod("other", "other", "10.1.1.1"));
    sim.change_pod("w2", |p| p.status.phase = "Succeeded".into());
    sim.pod(pod("w3", "web", "10.1.1.3"));
    sim.settle();
    sim.change_pod("w3", |p| p.metadata.deletion_timestamp = Some(IgnoredValue));
    sim.settle();

    assert_eq!(sim.in_slices("other"), ["10.1.1.1"]);
    assert_eq!(
        (sim.in_slices("web"), sim.in_slices("web-all")),
        (vec!["10.1.1.3".to_owned()], vec!["10.1.1.3".to_owned()])
    );
    let conditions = |name: &str| {
        let endpoint: &EndpointWire = &sim.slices_of(name).next().unwrap().endpoints[0];
        (endpoint.conditions.ready, endpoint.conditions.serving, endpoint.conditions.terminating)
    };
    assert_eq!(conditions("web"), (Some(false), Some(true), Some(true)));
    assert_eq!(conditions("web-all"), (Some(true), Some(true), Some(true)));
    assert!(sim.in_endpoints("web").is_empty());
    assert_eq!(sim.in_endpoints("web-all"), ["10.1.1.3"]);
}

/// A simulation with nodes z1, z2, z3 in zones A, B, C and pods of `app=hint` on them.
fn zones(counts: [u8; 3]) -> Sim {
    let mut sim = Sim::new(100);
    sim.cluster.feed.node_deleted("n1");
    sim.nodes.clear();
    for (zone, (name, count)) in ["A", "B", "C"].into_iter().zip(["z1", "z2", "z3"].into_iter().zip(counts)) {
        sim.node(node(name, Some(zone)));
        for i in 0..count {
            sim.pod(on(
                pod(&format!("{name}-{i}"), "hint", &format!("10.{}.0.{i}", zone.as_bytes()[0])),
                name,
            ));
        }
    }
    sim
}

fn auto(name: &str) -> service_controllers::objects::ServiceWire {
    let mut service = service(name, "hint");
    service.metadata.annotations = Pairs(vec![(keys::TOPOLOGY_MODE.into(), "Auto".into())]);
    service
}

/// How many endpoints of a Service have a hint, and how many of these for their own zone.
fn hints(sim: &Sim, service: &str) -> (usize, usize) {
    let endpoints: Vec<&EndpointWire> = sim.slices_of(service).flat_map(|s| &s.endpoints).collect();
    let zone = |e: &EndpointWire| e.hints.as_ref().and_then(|h| h.for_zones.first()).map(|z| z.name.clone());
    let given = endpoints.iter().filter(|e| zone(e).is_some()).count();
    (given, endpoints.iter().filter(|e| zone(e).is_some() && zone(e) == e.zone).count())
}

#[test]
fn p08_hints_that_are_withheld_say_why_with_numbers() {
    let mut sim = zones([4, 4, 3]);
    let mut td = service("td", "hint");
    td.spec.traffic_distribution = Some("PreferSameZone".into());
    sim.service(td);
    sim.service(auto("hint"));
    sim.settle();
    assert_eq!(hints(&sim, "td"), (11, 11));
    assert_eq!(hints(&sim, "hint"), (0, 0));
    let reason = |sim: &Sim| {
        sim.notes.iter().filter(|n| &*n.name == "hint").map(|n| n.message.clone()).collect::<Vec<_>>()
    };
    let told = reason(&sim);
    assert_eq!(told.len(), 1);
    for word in [
        "MinAllocationExceedsOverloadThreshold",
        "11 ready endpoints",
        "3 zones",
        "wanted share 33%",
        "reached 27% (3)",
        "12 endpoints would do",
    ] {
        assert!(told[0].contains(word), "{word} is not in {}", told[0]);
    }

    sim.pod(on(pod("z3-3", "hint", "10.67.0.3"), "z3"));
    sim.settle();
    assert_eq!(hints(&sim, "hint"), (12, 12));
    assert_eq!(sim.notes.iter().filter(|n| n.reason == "TopologyAwareHintsEnabled").count(), 1);

    let mut writes = BTreeMap::new();
    for (change, expected) in [
        (node("z1", None), "InsufficientNodeInfo"),
        (
            {
                let mut z2 = node("z2", Some("B"));
                z2.status.allocatable.cpu = Some("0".into());
                z2
            },
            "InsufficientNodeInfo",
        ),
    ] {
        let name = change.metadata.name.clone();
        let whole = sim.nodes[&name].clone();
        sim.notes.clear();
        sim.node(change);
        writes.insert(format!("{name} away"), sim.settle());
        assert_eq!(hints(&sim, "hint").0, 0);
        assert_eq!(reason(&sim).len(), 1, "one state, one event: {:?}", reason(&sim));
        assert!(reason(&sim)[0].contains(expected) && reason(&sim)[0].contains(&name), "{:?}", reason(&sim));
        for i in 0..5 {
            sim.change_service("hint", |s| {
                s.metadata.labels = Pairs(vec![("touched".into(), i.to_string())]);
            });
            sim.settle();
        }
        assert_eq!(reason(&sim).len(), 1, "however often it is computed");
        sim.node(whole);
        sim.settle();
        assert_eq!(hints(&sim, "hint"), (12, 12), "hints come back at once");
    }
    assert!(writes.values().all(|n| *n <= 2), "one write for each slice: {writes:?}");

    sim.notes.clear();
    let names: Vec<String> = sim.pods.keys().skip(2).cloned().collect();
    for name in names {
        sim.remove_pod(&name);
    }
    sim.settle();
    assert_eq!(hints(&sim, "hint").0, 0);
    assert!(reason(&sim)[0].contains("InsufficientEndpoints"), "{:?}", reason(&sim));
}

#[test]
fn p12_named_target_ports_across_containers_and_pods() {
    let mut sim = Sim::new(100);
    let mut mc = service("mc", "mc");
    mc.spec.ports = vec![named_port("", 80, "grpc")];
    sim.service(mc);
    sim.pod(with_ports(
        with_ports(pod("m1", "mc", "10.0.0.1"), &[("grpc", 5001, "TCP")]),
        &[("grpc", 5002, "TCP")],
    ));
    sim.pod(with_ports(
        with_ports(pod("m2", "mc", "10.0.0.2"), &[("grpc", 5001, "UDP")]),
        &[("grpc", 5003, "TCP")],
    ));
    sim.pod(pod("m3", "mc", "10.0.0.3"));
    let mut both = service("both", "g");
    both.spec.ports = vec![named_port("a", 80, "one"), named_port("b", 81, "two")];
    sim.service(both);
    sim.pod(with_ports(pod("g1", "g", "10.0.1.1"), &[("one", 3000, "TCP")]));
    sim.pod(with_ports(pod("g2", "g", "10.0.1.2"), &[("two", 3000, "TCP")]));
    sim.pod(with_ports(pod("g3", "g", "10.0.1.3"), &[("one", 3000, "TCP"), ("two", 3001, "TCP")]));
    sim.settle();

    let published = |service: &str| -> BTreeMap<String, Vec<(String, i32)>> {
        let ports = |s: &SliceWire| {
            let mut ports: Vec<_> =
                s.ports.iter().map(|p| (p.name.clone().unwrap_or_default(), p.port.unwrap())).collect();
            ports.sort();
            ports
        };
        let each = sim
            .slices_of(service)
            .flat_map(|s| s.endpoints.iter().map(move |e| (e.addresses[0].clone(), ports(s))));
        each.collect()
    };
    let port = |name: &str, number| (name.to_owned(), number);
    assert_eq!(published("mc")["10.0.0.1"], [port("", 5001)]);
    assert_eq!(published("mc")["10.0.0.2"], [port("", 5003)]);
    assert_eq!(published("mc")["10.0.0.3"], []);
    assert_eq!(published("both")["10.0.1.1"], [port("a", 3000)]);
    assert_eq!(published("both")["10.0.1.2"], [port("b", 3000)]);
    assert_eq!(published("both")["10.0.1.3"], [port("a", 3000), port("b", 3001)]);
    assert_eq!(sim.slices_of("both").count(), 3);

    let pairs = |service: &str| {
        let mut pairs: Vec<(String, i32)> = sim.endpoints[service]
            .subsets
            .iter()
            .flat_map(|s| {
                s.addresses.iter().flat_map(|a| s.ports.iter().map(|p| (a.ip.clone(), p.port.unwrap())))
            })
            .collect();
        pairs.sort();
        pairs
    };
    let expected: Vec<(String, i32)> = published("both")
        .into_iter()
        .flat_map(|(ip, ports)| ports.into_iter().map(move |(_, n)| (ip.clone(), n)))
        .collect();
    assert_eq!(pairs("both"), expected, "the Endpoints object says the same");

    let told: Vec<Value> =
        explain(&sim.cluster.index.lock(), "default", "mc").iter().map(|line| json!(line)).collect();
    let told = json!(told).to_string();
    assert!(told.contains("m3 has no port grpc/TCP"), "{told}");
    assert!(told.contains("m1 has grpc/TCP more than once; 5001 is taken, 5002 is not"), "{told}");
}

#[test]
fn p15_a_zone_label_that_arrives_late() {
    let mut sim = zones([4, 4, 4]);
    sim.service(auto("hint"));
    sim.settle();
    assert_eq!(hints(&sim, "hint"), (12, 12));
    sim.node(node("z5", None));
    let removal = sim.settle();
    sim.node(node("z5", Some("B")));
    let restoring = sim.settle();
    assert_eq!(hints(&sim, "hint").0, 12, "all hints again, with nothing else touched");
    assert!(removal <= 1 && restoring <= 1, "{removal} and {restoring} writes");
}

/// The annotation wins over `trafficDistribution`, also where that gave hints for nodes before.
#[test]
fn hints_for_nodes_go_when_the_annotation_comes() {
    let mut sim = zones([4, 4, 4]);
    let annotated = auto("hint");
    let mut same_node = annotated.clone();
    same_node.metadata.annotations = service("hint", "hint").metadata.annotations;
    same_node.spec.traffic_distribution = Some("PreferSameNode".into());
    sim.service(same_node);
    sim.settle();
    let for_nodes = |sim: &Sim| {
        let endpoints = sim.slices_of("hint").flat_map(|slice| &slice.endpoints);
        endpoints.filter(|e| e.hints.as_ref().is_some_and(|h| !h.for_nodes.is_empty())).count()
    };
    assert_eq!(for_nodes(&sim), 12);
    sim.change_service("hint", |s| s.metadata.annotations = annotated.metadata.annotations);
    assert_eq!(sim.settle(), 1, "one slice, one write");
    assert_eq!((hints(&sim, "hint"), for_nodes(&sim)), ((12, 12), 0));
}
