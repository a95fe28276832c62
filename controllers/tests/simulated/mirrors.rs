//! Mirrors of Endpoints that somebody else writes.

use service_controllers::keys;
use service_controllers::mirroring::state::MirrorStep;
use service_controllers::objects::{AddressWire, RefWire};
use service_controllers::reconcile::step::Step;
use service_controllers::{controller::Controller, reconcile::pacing::Urgency};

use crate::objects::{bare, endpoints, only_slice};
use crate::server::Sim;

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

#[test]
fn custom_endpoints_are_mirrored_at_once_and_slices_are_put_right_after_a_while() {
    let mut sim = Sim::new(100);
    sim.service(bare("custom"));
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.9"]));
    let paces = |sim: &mut Sim| -> Vec<Urgency> {
        let wakes = sim.cluster.take_asks().into_iter();
        wakes.filter(|(key, _)| key.controller == Controller::Mirrors).map(|(_, pace)| pace).collect()
    };
    assert_eq!(paces(&mut sim), [Urgency::Now]);
    sim.foreign_endpoints(endpoints("custom", &["10.1.0.8"]));
    sim.settle();
    let mut edited = only_slice(&sim, "custom").clone();
    edited.endpoints.clear();
    sim.foreign_slice(edited);
    assert_eq!(paces(&mut sim), [Urgency::Settle]);
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
fn an_endpoint_is_another_one_if_its_address_name_or_object_is() {
    type Change = fn(&mut AddressWire);
    let changes: [(&str, Change, (usize, usize)); 6] = [
        ("another object of the name", |a| target(a).uid = Some("uid-of-another".into()), (0, 0)),
        ("another node", |a| a.node_name = Some("n2".into()), (0, 0)),
        ("another host name", |a| a.hostname = "db-1".into(), (1, 1)),
        ("another object", |a| target(a).name = Some("db-1".into()), (1, 1)),
        ("no object", |a| a.target_ref = None, (1, 1)),
        ("another address", |a| a.ip = "10.1.0.8".into(), (1, 1)),
    ];
    for (what, change, counted) in changes {
        let mut sim = Sim::new(100);
        sim.service(bare("custom"));
        let mut custom = endpoints("custom", &["10.1.0.9", "10.1.0.10"]);
        let address = &mut custom.subsets[0].addresses[0];
        address.hostname = "db-0".into();
        address.target_ref = Some(RefWire {
            kind: Some("Database".into()),
            namespace: Some("default".into()),
            name: Some("db-0".into()),
            uid: Some("uid-of-db-0".into()),
            ..RefWire::default()
        });
        sim.foreign_endpoints(custom.clone());
        sim.settle();
        change(&mut custom.subsets[0].addresses[0]);
        sim.foreign_endpoints(custom);
        let MirrorStep::Slices(Step::Send(job)) = sim.mirror_step("custom") else {
            panic!("{what}: the slice is not as it should be")
        };
        assert_eq!((job.writes.len(), (job.planned.added, job.planned.removed)), (1, counted), "{what}");
    }
}

fn target(address: &mut AddressWire) -> &mut RefWire {
    address.target_ref.as_mut().unwrap()
}
