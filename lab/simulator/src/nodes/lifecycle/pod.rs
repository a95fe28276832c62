//! The containers of a simulated pod together: who starts when, who is ready, and how the pod ends. Pure.
//!
//! Init containers run one after another; those that are restarted always (sidecars) let the next one begin once they are
//! started and run beside the others until those have ended.

use jiff::Timestamp;
use serde_json::Value;

use super::super::probes::KILLED;
use super::super::probing::{Observed, Probing};
use super::containers::{Ending, Failures, Run, Script, State};
use super::{DEADLINE, EVICTED, INIT_TAKES, START_AFTER, after, annotation, between, ends_at, millis};

/// What a container is in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It ends before the main ones begin.
    Init,
    /// An init container that runs on.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

/// A container at a moment.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub spec: &'a Value,
    /// The list of the pod's spec that it is in.
    pub list: &'static str,
    pub role: Role,
    pub script: Script,
    pub run: Run,
    /// The code it ended with, in the latest run that ended.
    pub exit_code: i64,
    /// What its probes found, if they are asked.
    observed: Option<Observed>,
}

impl Member<'_> {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        name_of(self.spec)
    }

    /// Begin, end and exit code of the run before the latest.
    pub(super) fn before(&self) -> Option<(Timestamp, Timestamp, i64)> {
        match self.observed.as_ref().and_then(|observed| observed.stop) {
            Some(stop) if self.run.state == State::Running => Some((stop.begun, stop.ended, stop.exit_code)),
            Some(_) => None,
            None => {
                let code = self.script.ending.map_or(0, |ending| ending.exit_code);
                self.script.before(&self.run).map(|(begun, ended)| (begun, ended, code))
            }
        }
    }

    /// Does the container wait for its next run because it was restarted too often?
    pub(super) fn backs_off(&self) -> bool {
        match &self.observed {
            Some(observed) if observed.stop.is_some() => observed.backs_off(),
            _ => self.script.backs_off(&self.run),
        }
    }

    /// How often each of its probes failed up to `now`.
    pub(super) fn failures(&self, now: Timestamp) -> Vec<Failures> {
        match &self.observed {
            Some(observed) => observed.failed(),
            None => self.script.failures(&self.run, now),
        }
    }
}

fn name_of(container: &Value) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// How a pod is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodOutcome {
    /// It has not ended.
    Open,
    /// All its containers ended with code 0, the last at that time.
    Succeeded(Timestamp),
    /// One of them did not.
    Failed(Timestamp),
    /// It was active for longer than `activeDeadlineSeconds`.
    DeadlineExceeded(Timestamp),
    /// It used more than it may.
    Evicted(Timestamp),
}

impl PodOutcome {
    /// When the pod ended.
    pub(super) fn time(self) -> Option<Timestamp> {
        match self {
            Self::Open => None,
            Self::Succeeded(time)
            | Self::Failed(time)
            | Self::DeadlineExceeded(time)
            | Self::Evicted(time) => Some(time),
        }
    }
}

/// The containers of a pod at a moment.
#[derive(Clone, Debug)]
pub(super) struct Members<'a> {
    /// Init containers first, as in the spec.
    pub all: Vec<Member<'a>>,
    /// When the init containers are done; `None`: not in sight.
    pub initialized: Option<Timestamp>,
    /// How the pod is doing.
    pub outcome: PodOutcome,
    /// Why it was ended from outside: a reason and a message.
    pub ended_for: Option<(&'static str, String)>,
    /// When one of them will be another.
    pub next: Option<Timestamp>,
}

impl<'a> Members<'a> {
    /// The containers of a pod whose sandbox was begun at `start`, and whose probes found what `probing` says, if they are asked.
    pub(super) fn of(pod: &'a Value, start: Timestamp, probing: Option<&Probing>, now: Timestamp) -> Self {
        let mut members = Self::undisturbed(pod, start, probing, now);
        let deadline = pod
            .pointer("/spec/activeDeadlineSeconds")
            .and_then(Value::as_i64)
            .map(|seconds| after(start, seconds.saturating_mul(1000)));
        let later = |time: &Timestamp| *time <= now && members.outcome.time().is_none_or(|end| *time < end);
        if let Some(deadline) = deadline.filter(later) {
            let mut members = Self::undisturbed(pod, start, probing, deadline);
            members.outcome = PodOutcome::DeadlineExceeded(deadline);
            members.ended_for = Some((DEADLINE.0, DEADLINE.1.to_owned()));
            members.stop(deadline, KILLED);
            return members;
        }
        let eviction = probing.and_then(Probing::eviction);
        if let Some((time, why)) = eviction.filter(|(time, _)| later(time)) {
            members.outcome = PodOutcome::Evicted(*time);
            members.ended_for = Some((EVICTED, why.clone()));
            members.stop(*time, KILLED);
            return members;
        }
        if let Some(end) = ends_at(pod).filter(later) {
            members.outcome = PodOutcome::Succeeded(end);
        }
        if let Some(time) = members.outcome.time() {
            members.stop(time, 0);
            return members;
        }
        let flap = annotation(pod, "flap").and_then(millis).map(|time| time.max(1));
        let flips = flap.and_then(|period| members.flap(period, now));
        let runs = members.all.iter().filter_map(|member| member.run.next);
        let failures =
            members.all.iter().flat_map(|member| member.failures(now)).filter_map(|failures| failures.next);
        members.next = runs.chain(failures).chain(flips).chain(deadline).filter(|time| *time > now).min();
        members
    }

    /// The containers as their scripts have them, whatever may befall the pod.
    fn undisturbed(pod: &'a Value, start: Timestamp, probing: Option<&Probing>, now: Timestamp) -> Self {
        let plan = Plan { pod, probing, now };
        let (mut all, initialized) = plan.init_containers(start);
        all.extend(plan.main_containers(initialized));
        let mut members = Self { all, initialized, outcome: PodOutcome::Open, ended_for: None, next: None };
        members.outcome = members.own_outcome();
        members
    }

    /// How the pod is doing by its containers alone.
    fn own_outcome(&self) -> PodOutcome {
        let ended = |member: &Member<'_>| member.run.ended.filter(|_| member.run.state == State::Ended);
        let failed_init =
            self.all.iter().find(|member| member.role == Role::Init && member.exit_code != 0).and_then(ended);
        if let Some(time) = failed_init {
            return PodOutcome::Failed(time);
        }
        let mains = || self.all.iter().filter(|member| member.role == Role::Main);
        let times: Option<Vec<Timestamp>> = mains().map(ended).collect();
        match times.and_then(|times| times.into_iter().max()) {
            None => PodOutcome::Open,
            Some(time) if mains().all(|member| member.exit_code == 0) => PodOutcome::Succeeded(time),
            Some(time) => PodOutcome::Failed(time),
        }
    }

    /// Ends what still runs.
    fn stop(&mut self, time: Timestamp, exit_code: i64) {
        for member in &mut self.all {
            if matches!(member.run.state, State::Running | State::Paused) {
                if member.run.state == State::Running {
                    member.exit_code = exit_code;
                }
                let ended = member.run.ended.unwrap_or(time);
                let run = Run {
                    state: State::Ended,
                    ended: Some(ended),
                    ready: false,
                    started: false,
                    ..member.run
                };
                member.run = Run { since: time, next: None, ..run };
            }
        }
    }

    /// Are all containers that count for it ready?
    pub(super) fn ready(&self) -> bool {
        self.counting().all(|member| member.run.ready)
    }

    /// The containers that the pod's readiness depends on.
    pub(super) fn counting(&self) -> impl Iterator<Item = &Member<'a>> {
        self.all.iter().filter(|member| member.role != Role::Init)
    }

    /// Turns the readiness of the main containers off and on once all are ready; gives when it turns next.
    fn flap(&mut self, period: i64, now: Timestamp) -> Option<Timestamp> {
        if !self.ready() {
            return None;
        }
        let first = self.counting().map(|member| member.run.since).max()?;
        let turn = between(first, now) / period;
        let since = after(first, turn * period);
        for member in self.all.iter_mut().filter(|member| member.role == Role::Main && turn > 0) {
            member.run.ready = turn % 2 == 0;
            member.run.since = since;
        }
        Some(after(since, period))
    }
}

/// Who does what in the pod.
struct Plan<'a, 'b> {
    pod: &'a Value,
    probing: Option<&'b Probing>,
    now: Timestamp,
}

impl<'a> Plan<'a, '_> {
    fn containers(&self, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let pod: &'a Value = self.pod;
        pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array).into_iter().flatten()
    }

    fn member(&self, spec: &'a Value, role: Role, script: Script) -> Member<'a> {
        let mut run = script.at(self.now);
        let list = if role == Role::Main { "containers" } else { "initContainers" };
        let mut exit_code = script.ending.map_or(0, |ending| ending.exit_code);
        let observed = self.probing.and_then(|probing| probing.observed(name_of(spec)));
        if let Some(observed) = &observed {
            run = observed.applied(run, self.now);
            exit_code = observed.stop.map_or(exit_code, |stop| stop.exit_code);
        }
        Member { spec, list, role, script, run, exit_code, observed }
    }

    /// Where the clock finds the probes of a container: those that are asked it knows nothing of.
    fn by_the_clock(&self, spec: &'a Value) -> &'a Value {
        if self.probing.is_some() { &Value::Null } else { spec }
    }

    /// The init containers, and when they are done.
    fn init_containers(&self, start: Timestamp) -> (Vec<Member<'a>>, Option<Timestamp>) {
        let duration = |name: &str| annotation(self.pod, name).and_then(millis);
        let takes = duration("init-takes").unwrap_or(INIT_TAKES);
        let fails = annotation(self.pod, "init-fails") == Some("true");
        let policy = self.pod.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or("Always");
        let mut begins = Some(after(start, duration("start-after").unwrap_or(START_AFTER)));
        let mut out = Vec::new();
        for spec in self.containers("initContainers") {
            if spec["restartPolicy"] == "Always" {
                let script = Script::of(self.by_the_clock(spec), begins, None, true);
                let started = script.started_after;
                out.push(self.member(spec, Role::Sidecar, script));
                begins = begins.and_then(|time| Some(after(time, started?)));
            } else {
                let ending = Ending { after: takes, exit_code: fails.into(), killed_by: None };
                let script =
                    Script::of(self.by_the_clock(spec), begins, Some(ending), fails && policy != "Never");
                out.push(self.member(spec, Role::Init, script));
                begins = begins.filter(|_| !fails).map(|time| after(time, takes));
            }
        }
        (out, begins)
    }

    fn main_containers(&self, begins: Option<Timestamp>) -> Vec<Member<'a>> {
        let duration = |name: &str| annotation(self.pod, name).and_then(millis);
        let ending = |time: i64, exit_code| Ending { after: time.max(1), exit_code, killed_by: None };
        let ends = duration("fail")
            .map(|time| ending(time, 1))
            .or_else(|| duration("complete").map(|time| ending(time, 0)));
        let policy = self.pod.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or("Always");
        let never = annotation(self.pod, "never-ready") == Some("true");
        let delay = duration("ready-after").unwrap_or_default();
        let member = |spec| {
            let mut script = Script::of(self.by_the_clock(spec), begins, ends, true);
            let failing = script.ending.is_some_and(|ending| ending.exit_code != 0);
            script.restarts = policy == "Always" || (policy == "OnFailure" && failing);
            script.ready_after = script.ready_after.filter(|_| !never).map(|time| time.saturating_add(delay));
            self.member(spec, Role::Main, script)
        };
        self.containers("containers").map(member).collect()
    }
}
