//! Details of Kubernetes v1.36's controllers that no recorded case shows: how addresses are spelt
//! and sorted, what an edit by hand costs, which change a trigger time stands for.

use std::net::IpAddr;

use rstest::rstest;
use service_controllers::keys;
use service_controllers::servicecidr::state::CidrStep;
use service_controllers::watch::objects::{
    AddressWire, CidrWire, EndpointsWire, HintsWire, IpAddressWire, IpWire, MetaWire, NamedWire, Pairs,
    PodWire, PortWire, RefWire, ServiceWire, SliceWire, SubsetWire,
};
use service_controllers::watch::world::{Controller, Limits, Pace, World};

use crate::server::{Sim, node, pod, service, with_ports};

/// A Service without selector.
pub(crate) fn bare(name: &str) -> ServiceWire {
    let mut service = service(name, "");
    service.spec.selector = None;
    service
}

pub(crate) fn endpoints(name: &str, ips: &[&str]) -> EndpointsWire {
    let address = |ip: &&str| AddressWire { ip: (*ip).into(), ..AddressWire::default() };
    EndpointsWire {
        metadata: MetaWire {
            name: name.into(),
            namespace: "default".into(),
            uid: format!("uid-of-endpoints-{name}"),
            ..MetaWire::default()
        },
        subsets: vec![SubsetWire {
            addresses: ips.iter().map(address).collect(),
            ports: vec![PortWire { port: Some(80), ..PortWire::default() }],
            ..SubsetWire::default()
        }],
    }
}

fn with_ip(mut pod: PodWire, ip: &str) -> PodWire {
    pod.status.pod_ip = ip.into();
    pod.status.pod_ips = vec![IpWire { ip: ip.into() }];
    pod
}

pub(crate) fn ready_since(pod: &mut PodWire, ready: bool, time: &str) {
    pod.status.conditions[0].status = if ready { "True" } else { "False" }.into();
    pod.status.conditions[0].last_transition_time = Some(time.into());
}

pub(crate) fn annotation<'a>(meta: &'a MetaWire, key: &str) -> Option<&'a str> {
    meta.annotations.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

pub(crate) fn only_slice<'a>(sim: &'a Sim, service: &'a str) -> &'a SliceWire {
    let mut slices = sim.slices_of(service);
    let slice = slices.next().unwrap();
    assert!(slices.next().is_none(), "one slice");
    slice
}

/// Somebody touches a Service without a change that concerns endpoints.
pub(crate) fn touch(sim: &mut Sim, name: &str) {
    sim.change_service(name, |s| s.metadata.annotations.0.push(("note".into(), "touched".into())));
}

#[test]
fn addresses_are_cut_in_the_order_of_their_spelling() {
    let mut sim = Sim::new(1000);
    for i in 0..1000 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.9.{}.{}", i / 250, i % 250)));
    }
    sim.pod(pod("early", "web", "10.10.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let kept = sim.in_endpoints("web");
    assert_eq!((kept.len(), kept[0].as_str()), (1000, "10.10.0.1"));
    assert!(!kept.contains(&"10.9.3.99".to_owned()), "the last in this order is left out");

    sim.world.limits.max_mirrored = 2;
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["192.0.2.9", "192.0.2.100", "192.0.2.10"]));
    sim.settle();
    assert_eq!(sim.in_slices("custom"), ["192.0.2.10", "192.0.2.100"]);
}

#[test]
fn a_subset_that_is_cut_to_nothing_is_left_out() {
    let mut sim = Sim::new(1000);
    for i in 0..1001 {
        let pod = pod(&format!("p{i}"), "web", &format!("10.9.{}.{}", i / 250, i % 250));
        sim.pod(with_ports(pod, &[("http", 8080, "TCP")]));
    }
    let mut late = with_ports(pod("late", "web", "10.10.0.1"), &[("http", 9090, "TCP")]);
    ready_since(&mut late, false, "2031-01-01T00:00:00Z");
    sim.pod(late);
    let mut web = service("web", "web");
    web.spec.ports = vec![crate::server::named_port("", 80, "http")];
    sim.service(web);
    sim.settle();
    let subsets = &sim.endpoints["web"].subsets;
    assert_eq!(subsets.len(), 1, "the API refuses a subset without addresses");
    assert_eq!(subsets[0].addresses.len(), 1000);
}

#[test]
fn addresses_are_written_in_canonical_spelling() {
    let mut sim = Sim::new(100);
    sim.pod(with_ip(pod("p1", "six", ""), "FD00:0::A"));
    let mut six = service("six", "six");
    six.spec.ip_families = vec!["IPv6".into()];
    sim.service(six);
    sim.pod(with_ip(pod("p2", "four", ""), "::ffff:10.1.0.2"));
    sim.service(service("four", "four"));
    sim.settle();
    assert_eq!(
        (sim.in_slices("six"), sim.in_endpoints("six")),
        (vec!["fd00::a".into()], vec!["fd00::a".into()])
    );
    assert_eq!(sim.in_slices("four"), ["10.1.0.2"]);

    sim.service(bare("custom"));
    let mut custom = endpoints("custom", &["2001:DB8::1", "2001:db8:0::1", "010.1.0.3"]);
    custom.subsets[0].not_ready_addresses =
        vec![AddressWire { ip: "2001:db8::1".into(), ..AddressWire::default() }];
    sim.foreign_endpoints(custom);
    sim.settle();
    let mut listed = sim.listed("custom");
    listed.sort();
    assert_eq!(
        listed,
        [(String::new(), "10.1.0.3".into(), true), (String::new(), "2001:db8::1".into(), false)]
    );
    assert_eq!(sim.settle(), 0);
    touch(&mut sim, "custom");
    assert_eq!(sim.settle(), 0, "nothing differs from what is there");
}

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
fn endpoints_edited_by_hand_are_put_right() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let mut edited = sim.endpoints["web"].clone();
    edited.subsets[0].addresses[0].ip = "192.0.2.9".into();
    sim.foreign_endpoints(edited);
    assert_eq!(sim.settle(), 1);
    assert_eq!(sim.in_endpoints("web"), ["10.1.0.1"]);
    let mut annotated = sim.endpoints["web"].clone();
    annotated.metadata.annotations.0.push(("by".into(), "hand".into()));
    sim.foreign_endpoints(annotated);
    assert_eq!(sim.settle(), 0, "nothing is wrong");
}

#[test]
fn the_version_of_a_pod_in_a_reference_does_not_count() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let version = |target: &mut Option<RefWire>| {
        target.as_mut().unwrap().resource_version = Some("77".into());
    };
    let mut slice = only_slice(&sim, "web").clone();
    version(&mut slice.endpoints[0].target_ref);
    sim.foreign_slice(slice);
    let mut edited = sim.endpoints["web"].clone();
    version(&mut edited.subsets[0].addresses[0].target_ref);
    sim.foreign_endpoints(edited);
    touch(&mut sim, "web");
    assert_eq!(sim.settle(), 0);

    sim.service(bare("custom"));
    let mut custom = endpoints("custom", &["10.1.0.9"]);
    let target = RefWire {
        kind: Some("Pod".into()),
        namespace: Some("default".into()),
        name: Some("p9".into()),
        ..RefWire::default()
    };
    custom.subsets[0].addresses[0].target_ref = Some(target);
    sim.foreign_endpoints(custom.clone());
    sim.settle();
    version(&mut custom.subsets[0].addresses[0].target_ref);
    sim.foreign_endpoints(custom);
    assert_eq!(sim.settle(), 0, "a mirror need not follow");
}

#[test]
fn a_mirror_shows_the_version_it_was_made_with() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    let mut custom = endpoints("custom", &["10.1.0.9"]);
    custom.subsets[0].addresses[0].target_ref = Some(RefWire {
        kind: Some("Pod".into()),
        namespace: Some("default".into()),
        name: Some("p9".into()),
        resource_version: Some("7".into()),
        ..RefWire::default()
    });
    sim.foreign_endpoints(custom.clone());
    sim.settle();
    let target = only_slice(&sim, "custom").endpoints[0].target_ref.clone();
    assert_eq!(target, custom.subsets[0].addresses[0].target_ref);
}

/// The time of the change behind the latest write of a Service's only slice and of its `Endpoints`.
pub(crate) fn triggers(sim: &Sim, service: &str) -> [Option<String>; 2] {
    let slice = annotation(&only_slice(sim, service).metadata, keys::TRIGGER_TIME);
    let endpoints = annotation(&sim.endpoints[service].metadata, keys::TRIGGER_TIME);
    [slice.map(str::to_owned), endpoints.map(str::to_owned)]
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
        sim.foreign_slice(slice);
        assert_eq!(sim.settle(), 0, "auto {auto}");
    }
}

#[test]
fn only_addresses_of_the_allocators_hold_a_range() {
    for (family, held) in [(Some("IPv4"), true), (Some("IPv6"), false), (None, false)] {
        let mut world = World::new(Limits::default());
        let mut cidr = CidrWire::default();
        cidr.metadata.name = "extra".into();
        cidr.metadata.uid = "uid-of-extra".into();
        cidr.metadata.resource_version = "5".into();
        cidr.metadata.deletion_timestamp = Some("2030-01-01T00:00:00Z".into());
        cidr.metadata.finalizers = vec![keys::SERVICE_CIDR_FINALIZER.into()];
        cidr.spec.cidrs = vec!["10.97.0.0/24".into()];
        world.cidr(cidr);
        let ip: IpAddr = "10.97.0.7".parse().unwrap();
        let mut labels = vec![(keys::IPADDRESS_MANAGED_BY.to_owned(), keys::IPADDRESS_MANAGER.to_owned())];
        labels.extend(family.map(|family| (keys::IP_FAMILY.to_owned(), family.to_owned())));
        let metadata = MetaWire { name: ip.to_string(), labels: Pairs(labels), ..MetaWire::default() };
        world.ip_address(&IpAddressWire { metadata });
        let now = "2030-01-01T01:00:00Z".parse().unwrap();
        let CidrStep::Send(job) = world.plan_cidr(&"extra".into(), now) else { panic!("a write is needed") };
        assert_eq!(job.write.status, held, "{family:?}: blocked in its status, or released");
    }
}

#[test]
fn custom_endpoints_are_mirrored_at_once_and_slices_are_put_right_after_a_while() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    let paces = |sim: &mut Sim| -> Vec<Pace> {
        let wakes = sim.world.take_wakes().into_iter();
        wakes.filter(|(key, _)| key.controller == Controller::Mirrors).map(|(_, pace)| pace).collect()
    };
    assert_eq!(paces(&mut sim), [Pace::Now]);
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.8"]));
    sim.settle();
    let mut edited = only_slice(&sim, "custom").clone();
    edited.endpoints.clear();
    sim.foreign_slice(edited);
    assert_eq!(paces(&mut sim), [Pace::Gather]);
}

#[test]
fn the_placeholder_of_a_former_service_will_do() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    sim.settle();
    let left = only_slice(&sim, "web").metadata.name.clone();
    sim.world.service_deleted("default", "web");
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
fn every_label_of_a_mirror_is_that_of_its_endpoints() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    sim.settle();
    let right = only_slice(&sim, "custom").metadata.labels.clone();
    let mut edited = only_slice(&sim, "custom").clone();
    edited.metadata.labels.0.push((keys::HEADLESS.into(), String::new()));
    sim.foreign_slice(edited);
    assert_eq!(sim.settle(), 1);
    assert_eq!(only_slice(&sim, "custom").metadata.labels, right);
}

#[rstest]
#[case::to_another_service(Some("other"))]
#[case::to_none(None)]
fn a_service_whose_slice_was_given_another_service_gets_a_new_one(#[case] given: Option<&str>) {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    sim.settle();
    for (name, address) in [("web", "10.1.0.1"), ("custom", "10.1.0.9")] {
        let mut edited = only_slice(&sim, name).clone();
        edited.metadata.labels.0.retain(|(key, _)| key != keys::SERVICE_NAME);
        let given = given.map(|service| (keys::SERVICE_NAME.to_owned(), service.to_owned()));
        edited.metadata.labels.0.extend(given);
        sim.foreign_slice(edited);
        sim.settle();
        let slice = only_slice(&sim, name);
        assert_eq!(slice.endpoints.iter().flat_map(|e| &e.addresses).collect::<Vec<_>>(), [address]);
    }
}

#[test]
fn a_mirror_passes_to_endpoints_that_were_made_again() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    sim.settle();
    let name = only_slice(&sim, "custom").metadata.name.clone();
    let mut again = endpoints("custom", &["10.1.0.9"]);
    again.metadata.uid = "uid-of-other-endpoints".into();
    sim.endpoints.insert("custom".into(), again.clone());
    sim.restart();
    sim.foreign_endpoints(again);
    assert_eq!(sim.settle(), 1);
    let slice = only_slice(&sim, "custom");
    assert_eq!(slice.metadata.name, name, "at no moment the Service is without its endpoints");
    assert_eq!(slice.metadata.owner_references[0].uid, "uid-of-other-endpoints");
}

#[test]
fn a_slice_that_is_held_while_it_is_deleted_holds_up_nobody() {
    let deleted = |sim: &mut Sim, service: &str| {
        let mut slice = only_slice(sim, service).clone();
        slice.metadata.finalizers = vec!["example.test/hold".into()];
        slice.metadata.deletion_timestamp = Some("2031-01-01T00:00:00Z".into());
        let name = slice.metadata.name.clone();
        sim.foreign_slice(slice);
        name
    };
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let held = deleted(&mut sim, "web");
    sim.settle();
    sim.pod(pod("p2", "web", "10.1.0.2"));
    sim.set_ready("p1", false);
    sim.settle();
    let alive: Vec<&SliceWire> = sim.slices_of("web").filter(|s| s.metadata.name != held).collect();
    assert_eq!(alive.len(), 1);
    let readiness: Vec<_> =
        alive[0].endpoints.iter().map(|e| (e.addresses[0].as_str(), e.conditions.ready)).collect();
    assert_eq!(readiness, [("10.1.0.1", Some(false)), ("10.1.0.2", Some(true))]);
    sim.foreign_delete(&held);
    assert_eq!(sim.settle(), 0);

    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    sim.settle();
    let held = deleted(&mut sim, "custom");
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.8"]));
    sim.settle();
    let alive: Vec<&SliceWire> = sim.slices_of("custom").filter(|s| s.metadata.name != held).collect();
    assert_eq!((alive.len(), alive[0].endpoints[0].addresses[0].as_str()), (1, "10.1.0.8"));
    sim.foreign_delete(&held);
    assert_eq!(sim.settle(), 0);
}

#[test]
fn a_pod_without_a_node_is_left_out_and_keeps_nobody_from_being_listed() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    let mut all = service("all", "web");
    all.spec.publish_not_ready_addresses = true;
    sim.service(all);
    let mut unbound = pod("p2", "web", "10.1.0.2");
    unbound.spec.node_name = String::new();
    sim.pod(unbound);
    sim.settle();
    sim.pod(pod("p3", "web", "10.1.0.3"));
    sim.settle();
    assert_eq!(sim.in_endpoints("web"), ["10.1.0.1", "10.1.0.3"]);
    assert_eq!(sim.in_slices("web"), ["10.1.0.1", "10.1.0.3"]);
    assert_eq!(sim.in_endpoints("all"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    let node = |ip: &str| {
        let addresses = &sim.endpoints["all"].subsets[0].addresses;
        addresses.iter().find(|a| a.ip == ip).unwrap().node_name.clone()
    };
    assert_eq!((node("10.1.0.1"), node("10.1.0.2")), (Some("n1".to_owned()), None));
}

#[test]
fn what_others_put_on_a_slice_stays_when_the_last_pod_goes() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p1", "web", "10.1.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let mut slice = only_slice(&sim, "web").clone();
    let name = slice.metadata.name.clone();
    slice.metadata.annotations.0.push(("by".into(), "hand".into()));
    slice.metadata.finalizers = vec!["example.test/hold".into()];
    sim.foreign_slice(slice);
    sim.remove_pod("p1");
    sim.settle();
    let left = only_slice(&sim, "web");
    assert_eq!((left.metadata.name.as_str(), left.endpoints.len()), (name.as_str(), 0));
    assert_eq!(annotation(&left.metadata, "by"), Some("hand"));
    assert_eq!(annotation(&left.metadata, keys::TRIGGER_TIME), None);
    assert_eq!(left.metadata.finalizers, ["example.test/hold"]);
}
