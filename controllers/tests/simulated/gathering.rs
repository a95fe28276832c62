//! How many writes a roll-out costs, and how long each change waits: events and looks at their times, on a clock that the
//! test moves.

use std::collections::BTreeMap;
use std::time::Duration;

use service_controllers::controller::{Controller, Key};
use service_controllers::reconcile::pending::{Next, Pending, Start};
use tokio::time::Instant;

use crate::server::{Sim, pod, service};

/// A change of pods.
type Change = Box<dyn Fn(&mut Sim)>;

/// What came of a history.
struct Played {
    /// Writes of slices, by Service.
    writes: BTreeMap<String, usize>,
    /// The longest time from an event to the look that took it along.
    longest: Duration,
}

/// Plays changes at their times, in milliseconds, and looks at Services when they are due.
fn play(sim: &mut Sim, history: Vec<(u64, Change)>) -> Played {
    let (begun, mut pending) = (Instant::now(), Pending::default());
    let (mut history, mut waiting) = (history.into_iter().peekable(), BTreeMap::<Key, Instant>::new());
    let mut played = Played { writes: BTreeMap::new(), longest: Duration::ZERO };
    for ms in 0..30_000 {
        let now = begun + Duration::from_millis(ms);
        while let Some((_, change)) = history.next_if(|(at, _)| *at <= ms) {
            change(sim);
        }
        for (key, urgency) in sim.cluster.take_asks() {
            if key.controller == Controller::Slices {
                let _ = pending.ask(&key, urgency, now);
                waiting.entry(key).or_insert(now);
            }
        }
        for (key, since) in waiting.clone() {
            if pending.start(&key, now) == Start::Now {
                waiting.remove(&key);
                played.longest = played.longest.max(now.duration_since(since));
                let before: usize = sim.writes.values().sum();
                sim.reconcile_slices(&key, now);
                let writes = sim.writes.values().sum::<usize>() - before;
                pending.wrote(&key, writes, now);
                *played.writes.entry(key.name.to_string()).or_default() += writes;
                let _ = pending.done(&key, Next::Idle, now);
            }
        }
    }
    played
}

/// 350 pods of a Service get an address and, 300 ms later, are ready, over 8 s.
fn roll_out(app: &'static str, network: u16) -> Vec<(u64, Change)> {
    let mut history: Vec<(u64, Change)> = Vec::new();
    for i in 0..350_u16 {
        let at = u64::from(i) * 8000 / 350;
        let name = format!("{app}-{i}");
        let mut new = pod(&name, app, &format!("10.{network}.{}.{}", i / 250, i % 250));
        new.status.conditions[0].status = "False".into();
        history.push((at, Box::new(move |sim| sim.pod(new.clone()))));
        history.push((at + 300, Box::new(move |sim| sim.set_ready(&name, true))));
    }
    history
}

#[test]
fn a_roll_out_of_350_pods_costs_60_writes_at_most() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    let mut history = roll_out("web", 1);
    history.sort_by_key(|(at, _)| *at);
    let played = play(&mut sim, history);
    assert!(played.writes["web"] <= 60, "{} writes", played.writes["web"]);
    assert!(played.longest <= Duration::from_millis(250), "{:?}", played.longest);
    assert_eq!(sim.listed("web"), sim.wanted("web"));
}

#[test]
fn so_does_each_of_several_at_once() {
    let mut sim = Sim::new(100);
    let mut history = Vec::new();
    for (app, network) in [("a", 1), ("b", 2), ("c", 3)] {
        sim.service(service(app, app));
        history.extend(roll_out(app, network));
    }
    history.sort_by_key(|(at, _)| *at);
    let played = play(&mut sim, history);
    for app in ["a", "b", "c"] {
        assert!(played.writes[app] <= 60, "{app}: {} writes", played.writes[app]);
        assert_eq!(sim.listed(app), sim.wanted(app));
    }
}

#[test]
fn ten_flips_in_100_ms_cost_three_writes_at_most() {
    for first in [false, true] {
        let mut sim = Sim::new(100);
        sim.service(service("web", "web"));
        for i in 0..3 {
            sim.pod(pod(&format!("p{i}"), "web", &format!("10.1.0.{i}")));
        }
        sim.set_ready("p0", !first);
        sim.settle();
        let flip = |i: u64| -> (u64, Change) {
            (i * 10, Box::new(move |sim| sim.set_ready("p0", i.is_multiple_of(2) == first)))
        };
        let played = play(&mut sim, (0..10).map(flip).collect());
        assert!(played.writes["web"] <= 3, "ready first is {first}: {} writes", played.writes["web"]);
        assert_eq!(sim.listed("web"), sim.wanted("web"));
    }
}

#[test]
fn what_goes_waits_for_20_ms_at_most() {
    let mut sim = Sim::new(100);
    sim.service(service("web", "web"));
    for i in 0..200 {
        sim.pod(pod(&format!("p{i}"), "web", &format!("10.1.0.{i}")));
    }
    sim.settle();
    let gone = |i: u64| -> (u64, Change) { (i * 3, Box::new(move |sim| sim.remove_pod(&format!("p{i}")))) };
    let played = play(&mut sim, (0..150).map(gone).collect());
    assert!(played.longest <= Duration::from_millis(20), "{:?}", played.longest);
    assert_eq!(sim.listed("web"), sim.wanted("web"));
}
