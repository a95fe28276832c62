//! What calls for a look at once, what later and what not at all.

use service_controllers::objects::{IgnoredValue, PortWire};
use service_controllers::{controller::Controller, reconcile::pacing::Urgency};

use crate::objects::{annotation, bare, endpoints, only_slice, ready_since, served, triggers};
use crate::server::Sim;

#[test]
fn a_mirror_is_not_looked_at_for_what_a_service_says_beside_its_selector() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    sim.settle();
    let mut edited = only_slice(&sim, "custom").clone();
    edited.metadata.annotations.0.push(("note".into(), "mine".into()));
    sim.foreign_slice(edited);
    assert_eq!(sim.settle(), 0);
    sim.change_service("custom", |s| s.metadata.labels.0.push(("tier".into(), "back".into())));
    assert_eq!(sim.settle(), 0);
    assert_eq!(annotation(&only_slice(&sim, "custom").metadata, "note"), Some("mine"));

    let mut changed = endpoints("custom", &["10.1.0.9"]);
    changed.subsets[0].ports = vec![PortWire { port: Some(81), ..PortWire::default() }];
    sim.foreign_endpoints(changed);
    assert_eq!(sim.settle(), 1);
}

#[test]
fn endpoints_that_are_gone_may_have_gone_with_their_service() {
    let mut sim = served();
    sim.foreign_delete_endpoints("web");
    let wakes = sim.cluster.take_asks();
    let pace = wakes.iter().find(|(key, _)| key.controller == Controller::Endpoints).map(|(_, pace)| *pace);
    assert_eq!(pace, Some(Urgency::Settle));
}

#[test]
fn what_is_written_of_a_terminating_pod_is_seen_at_once() {
    let mut sim = served();
    sim.change_pod("p1", |p| p.metadata.deletion_timestamp = Some(IgnoredValue));
    sim.settle();
    sim.change_pod("p1", |p| ready_since(p, true, "2031-01-01T00:00:02Z"));
    assert_eq!(sim.settle(), 0);
    sim.change_pod("p2", |p| ready_since(p, false, "2031-01-01T00:00:03Z"));
    sim.settle();
    let third = Some("2031-01-01T00:00:03Z".to_owned());
    assert_eq!(triggers(&sim, "web"), [third.clone(), third]);
}
