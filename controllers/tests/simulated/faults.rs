//! Whatever the server does to writes and watches, in the end the slices are right and nothing is
//! there twice.

use proptest::prelude::*;
use service_controllers::reconcile::step::SliceRead;

use crate::server::{Fate, Sim, pod, service};

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Done),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Timeout),
        1 => Just(Fate::Conflict),
        1 => Just(Fate::Busy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn failures_leave_no_trace(
        fates in prop::collection::vec(fate(), 0..30),
        slow in any::<bool>(),
        partial in any::<bool>(),
        cuts in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mut sim = Sim::new(3);
        sim.slow_watch = slow;
        sim.partial = partial;
        sim.fates = fates;
        sim.service(service("web", "web"));
        for (step, cut) in (0_u8..).zip(&cuts) {
            for i in 0..4 {
                sim.pod(pod(&format!("p{step}-{i}"), "web", &format!("10.0.{step}.{i}")));
            }
            if step > 1 {
                sim.remove_pod(&format!("p{}-1", step - 1));
                sim.set_ready(&format!("p{}-2", step - 2), step % 2 == 0);
            }
            sim.settle();
            if *cut {
                sim.cut_watch();
            } else {
                sim.catch_up();
            }
        }
        sim.fates.clear();
        sim.catch_up();
        sim.settle();
        sim.catch_up();
        sim.settle();
        prop_assert_eq!(sim.listed("web"), sim.wanted("web"));
        prop_assert!(sim.slices.values().all(|s| s.endpoints.len() <= 3));
        sim.restart();
        prop_assert_eq!(sim.settle(), 0);
    }
}

#[test]
fn a_slow_watch_does_not_double_slices() {
    let mut sim = Sim::new(100);
    sim.slow_watch = true;
    sim.service(service("web", "web"));
    for i in 0..10 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.0.0.{i}")));
        sim.settle();
    }
    assert_eq!(sim.slices.len(), 1);
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    let writes = sim.writes.clone();
    sim.catch_up();
    sim.settle();
    assert_eq!(sim.writes, writes, "late echoes of our own writes cause none");
}

#[test]
fn a_slice_that_was_made_without_an_answer_is_found_again() {
    let mut sim = Sim::new(100);
    sim.slow_watch = true;
    sim.fates = vec![Fate::Done, Fate::Lost];
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    assert_eq!(sim.slices.len(), 1, "read before it is made again");
    assert_eq!(sim.writes[&("endpointslices", "create")], 1);
}

#[test]
fn a_server_that_was_put_back_is_put_right() {
    for writes_after in [false, true] {
        put_back(writes_after);
    }
}

fn put_back(writes_after: bool) {
    let mut sim = Sim::new(100);
    for i in 0..3 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.0.0.{i}")));
    }
    sim.service(service("web", "web"));
    sim.settle();
    let kept = sim.saved();
    sim.set_ready("p1", false);
    sim.settle();
    sim.put_back(&kept);
    sim.settle();
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    if writes_after {
        sim.set_ready("p2", false);
        sim.settle();
    }
    assert_eq!(sim.refused, 0);
    sim.restart();
    assert_eq!(sim.settle(), 0);
}

/// A read is under way when the watch shows what happened after it was answered.
#[test]
fn what_the_watch_shows_during_a_read_counts_more() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    // The writes are done, so that the reads find all as it should be.
    sim.fates = vec![Fate::Lost, Fate::Lost];
    sim.vanish_during_read = true;
    sim.set_ready("p", false);
    sim.settle();
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    assert!(sim.endpoints.contains_key("web"), "Endpoints that went during the read are made again");
    sim.restart();
    assert_eq!(sim.settle(), 0);
}

#[test]
fn the_late_end_of_earlier_endpoints_is_not_that_of_those_made_since() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    sim.slow_watch = true;
    sim.foreign_delete_endpoints("web");
    sim.set_ready("p", false);
    sim.settle();
    assert_eq!(sim.writes[&("endpoints", "create")], 2, "the object was found missing and made again");
    while sim.show_next() {
        assert_eq!(sim.settle(), 0);
    }
    assert_eq!(sim.refused, 1, "only the update of what was gone");
}

#[test]
fn a_deletion_that_did_not_last_is_done_again() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let mut extra = sim.slices.values().next().unwrap().clone();
    extra.metadata.name = "extra".into();
    extra.metadata.uid = "uid-of-extra".into();
    sim.foreign_slice(extra.clone());
    sim.settle();
    assert_eq!(sim.slices.len(), 1);
    let lasting = sim.slices.keys().next().unwrap().clone();
    assert_ne!(lasting, "extra");
    sim.slices.insert("extra".into(), extra);
    sim.cut_watch();
    sim.settle();
    assert_eq!(sim.slices.keys().collect::<Vec<_>>(), [&lasting]);
}

#[test]
fn endless_conflicts_are_ended_by_a_read() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    // The watch never shows the versions these have now.
    sim.slow_watch = true;
    for slice in sim.slices.values_mut() {
        slice.metadata.resource_version = "2".into();
    }
    for endpoints in sim.endpoints.values_mut() {
        endpoints.metadata.resource_version = "2".into();
    }
    sim.set_ready("p", false);
    sim.settle();
    assert_eq!(sim.listed("web"), sim.wanted("web"));
}

#[test]
fn a_read_for_one_controller_leaves_the_slices_of_another_alone() {
    let mut sim = Sim::new(100);
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let found: Vec<_> = sim.slices.values().cloned().collect();
    sim.foreign_delete(&found[0].metadata.name);
    sim.mirror_read("web", found);
    sim.settle();
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    sim.restart();
    assert_eq!(sim.settle(), 0);
}

#[test]
fn of_many_slices_the_one_that_somebody_else_wrote_is_read() {
    let mut sim = Sim::new(2);
    sim.partial = true;
    for i in 0..10 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.0.0.{i}")));
    }
    sim.service(service("web", "web"));
    sim.settle();
    assert_eq!((sim.slices.len(), sim.reads.len()), (5, 0), "our own echoes are not read");
    let names: Vec<String> = sim.slices.keys().cloned().collect();
    let edit = |sim: &mut Sim, name: &str| {
        let mut slice = sim.slices[name].clone();
        slice.endpoints.clear();
        sim.foreign_slice(slice);
    };
    edit(&mut sim, &names[3]);
    assert_eq!(sim.settle(), 1, "it is put right");
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    assert_eq!(std::mem::take(&mut sim.reads), [SliceRead::One(names[3].as_str().into())]);
    // What is deleted before it can be read is made again.
    sim.vanish_during_read = true;
    edit(&mut sim, &names[1]);
    sim.settle();
    sim.vanish_during_read = false;
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    assert_eq!(std::mem::take(&mut sim.reads), [SliceRead::One(names[1].as_str().into())]);
    // One request for all is less than one for each.
    let names: Vec<String> = sim.slices.keys().cloned().collect();
    edit(&mut sim, &names[0]);
    edit(&mut sim, &names[4]);
    assert_eq!(sim.settle(), 2);
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    assert_eq!(sim.reads, [SliceRead::All]);
}

#[test]
fn what_somebody_else_wrote_is_read_when_only_its_metadata_is_shown() {
    let mut sim = Sim::new(100);
    sim.partial = true;
    sim.pod(pod("p", "web", "10.0.0.1"));
    sim.service(service("web", "web"));
    sim.settle();
    let mut slice = sim.slices.values().next().unwrap().clone();
    slice.endpoints.clear();
    sim.foreign_slice(slice);
    assert_eq!(sim.settle(), 1, "the slice is put right");
    assert_eq!(sim.listed("web"), sim.wanted("web"));
    let mut endpoints = sim.endpoints["web"].clone();
    endpoints.subsets.clear();
    sim.foreign_endpoints(endpoints.clone());
    assert_eq!(sim.settle(), 1, "the Endpoints object is put right");
    assert_eq!(sim.in_endpoints("web"), ["10.0.0.1"]);
    // The echoes of these writes were known.
    assert_eq!(sim.settle(), 0);
    // What would not be put right of a whole slice is not of one that had to be read either.
    let mut slice = sim.slices.values().next().unwrap().clone();
    slice.metadata.owner_references.clear();
    sim.foreign_slice(slice);
    assert_eq!(sim.settle(), 0, "owners are looked at with the next change");
}
