//! Whatever the server does to writes and watches, in the end the slices are right and nothing is
//! there twice.

use proptest::prelude::*;

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
        cuts in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mut sim = Sim::new(3);
        sim.slow_watch = slow;
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
