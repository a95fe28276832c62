//! The probes of a pod that really runs: when each is asked, and what the answers come to. Pure.
//!
//! A container is probed from when it runs: first by its startup probe, and once that has passed by the others. A liveness or a startup
//! probe that fails has it killed and begun anew. Nothing is asked here.

use jiff::Timestamp;
use serde_json::Value;

use super::probes::{BACK_OFF, KILLED, ProbeKind, RESTART};

/// What an asked probe has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// All is well.
    Passed,
    /// It is not, and why, as Events have it.
    Failed(String),
}

/// What has come to an end in a pod that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A container, by itself.
    Container {
        /// Its name.
        name: String,
        /// Its exit code.
        code: i64,
    },
    /// The whole pod, which used more than it may: what is said of it.
    Evicted(String),
}

/// A probe that is to be asked now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The container's place among those of the pod.
    pub container: usize,
    /// Which of its probes.
    pub kind: ProbeKind,
    /// The run of the container that is asked about.
    pub run: i64,
}

/// How a run of a container ended that a probe, or the container itself, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// When the run began.
    pub begun: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// With which code.
    pub exit_code: i64,
    /// When the next begins; none: never.
    pub resumes: Option<Timestamp>,
}

/// What is known of a container by its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// How often it was ended.
    pub stops: i64,
    /// The last time.
    pub stop: Option<Stop>,
    /// Its startup probe has passed.
    pub started: bool,
    /// Its readiness probe passes.
    pub ready: bool,
    /// Since when it does, or does not; none if that follows from the container's begin.
    pub since: Option<Timestamp>,
    /// How often each of its probes failed, how often that had it killed, and what was found last.
    pub failures: Vec<(ProbeKind, i64, i64, String)>,
}

#[derive(Debug)]
struct Watched {
    kind: ProbeKind,
    /// Milliseconds.
    delay: i64,
    period: i64,
    /// So many answers of one kind in a row are a verdict.
    successes: i64,
    failures: i64,
    /// When it is asked next; none while it is not to be asked, or was.
    next: Option<Timestamp>,
    streak: i64,
    passing: bool,
    passes: Option<bool>,
    since: Option<Timestamp>,
    failed: i64,
    kills: i64,
    found: String,
}

/// Which ended runs are followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    Always,
    OnFailure,
    Never,
}

#[derive(Debug)]
struct Container {
    name: String,
    restart: Restart,
    run: i64,
    begun: Option<Timestamp>,
    stop: Option<Stop>,
    probes: Vec<Watched>,
}

/// The probes of a pod.
#[derive(Debug)]
pub(super) struct Probing {
    containers: Vec<Container>,
    deleted: bool,
    /// When the pod was evicted, and why.
    eviction: Option<(Timestamp, String)>,
}

impl Watched {
    fn of(container: &Value, kind: ProbeKind) -> Option<Self> {
        let probe = container.get(kind.field()).filter(|probe| probe.is_object())?;
        let number = |field: &str, default: i64, least: i64| {
            probe.get(field).and_then(Value::as_i64).unwrap_or(default).max(least)
        };
        Some(Self {
            kind,
            delay: number("initialDelaySeconds", 0, 0).saturating_mul(1000),
            period: number("periodSeconds", 10, 1).saturating_mul(1000),
            successes: number("successThreshold", 1, 1),
            failures: number("failureThreshold", 3, 1),
            next: None,
            streak: 0,
            passing: false,
            passes: None,
            since: None,
            failed: 0,
            kills: 0,
            found: String::new(),
        })
    }

    fn reset(&mut self) {
        (self.next, self.streak, self.passes, self.since) = (None, 0, None, None);
    }

    /// Counts an answer; the verdict if it is a new one.
    fn count(&mut self, found: &Found, now: Timestamp) -> Option<bool> {
        let passed = *found == Found::Passed;
        if let Found::Failed(why) = found {
            self.failed += 1;
            self.found.clone_from(why);
        }
        self.streak = if self.passing == passed { self.streak + 1 } else { 1 };
        self.passing = passed;
        let enough = self.streak >= if passed { self.successes } else { self.failures };
        if !enough || self.passes == Some(passed) {
            return None;
        }
        self.passes = Some(passed);
        self.since = Some(now);
        Some(passed)
    }
}

impl Container {
    fn of(spec: &Value, restart: Restart) -> Self {
        let kinds = [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness];
        Self {
            name: spec.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            restart,
            run: 0,
            begun: None,
            stop: None,
            probes: kinds.into_iter().filter_map(|kind| Watched::of(spec, kind)).collect(),
        }
    }

    fn started(&self) -> bool {
        self.probes.iter().all(|probe| probe.kind != ProbeKind::Startup || probe.passes == Some(true))
    }

    /// Sets when the probes are first asked that may be asked now.
    fn begin(&mut self, now: Timestamp) {
        let (started, begun) = (self.started(), self.begun);
        for probe in self.probes.iter_mut().filter(|probe| (probe.kind == ProbeKind::Startup) != started) {
            let from = begun.map_or(now, |begun| after(begun, probe.delay));
            probe.next.get_or_insert(from.max(now));
        }
    }

    fn end(&mut self, exit_code: i64, by_probe: bool, now: Timestamp) {
        let Some(begun) = self.begun.take() else { return };
        let pause = if by_probe && self.run == 0 { RESTART } else { BACK_OFF };
        let again = self.restart == Restart::Always || (self.restart == Restart::OnFailure && exit_code != 0);
        let resumes = again.then(|| after(now, pause));
        self.stop = Some(Stop { begun, ended: now, exit_code, resumes });
        self.run += 1;
        self.probes.iter_mut().for_each(Watched::reset);
    }
}

impl Probing {
    /// The probes of a pod's containers, none of which has been asked.
    pub(super) fn of(pod: &Value) -> Self {
        let list = |name: &str| {
            let all = pod.pointer(&format!("/spec/{name}")).and_then(Value::as_array);
            all.into_iter().flatten()
        };
        let policy = match pod.pointer("/spec/restartPolicy").and_then(Value::as_str) {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            _ => Restart::Always,
        };
        let always = |spec: &&Value| spec["restartPolicy"] == "Always";
        let sidecars = list("initContainers").filter(always).map(|spec| Container::of(spec, Restart::Always));
        let mains = list("containers").map(|spec| Container::of(spec, policy));
        Self { containers: sidecars.chain(mains).collect(), deleted: false, eviction: None }
    }

    /// The containers that run now, and since when; those of a pod that was `deleted` are not killed any more.
    pub(super) fn run<'a>(
        &mut self,
        running: impl Iterator<Item = (&'a str, Timestamp)>,
        deleted: bool,
        now: Timestamp,
    ) {
        self.deleted = deleted;
        for (name, begun) in running {
            let Some(container) = self.containers.iter_mut().find(|container| container.name == name) else {
                continue;
            };
            if container.begun != Some(begun) {
                container.probes.iter_mut().for_each(Watched::reset);
                container.begun = Some(begun);
                container.begin(now);
            }
        }
    }

    /// The probes that are to be asked now; each is due again once its answer is in.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Due> {
        let mut all = Vec::new();
        for (number, container) in self.containers.iter_mut().enumerate() {
            let run = container.run;
            for probe in &mut container.probes {
                if probe.next.is_some_and(|next| next <= now) {
                    probe.next = None;
                    all.push(Due { container: number, kind: probe.kind, run });
                }
            }
        }
        all
    }

    /// When the next probe is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.containers.iter().flat_map(|container| &container.probes).filter_map(|probe| probe.next).min()
    }

    /// Takes an answer in.
    pub(super) fn found(&mut self, asked: &Due, found: &Found, now: Timestamp) {
        let deleted = self.deleted;
        let Some(container) = self.containers.get_mut(asked.container) else { return };
        if container.run != asked.run || container.begun.is_none() {
            return;
        }
        let Some(probe) = container.probes.iter_mut().find(|probe| probe.kind == asked.kind) else { return };
        let verdict = probe.count(found, now);
        let over = probe.kind == ProbeKind::Startup && probe.passes == Some(true);
        probe.next = (!over).then(|| after(now, probe.period));
        match (asked.kind, verdict) {
            (ProbeKind::Startup | ProbeKind::Liveness, Some(false)) if !deleted => {
                probe.kills += 1;
                container.end(KILLED, true, now);
            }
            (ProbeKind::Startup, Some(true)) => container.begin(now),
            _ => {}
        }
    }

    /// A container has ended by itself.
    pub(super) fn exited(&mut self, name: &str, exit_code: i64, now: Timestamp) {
        if let Some(container) = self.containers.iter_mut().find(|container| container.name == name) {
            container.end(exit_code, false, now);
        }
    }

    /// The pod has used more than it may; the first time counts.
    pub(super) fn evicted(&mut self, why: &str, now: Timestamp) {
        self.eviction.get_or_insert_with(|| (now, why.to_owned()));
    }

    /// When the pod was evicted, if it was, and why.
    pub(super) const fn eviction(&self) -> Option<&(Timestamp, String)> {
        self.eviction.as_ref()
    }

    /// The name of a container.
    pub(super) fn name(&self, container: usize) -> &str {
        self.containers.get(container).map(|container| container.name.as_str()).unwrap_or_default()
    }

    /// What is known of a container.
    pub(super) fn observed(&self, name: &str) -> Option<Observed> {
        let container = self.containers.iter().find(|container| container.name == name)?;
        let readiness = container.probes.iter().find(|probe| probe.kind == ProbeKind::Readiness);
        let startup = container.probes.iter().find(|probe| probe.kind == ProbeKind::Startup);
        let told = |probe: &Watched| (probe.kind, probe.failed, probe.kills, probe.found.clone());
        Some(Observed {
            stops: container.run,
            stop: container.stop,
            started: container.started(),
            ready: container.started() && readiness.is_none_or(|probe| probe.passes == Some(true)),
            since: readiness.or(startup).and_then(|probe| probe.since),
            failures: container.probes.iter().map(told).collect(),
        })
    }
}

fn after(time: Timestamp, millis: i64) -> Timestamp {
    time.saturating_add(jiff::SignedDuration::from_millis(millis)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, millis)
    }

    fn probing(container: Value) -> Probing {
        let mut container = container;
        container["name"] = json!("c");
        let mut probing = Probing::of(&json!({"spec": {"containers": [container]}}));
        probing.run([("c", at(1000))].into_iter(), false, at(1000));
        probing
    }

    /// Answers whatever is due, from one moment to another; how often, and what is known then.
    fn answer(probing: &mut Probing, until: i64, found: &Found) -> (usize, Observed) {
        let mut asked = 0;
        while let Some(next) = probing.next().filter(|next| *next <= at(until)) {
            for due in probing.due(next) {
                asked += 1;
                probing.found(&due, found, next);
            }
        }
        (asked, probing.observed("c").unwrap())
    }

    fn failed() -> Found {
        Found::Failed("HTTP probe failed with statuscode: 500".to_owned())
    }

    #[test]
    fn readiness_follows_the_answers_by_their_thresholds() {
        let mut probing = probing(json!({"readinessProbe": {"initialDelaySeconds": 2, "periodSeconds": 5,
            "successThreshold": 2, "failureThreshold": 3}}));
        assert_eq!(probing.next(), Some(at(3000)));
        assert!(!probing.observed("c").unwrap().ready);
        let (asked, seen) = answer(&mut probing, 3000, &Found::Passed);
        assert_eq!((asked, seen.ready), (1, false));
        let (_, seen) = answer(&mut probing, 8000, &Found::Passed);
        assert_eq!((seen.ready, seen.since), (true, Some(at(8000))));
        let (asked, seen) = answer(&mut probing, 18_000, &failed());
        assert_eq!((asked, seen.ready), (2, true));
        let (_, seen) = answer(&mut probing, 23_000, &failed());
        assert_eq!((seen.ready, seen.since, seen.stops), (false, Some(at(23_000)), 0));
        assert_eq!(
            seen.failures,
            [(ProbeKind::Readiness, 3, 0, "HTTP probe failed with statuscode: 500".to_owned())]
        );
    }

    #[test]
    fn a_failed_liveness_probe_has_the_container_begun_anew() {
        let mut probing = probing(json!({"livenessProbe": {"periodSeconds": 1, "failureThreshold": 2}}));
        let (_, seen) = answer(&mut probing, 1000, &Found::Passed);
        assert_eq!((seen.ready, seen.stops), (true, 0));
        let (asked, seen) = answer(&mut probing, 60_000, &failed());
        let stop = Stop { begun: at(1000), ended: at(3000), exit_code: KILLED, resumes: Some(at(4000)) };
        assert_eq!((asked, seen.stops, seen.stop), (2, 1, Some(stop)));
        assert_eq!((seen.failures[0].1, seen.failures[0].2), (2, 1));
        // Its next run is probed like the first; the pause after it is longer.
        probing.run([("c", at(4000))].into_iter(), false, at(4000));
        let (_, seen) = answer(&mut probing, 60_000, &failed());
        assert_eq!(seen.stop.and_then(|stop| stop.resumes), Some(at(5000 + BACK_OFF)));
    }

    #[test]
    fn the_others_wait_for_the_startup_probe() {
        let mut probing = probing(json!({"startupProbe": {"periodSeconds": 1, "failureThreshold": 30},
            "readinessProbe": {"periodSeconds": 1}, "livenessProbe": {"periodSeconds": 1}}));
        let (asked, seen) = answer(&mut probing, 5000, &failed());
        assert_eq!((asked, seen.started, seen.ready), (5, false, false));
        let (asked, seen) = answer(&mut probing, 6000, &Found::Passed);
        assert_eq!((asked, seen.started, seen.ready), (3, true, true));
    }

    #[test]
    fn answers_about_an_earlier_run_do_not_count() {
        let mut probing = probing(json!({"readinessProbe": {}}));
        let due = probing.due(at(1000)).remove(0);
        probing.exited("c", 3, at(2000));
        probing.found(&due, &Found::Passed, at(2500));
        let seen = probing.observed("c").unwrap();
        assert_eq!((seen.ready, seen.stop.map(|stop| stop.exit_code)), (false, Some(3)));
        assert_eq!(probing.next(), None);
    }

    #[test]
    fn a_pod_that_is_deleted_is_not_killed_by_its_probes() {
        let mut probing = probing(json!({"livenessProbe": {"periodSeconds": 1, "failureThreshold": 1}}));
        probing.run(std::iter::empty(), true, at(1000));
        let (_, seen) = answer(&mut probing, 4000, &failed());
        assert_eq!(seen.stops, 0);
    }
}
