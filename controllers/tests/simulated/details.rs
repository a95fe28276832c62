//! Details of Kubernetes v1.36's controllers that no recorded case shows: hints, and which change a trigger time stands for.

use service_controllers::keys;
use service_controllers::objects::{HintsWire, IpWire, NamedWire, Pairs, SliceWire};

use crate::objects::{only_slice, ready_since, touch, triggers};
use crate::server::{Sim, node, pod, service};

#[test]
fn the_node_is_hinted_even_if_there_is_no_such_object() {
    let mut sim = Sim::new(100);
    let mut lost = pod("p1", "web", "10.1.0.1");
    lost.spec.node_name = "gone".into();
    sim.pod(lost);
    let mut web = service("web", "web");
    web.spec.publish_not_ready_addresses = true;
    web.spec.traffic_distribution = Some("PreferSameNode".into());
    sim.service(web);
    sim.settle();
    let endpoint = &only_slice(&sim, "web").endpoints[0];
    let hints = endpoint.hints.as_ref().unwrap();
    assert_eq!((hints.for_nodes[0].name.as_str(), hints.for_zones.len()), ("gone", 0));
    assert_eq!(endpoint.zone, None);
}

#[test]
fn a_change_that_was_seen_is_not_the_trigger_of_a_later_write() {
    let third = [Some("2031-01-01T00:00:03Z".to_owned()), Some("2031-01-01T00:00:03Z".to_owned())];

    // Only the time of a readiness changed; the next look is for the Service's sake.
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.pod(pod("p2", "web", "10.1.0.2"));
    sim.service(service("web", "web"));
    sim.settle();
    sim.change_pod("p1", |p| ready_since(p, true, "2031-01-01T00:00:02Z"));
    assert_eq!(sim.settle(), 0);
    touch(&mut sim, "web");
    assert_eq!(sim.settle(), 0);
    sim.change_pod("p2", |p| ready_since(p, false, "2031-01-01T00:00:03Z"));
    sim.settle();
    assert_eq!(triggers(&sim, "web"), third);

    // A pod without address changes its readiness.
    let mut sim = Sim::new(100);
    let mut waiting = pod("p1", "web", "");
    (waiting.status.pod_ip, waiting.status.pod_ips) = (String::new(), Vec::new());
    ready_since(&mut waiting, false, "2031-01-01T00:00:00Z");
    sim.pod(waiting);
    sim.pod(pod("p2", "web", "10.1.0.2"));
    sim.service(service("web", "web"));
    sim.settle();
    sim.change_pod("p1", |p| ready_since(p, true, "2031-01-01T00:00:02Z"));
    assert_eq!(sim.settle(), 0);
    sim.change_pod("p2", |p| ready_since(p, false, "2031-01-01T00:00:03Z"));
    sim.settle();
    assert_eq!(triggers(&sim, "web"), third);
}

#[test]
fn hints_of_endpoints_that_are_not_ready_are_left_alone() {
    let hinted = |slice: &mut SliceWire| {
        let endpoint = slice.endpoints.iter_mut().find(|e| e.conditions.ready == Some(false)).unwrap();
        endpoint.hints =
            Some(HintsWire { for_zones: vec![NamedWire { name: "zone-z".into() }], ..HintsWire::default() });
    };
    for auto in [true, false] {
        let mut sim = Sim::new(100);
        sim.node(node("n2", Some("zone-b")));
        for i in 0..5_u8 {
            let mut pod = pod(&format!("p{i}"), "web", &format!("10.1.0.{i}"));
            pod.spec.node_name = if i % 2 == 0 { "n1" } else { "n2" }.into();
            ready_since(&mut pod, i != 4, "2031-01-01T00:00:00Z");
            sim.pod(pod);
        }
        let mut web = service("web", "web");
        if auto {
            web.metadata.annotations = Pairs(vec![(keys::TOPOLOGY_MODE.into(), "Auto".into())]);
        } else {
            web.spec.traffic_distribution = Some("PreferClose".into());
        }
        sim.service(web);
        sim.settle();
        let mut slice = only_slice(&sim, "web").clone();
        assert_eq!(slice.endpoints.iter().filter(|e| e.hints.is_some()).count(), 4);
        hinted(&mut slice);
        sim.foreign_slice(slice.clone());
        assert_eq!(sim.settle(), 0, "auto {auto}");

        slice.endpoints.iter_mut().find(|e| e.conditions.ready == Some(true)).unwrap().hints = None;
        sim.foreign_slice(slice);
        assert_eq!(sim.settle(), 1, "auto {auto}: a hint is missing");
        let hinted = only_slice(&sim, "web").endpoints.iter().filter(|e| e.hints.is_some());
        assert_eq!(hinted.count(), 5, "auto {auto}: also the one that was put there");
    }
}

#[test]
fn the_placeholder_of_a_former_service_will_do() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    sim.settle();
    let left = only_slice(&sim, "web").metadata.name.clone();
    sim.cluster.feed.service_deleted("default", "web");
    let mut again = service("web", "web");
    again.metadata.uid = "uid-of-another-service-web".into();
    sim.service(again);
    assert_eq!(sim.settle(), 0, "neither it nor the Endpoints object is written");
    assert_eq!(only_slice(&sim, "web").metadata.name, left);

    sim.foreign_delete(&left);
    sim.settle();
    assert_eq!(only_slice(&sim, "web").metadata.owner_references[0].uid, "uid-of-another-service-web");
    assert_eq!(only_slice(&sim, "web").endpoints.len(), 0);

    let before = only_slice(&sim, "web").metadata.name.clone();
    sim.change_service("web", |s| s.metadata.uid = "uid-of-a-third-service-web".into());
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.settle();
    assert_ne!(only_slice(&sim, "web").metadata.name, before, "with a pod it is not taken over");
}

#[test]
fn two_families_get_their_hints_with_one_event() {
    let told = |sim: &mut Sim| {
        sim.settle();
        sim.notes.drain(..).map(|n| (n.reason.to_owned(), n.message)).collect::<Vec<_>>()
    };
    let mut sim = Sim::new(100);
    sim.node(node("n1", Some("zone-a")));
    sim.node(node("n2", Some("zone-b")));
    for i in 1..=2_u8 {
        let mut pod = pod(&format!("p{i}"), "web", &format!("10.1.0.{i}"));
        pod.status.pod_ips.push(IpWire { ip: format!("fd00::{i}") });
        pod.spec.node_name = format!("n{i}");
        sim.pod(pod);
    }
    let mut web = service("web", "web");
    web.spec.ip_families = vec!["IPv4".into(), "IPv6".into()];
    web.metadata.annotations = Pairs(vec![(keys::TOPOLOGY_MODE.into(), "Auto".into())]);
    sim.service(web);
    let first = told(&mut sim);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0].0, "TopologyAwareHintsEnabled");
    assert!(sim.slices_of("web").flat_map(|s| &s.endpoints).all(|e| e.hints.is_some()));

    // One family is short of an endpoint: that one is told of, going and coming.
    sim.change_pod("p2", |p| p.status.pod_ips.truncate(1));
    let lost = told(&mut sim);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].0 == "TopologyAwareHintsDisabled" && lost[0].1.contains("IPv6"), "{lost:?}");
    sim.change_pod("p2", |p| p.status.pod_ips.push(IpWire { ip: "fd00::2".into() }));
    let back = told(&mut sim);
    assert_eq!(back.len(), 1, "{back:?}");
    assert!(back[0].0 == "TopologyAwareHintsEnabled" && back[0].1.contains("IPv6"), "{back:?}");

    // A family that the Service gives up is no news.
    sim.change_service("web", |s| s.spec.ip_families.truncate(1));
    assert_eq!(told(&mut sim), []);
    sim.change_service("web", |s| s.metadata.annotations.0.clear());
    let off = "Topology Aware Hints has been disabled, addressType: IPv4";
    assert_eq!(told(&mut sim), [("TopologyAwareHintsDisabled".to_owned(), off.to_owned())]);
}

#[test]
fn services_are_counted_by_the_field_that_gives_their_hints() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    let asks = |name: &str, traffic: &str| {
        let mut service = service(name, "web");
        service.spec.traffic_distribution = Some(traffic.into());
        service
    };
    for (name, traffic) in [("a", "PreferClose"), ("b", "PreferSameNode"), ("c", "PreferSameNode")] {
        sim.service(asks(name, traffic));
    }
    let mut annotated = asks("annotated", "PreferClose");
    annotated.metadata.annotations = Pairs(vec![(keys::TOPOLOGY_MODE.into(), "auto".into())]);
    let mut elsewhere = asks("elsewhere", "PreferSameZone");
    elsewhere.spec.r#type = "ExternalName".into();
    let mut by_hand = asks("by-hand", "PreferSameZone");
    by_hand.spec.selector = None;
    for other in [annotated, elsewhere, by_hand, asks("new-word", "PreferNowhere"), service("plain", "web")] {
        sim.service(other);
    }
    sim.settle();
    assert_eq!(sim.cluster.index.lock().sizes(100, 1000).by_traffic, [1, 0, 2]);

    sim.change_service("a", |s| s.spec.traffic_distribution = Some("PreferSameZone".into()));
    assert_eq!(sim.settle(), 0, "another word for the same hints");
    sim.cluster.feed.service_deleted("default", "b");
    assert_eq!(sim.cluster.index.lock().sizes(100, 1000).by_traffic, [0, 1, 1]);
}
