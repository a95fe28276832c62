//! What somebody else's edits of slices call for, and what they do not.

use rstest::rstest;
use service_controllers::keys;
use service_controllers::objects::{EndpointWire, RefWire, SliceWire};

use crate::objects::{annotation, bare, endpoints, only_slice, served, touch};
use crate::server::{Sim, named_port, pod, service, with_ports};

/// Somebody edits the only slice of a Service; `content` says whether the server counts a generation.
fn edit(sim: &mut Sim, service: &str, content: bool, change: impl FnOnce(&mut SliceWire)) -> String {
    let mut slice = only_slice(sim, service).clone();
    slice.metadata.generation += i64::from(content);
    change(&mut slice);
    let name = slice.metadata.name.clone();
    sim.foreign_slice(slice);
    name
}

#[test]
fn a_slice_without_owner_is_replaced_when_it_is_looked_at() {
    // Owners alone call for no look.
    let mut sim = served();
    let name = edit(&mut sim, "web", false, |s| s.metadata.owner_references.clear());
    assert_eq!(sim.settle(), 0);
    touch(&mut sim, "web");
    assert_eq!(sim.settle(), 2);
    assert_ne!(only_slice(&sim, "web").metadata.name, name);

    // Labels do, also those that are not compared.
    let mut sim = served();
    let name = edit(&mut sim, "web", true, |s| {
        s.metadata.owner_references.clear();
        s.metadata.labels.0.push((keys::HEADLESS.into(), String::new()));
    });
    assert_eq!(sim.settle(), 2);
    assert_ne!(only_slice(&sim, "web").metadata.name, name);

    // A slice that was found and not written is looked at whatever was changed.
    let mut sim = served();
    sim.restart();
    assert_eq!(sim.settle(), 0);
    let name = edit(&mut sim, "web", false, |s| s.metadata.owner_references.clear());
    assert_eq!(sim.settle(), 2);
    assert_ne!(only_slice(&sim, "web").metadata.name, name);
}

#[test]
fn a_slice_that_is_given_away_is_missed_at_once_only_if_it_was_not_ours() {
    let give = |sim: &mut Sim| {
        edit(sim, "web", true, |slice| {
            for (key, value) in &mut slice.metadata.labels.0 {
                if key == keys::MANAGED_BY {
                    "someone.example.test".clone_into(value);
                }
            }
        })
    };
    let mut sim = served();
    give(&mut sim);
    assert_eq!(sim.settle(), 0);
    sim.set_ready("p1", false);
    sim.settle();
    assert_eq!(sim.slices_of("web").count(), 2, "with the next change the Service has a slice again");
    let mut sim = served();
    sim.restart();
    sim.settle();
    give(&mut sim);
    assert_eq!(sim.settle(), 1);
    assert_eq!(sim.slices_of("web").count(), 2);
}

#[test]
fn a_slice_that_is_deleted_is_made_again_whoever_wrote_it() {
    for restarted in [false, true] {
        let mut sim = served();
        if restarted {
            sim.restart();
            assert_eq!(sim.settle(), 0);
        }
        let name = only_slice(&sim, "web").metadata.name.clone();
        sim.foreign_delete(&name);
        assert_eq!(sim.settle(), 1);
        assert_eq!(sim.in_slices("web"), ["10.1.0.1", "10.1.0.2"]);
    }
}

#[test]
fn a_slice_that_is_only_filled_up_keeps_its_labels() {
    let headless = |sim: &Sim| label_of(only_slice(sim, "web"), keys::HEADLESS);
    let mut sim = served();
    edit(&mut sim, "web", true, |s| s.metadata.labels.0.push((keys::HEADLESS.into(), "mine".into())));
    assert_eq!(sim.settle(), 0);
    sim.pod(pod("p3", "web", "10.1.0.3"));
    assert_eq!(sim.settle(), 2, "the slice and the Endpoints");
    assert_eq!(headless(&sim).as_deref(), Some("mine"));
    sim.set_ready("p1", false);
    sim.settle();
    assert_eq!(headless(&sim), None, "an endpoint of it changed");
}

/// A label of a slice.
fn label_of(slice: &SliceWire, key: &str) -> Option<String> {
    slice.metadata.labels.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone())
}

#[test]
fn where_only_hints_change_nothing_else_is_touched() {
    let mut sim = served();
    let version = |slice: &SliceWire, ip: &str| {
        let is_there = |endpoint: &&EndpointWire| endpoint.addresses == [ip.to_owned()];
        let endpoint = slice.endpoints.iter().find(is_there);
        endpoint.unwrap().target_ref.as_ref().unwrap().resource_version.clone()
    };
    edit(&mut sim, "web", true, |slice| {
        for endpoint in &mut slice.endpoints {
            endpoint.target_ref.as_mut().unwrap().resource_version = Some("77".into());
        }
    });
    assert_eq!(sim.settle(), 0);
    sim.change_service("web", |s| s.spec.traffic_distribution = Some("PreferClose".into()));
    assert_eq!(sim.settle(), 1);
    assert_eq!(version(only_slice(&sim, "web"), "10.1.0.1").as_deref(), Some("77"));
    sim.set_ready("p2", false);
    sim.settle();
    assert_eq!(version(only_slice(&sim, "web"), "10.1.0.2"), None, "what changed is made anew");
}

#[test]
fn an_empty_slice_goes_with_the_pods_it_stood_for() {
    let mut sim = Sim::new(100);
    let mut lost = pod("lost", "web", "10.1.0.1");
    lost.spec.node_name = "gone".into();
    sim.pod(lost);
    let mut web = service("web", "web");
    web.spec.ports = vec![named_port("", 80, "http")];
    sim.service(web);
    sim.settle();
    sim.pod(with_ports(pod("p1", "web", "10.1.0.2"), &[("http", 8080, "TCP")]));
    sim.settle();
    assert_eq!(sim.slices_of("web").count(), 2, "one for each set of ports, the first without endpoints");
    assert_eq!(
        sim.cluster.index.lock().sizes(100, 1000).slices.desired,
        1,
        "an empty one is not needed beside another"
    );
    sim.remove_pod("lost");
    sim.settle();
    assert_eq!(only_slice(&sim, "web").ports[0].port, Some(8080));
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
