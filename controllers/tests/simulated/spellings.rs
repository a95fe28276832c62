//! How addresses are spelt, and in which order those that are too many are cut.

use service_controllers::keys;
use service_controllers::objects::AddressWire;

use crate::objects::{annotation, bare, endpoints, ready_since, touch, with_ip};
use crate::server::{Sim, pod, service, with_ports};

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

    sim.mirror_at_most(2);
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
fn what_was_cut_is_marked_with_one_word() {
    let mut sim = Sim::new(1000);
    for i in 0..1003 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.9.{}.{}", i / 250, i % 250)));
    }
    sim.service(service("web", "web"));
    sim.settle();
    let mark = |sim: &Sim| annotation(&sim.endpoints["web"].metadata, keys::OVER_CAPACITY).map(str::to_owned);
    assert_eq!(mark(&sim).as_deref(), Some("truncated"));
    // As earlier versions of Kubernetes wrote it, or somebody by hand.
    let mut edited = sim.endpoints["web"].clone();
    for (_, value) in edited.metadata.annotations.0.iter_mut().filter(|(k, _)| k == keys::OVER_CAPACITY) {
        "warning".clone_into(value);
    }
    sim.foreign_endpoints(edited);
    touch(&mut sim, "web");
    assert_eq!(sim.settle(), 1);
    assert_eq!(mark(&sim).as_deref(), Some("truncated"));

    for i in 0..3 {
        sim.remove_pod(&format!("p{i}"));
    }
    sim.settle();
    assert_eq!(mark(&sim), None);
    touch(&mut sim, "web");
    assert_eq!(sim.settle(), 0);
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
