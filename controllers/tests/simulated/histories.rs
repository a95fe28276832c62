//! Random histories of a Service and its pods: after each step the slices are right, small enough,
//! and were not written more than needed.

use proptest::prelude::*;

use crate::server::{Sim, pod, service};

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    Remove(u8),
    Flip(u8),
    Finish(u8),
    Leave(u8),
    Move(u8),
    Label(u8),
    Target(u8),
    Select(bool),
    Delete(u8),
    Empty(u8),
    Double(u8),
    Settle,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..40_u8).prop_map(Op::Add),
        4 => (0..40_u8).prop_map(Op::Remove),
        4 => (0..40_u8).prop_map(Op::Flip),
        1 => (0..40_u8).prop_map(Op::Finish),
        1 => (0..40_u8).prop_map(Op::Leave),
        1 => (0..40_u8).prop_map(Op::Move),
        1 => (0..4_u8).prop_map(Op::Label),
        1 => (0..3_u8).prop_map(Op::Target),
        1 => any::<bool>().prop_map(Op::Select),
        1 => (0..9_u8).prop_map(Op::Delete),
        1 => (0..9_u8).prop_map(Op::Empty),
        1 => (0..9_u8).prop_map(Op::Double),
        4 => Just(Op::Settle),
        1 => Just(Op::Restart),
    ]
}

fn name(i: u8) -> String {
    format!("p{i}")
}

fn apply(sim: &mut Sim, op: &Op) {
    let exists = |sim: &Sim, i: &u8| sim.pods.contains_key(&name(*i));
    let slice = |sim: &Sim, i: u8| sim.slices.keys().nth(usize::from(i)).cloned();
    match op {
        Op::Add(i) if !exists(sim, i) => sim.pod(pod(&name(*i), "web", &format!("10.0.0.{i}"))),
        Op::Remove(i) if exists(sim, i) => sim.remove_pod(&name(*i)),
        Op::Flip(i) if exists(sim, i) => {
            let ready = sim.pods[&name(*i)].status.conditions[0].status != "True";
            sim.set_ready(&name(*i), ready);
        }
        Op::Finish(i) if exists(sim, i) => sim.change_pod(&name(*i), |p| p.status.phase = "Failed".into()),
        Op::Leave(i) if exists(sim, i) => {
            sim.change_pod(&name(*i), |p| p.metadata.labels.0[0].1 = "other".into());
        }
        Op::Move(i) if exists(sim, i) => {
            sim.change_pod(&name(*i), |p| p.status.pod_ips[0].ip = format!("10.0.1.{i}"));
        }
        Op::Label(i) => {
            sim.change_service("web", |s| s.metadata.labels.0 = vec![("team".into(), format!("t{i}"))]);
        }
        Op::Target(i) => sim.change_service("web", |s| s.spec.ports[0].port = 80 + i32::from(*i)),
        Op::Select(web) => sim.change_service("web", |s| {
            s.spec.selector.as_mut().unwrap().0[0].1 = if *web { "web" } else { "other" }.into();
        }),
        Op::Delete(i) => {
            if let Some(name) = slice(sim, *i) {
                sim.foreign_delete(&name);
            }
        }
        Op::Empty(i) => {
            if let Some(name) = slice(sim, *i) {
                let mut slice = sim.slices[&name].clone();
                slice.endpoints.clear();
                sim.foreign_slice(slice);
            }
        }
        Op::Double(i) => {
            if let Some(name) = slice(sim, *i) {
                let mut slice = sim.slices[&name].clone();
                slice.metadata.name += "-again";
                slice.metadata.uid += "-again";
                if !sim.slices.contains_key(&slice.metadata.name) {
                    sim.foreign_slice(slice);
                }
            }
        }
        Op::Restart => sim.restart(),
        _ => {}
    }
}

fn check(sim: &mut Sim, max: usize) {
    sim.settle();
    assert_eq!(sim.listed("web"), sim.wanted("web"), "each pod once, as it is");
    assert!(sim.slices.values().all(|s| s.endpoints.len() <= max), "no slice above the limit");
    assert!(sim.slices_of("web").count() > 0, "a Service without endpoints has a placeholder");
    let empty = sim.slices.values().filter(|s| s.endpoints.is_empty() && s.ports.is_empty()).count();
    assert!(empty == 0 || sim.slices.len() == 1, "a placeholder is alone");
    sim.restart();
    assert_eq!(sim.settle(), 0, "what was put right stays: {:?}", sim.writes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn slices_are_right_after_any_history(max in 1..6_usize, ops in prop::collection::vec(op(), 1..60)) {
        let mut sim = Sim::new(max);
        sim.service(service("web", "web"));
        sim.settle();
        for op in &ops {
            apply(&mut sim, op);
            if matches!(op, Op::Settle) {
                check(&mut sim, max);
            }
        }
        check(&mut sim, max);
    }

    #[test]
    fn a_pod_costs_one_write(max in 1..6_usize, pods in 1..40_u8, which in 0..40_u8) {
        let mut sim = Sim::new(max);
        for i in 0..pods {
            sim.pod(pod(&name(i), "web", &format!("10.0.0.{i}")));
        }
        sim.service(service("web", "web"));
        let slices = sim.settle();
        // One for the Endpoints object.
        prop_assert_eq!(slices - 1, usize::from(pods).div_ceil(max), "no more slices than needed");
        sim.set_ready(&name(which % pods), false);
        prop_assert_eq!(sim.settle(), 2);
        sim.remove_pod(&name(which % pods));
        prop_assert_eq!(sim.settle(), 2);
        sim.pod(pod("new", "web", "10.0.2.1"));
        prop_assert_eq!(sim.settle(), 2);
    }
}
