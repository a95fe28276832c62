//! The life of one container of a simulated pod: when it runs, when it is started and ready, how often it was restarted
//! and which of its probes failed how often. Pure.

use jiff::Timestamp;

use super::super::probes::{self, BACK_OFF, Failing, KILLED, Probe, ProbeKind, RESTART, probe};
use super::{after, between};
use serde_json::Value;

/// How each run of a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// After so many milliseconds.
    pub after: i64,
    /// With this code.
    pub exit_code: i64,
    /// The probe that had it killed, if one did.
    pub killed_by: Option<ProbeKind>,
}

/// What a container does, run by run.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// When its first run begins; `None`: never.
    pub begins: Option<Timestamp>,
    /// How its runs end; `None`: they do not.
    pub ending: Option<Ending>,
    /// Whether another run follows.
    pub restarts: bool,
    /// How long after the begin of a run it is started; `None`: never.
    pub started_after: Option<i64>,
    /// How long after the begin of a run it is ready; `None`: never.
    pub ready_after: Option<i64>,
    failing: Vec<(ProbeKind, Failing)>,
}

/// What a container is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its first run has not begun.
    Waiting,
    /// It runs.
    Running,
    /// It waits for its next run.
    Paused,
    /// It has ended for good.
    Ended,
}

/// A container at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// What it is doing.
    pub state: State,
    /// When the latest run began.
    pub begun: Timestamp,
    /// When the latest run ended, if it has.
    pub ended: Option<Timestamp>,
    /// Runs before the latest.
    pub restarts: i64,
    /// It runs and its startup probe has passed.
    pub started: bool,
    /// It is started and its readiness probe passes.
    pub ready: bool,
    /// Since when it is ready, or is not.
    pub since: Timestamp,
    /// When it will be another.
    pub next: Option<Timestamp>,
}

/// How often a probe of a container failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    /// Which probe.
    pub kind: ProbeKind,
    /// What it found last.
    pub found: String,
    /// How often, over all runs.
    pub count: i64,
    /// How often that had the container killed.
    pub kills: i64,
    /// When it fails next.
    pub next: Option<Timestamp>,
}

impl Script {
    /// The script of a container that begins at `begins` and, unless a probe has it killed, lives as `ending` says.
    pub(super) fn of(
        container: &Value,
        begins: Option<Timestamp>,
        ending: Option<Ending>,
        restarts: bool,
    ) -> Self {
        let probes = [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness]
            .map(|kind| (kind, probe(container, kind)));
        let passes = |of: ProbeKind| match probes.iter().find(|(kind, _)| *kind == of) {
            Some((_, Probe::PassesAfter(time))) => Some(*time),
            _ => None,
        };
        let started_after = passes(ProbeKind::Startup);
        let mut out = Self {
            begins,
            ending,
            restarts,
            started_after,
            ready_after: started_after
                .and_then(|start| Some(start.saturating_add(passes(ProbeKind::Readiness)?))),
            failing: Vec::new(),
        };
        for (kind, probe) in probes {
            let Probe::NeverPasses(mut failing) = probe else { continue };
            // The other probes begin once the startup probe has passed.
            let begin = if kind == ProbeKind::Startup { Some(0) } else { started_after };
            let Some(begin) = begin else { continue };
            failing.first = failing.first.saturating_add(begin);
            out.failing.push((kind, failing));
            let kills = kind != ProbeKind::Readiness;
            if kills && out.ending.is_none_or(|ending| failing.verdict() < ending.after) {
                out.ending =
                    Some(Ending { after: failing.verdict(), exit_code: KILLED, killed_by: Some(kind) });
            }
        }
        out
    }

    /// The container at `now`.
    pub(super) fn at(&self, now: Timestamp) -> Run {
        let waiting = Run {
            state: State::Waiting,
            begun: now,
            ended: None,
            restarts: 0,
            started: false,
            ready: false,
            since: now,
            next: self.begins,
        };
        let Some(begins) = self.begins.filter(|begins| *begins <= now) else { return waiting };
        let (restarts, begun, pause) = self.turn(begins, now);
        let end = self.ending.map(|ending| after(begun, ending.after));
        let run = Run { begun, restarts, ..waiting };
        match end {
            Some(end) if end <= now && self.restarts => Run {
                state: State::Paused,
                ended: Some(end),
                since: end,
                next: Some(after(end, pause)),
                ..run
            },
            Some(end) if end <= now => {
                Run { state: State::Ended, ended: Some(end), since: end, next: None, ..run }
            }
            _ => self.running(run, end, now),
        }
    }

    fn running(&self, run: Run, end: Option<Timestamp>, now: Timestamp) -> Run {
        let started_at = self.started_after.map(|time| after(run.begun, time));
        let ready_at = self.ready_after.map(|time| after(run.begun, time));
        let has_come = |time: &Timestamp| *time <= now;
        let ready = ready_at.filter(has_come);
        Run {
            state: State::Running,
            started: started_at.is_some_and(|time| has_come(&time)),
            ready: ready.is_some(),
            since: ready.unwrap_or(run.begun),
            next: [end, started_at, ready_at].into_iter().flatten().filter(|time| *time > now).min(),
            ..run
        }
    }

    /// The number of the run at `now`, its begin, and how long the pause after it is.
    fn turn(&self, begins: Timestamp, now: Timestamp) -> (i64, Timestamp, i64) {
        let Some(ending) = self.ending.filter(|_| self.restarts) else { return (0, begins, 0) };
        let pause = self.pause(0);
        let (first, later) =
            (ending.after.saturating_add(pause), ending.after.saturating_add(self.pause(1)).max(1));
        let age = between(begins, now);
        if age < first {
            return (0, begins, pause);
        }
        let more = (age - first) / later;
        (more + 1, after(begins, first + more * later), self.pause(1))
    }

    /// How long the pause after a run is: a container that a probe killed is first restarted without a back-off.
    fn pause(&self, turn: i64) -> i64 {
        let killed = self.ending.is_some_and(|ending| ending.killed_by.is_some());
        if turn == 0 && killed { RESTART } else { BACK_OFF }
    }

    /// Begin and end of the run before the latest.
    pub(super) fn before(&self, run: &Run) -> Option<(Timestamp, Timestamp)> {
        let ending = self.ending.filter(|_| run.restarts > 0)?;
        let ended = after(run.begun, -self.pause(run.restarts - 1));
        Some((after(ended, -ending.after), ended))
    }

    /// Does the container wait for its next run because it was restarted too often?
    pub(super) fn backs_off(&self, run: &Run) -> bool {
        self.pause(run.restarts) == BACK_OFF
    }

    /// How often each of its probes failed up to `now`.
    pub(super) fn failures(&self, run: &Run, now: Timestamp) -> Vec<Failures> {
        if run.state == State::Waiting {
            return Vec::new();
        }
        let whole = self.ending.map_or(i64::MAX, |ending| ending.after);
        let age = between(run.begun, run.ended.unwrap_or(now)).min(whole);
        self.failing
            .iter()
            .map(|(kind, probe)| {
                let this_run = probe.failures(age);
                let earlier = if run.restarts == 0 { 0 } else { probe.failures(whole) * run.restarts };
                let killed = self.ending.is_some_and(|ending| ending.killed_by == Some(*kind));
                let over = i64::from(run.state != State::Running);
                let next =
                    after(run.begun, probe.first.saturating_add(probe.period.saturating_mul(this_run)));
                Failures {
                    kind: *kind,
                    found: probes::words(probe.finds).to_owned(),
                    count: earlier + this_run,
                    kills: if killed { run.restarts + over } else { 0 },
                    next: (run.state == State::Running && next > now).then_some(next),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(script: &Script, millis: i64) -> Run {
        script.at(after(Timestamp::UNIX_EPOCH, millis))
    }

    fn script(container: &Value, restarts: bool) -> Script {
        Script::of(container, Some(after(Timestamp::UNIX_EPOCH, 1000)), None, restarts)
    }

    fn next(run: &Run) -> Option<i64> {
        run.next.map(Timestamp::as_millisecond)
    }

    #[test]
    fn a_startup_probe_delays_the_others() {
        let probed = json!({
            "startupProbe": {"httpGet": {"path": "/"}, "initialDelaySeconds": 5},
            "readinessProbe": {"httpGet": {"path": "/"}, "initialDelaySeconds": 2},
        });
        let script = script(&probed, true);
        let seen: Vec<_> = [999, 1000, 6000, 8000].map(|millis| look(&script, millis)).into();
        let states: Vec<_> =
            seen.iter().map(|run| (run.state == State::Running, run.started, run.ready)).collect();
        assert_eq!(
            states,
            [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
        );
        assert_eq!(seen.iter().map(next).collect::<Vec<_>>(), [Some(1000), Some(6000), Some(8000), None]);
    }

    #[test]
    fn a_startup_probe_that_never_passes_holds_the_others_back_and_kills_in_the_end() {
        let probed = json!({
            "startupProbe": {"httpGet": {"path": "/fail"}, "periodSeconds": 1, "failureThreshold": 3},
            "livenessProbe": {"httpGet": {"path": "/fail"}, "periodSeconds": 1, "failureThreshold": 1},
        });
        let script = script(&probed, true);
        assert!(!look(&script, 3900).ready);
        let failures = script.failures(&look(&script, 3900), after(Timestamp::UNIX_EPOCH, 3900));
        assert_eq!(
            failures.iter().map(|f| (f.kind, f.count, f.kills)).collect::<Vec<_>>(),
            [(ProbeKind::Startup, 2, 0)]
        );
        assert_eq!(look(&script, 4000).state, State::Paused);
    }

    #[test]
    fn a_liveness_probe_that_never_passes_restarts_the_container() {
        let probed = json!({"livenessProbe": {"httpGet": {"path": "/fail"}, "periodSeconds": 5, "failureThreshold": 2}});
        let script = script(&probed, true);
        // It runs for 6 s, pauses for one, runs for six, pauses for ten, and so on.
        let states: Vec<_> = [1000, 6999, 7000, 8000, 14_000, 23_999, 24_000]
            .map(|millis| look(&script, millis))
            .iter()
            .map(|run| (run.state, run.ready, run.restarts))
            .collect();
        assert_eq!(
            states,
            [
                (State::Running, true, 0),
                (State::Running, true, 0),
                (State::Paused, false, 0),
                (State::Running, true, 1),
                (State::Paused, false, 1),
                (State::Paused, false, 1),
                (State::Running, true, 2),
            ]
        );
        let counted = |millis| {
            let failures = script.failures(&look(&script, millis), after(Timestamp::UNIX_EPOCH, millis));
            (failures[0].count, failures[0].kills)
        };
        assert_eq!(
            [1000, 2000, 7000, 8000, 9000, 14_000].map(counted),
            [(0, 0), (1, 0), (2, 1), (2, 1), (3, 1), (4, 2)]
        );
        let again = look(&script, 24_000);
        let (begun, ended) = script.before(&again).unwrap();
        assert_eq!((begun.as_millisecond(), ended.as_millisecond()), (8000, 14_000));
    }

    #[test]
    fn what_is_not_restarted_ends() {
        let probed = json!({"livenessProbe": {"httpGet": {"path": "/fail"}, "periodSeconds": 5, "failureThreshold": 2}});
        let ended = look(&script(&probed, false), 100_000);
        assert_eq!((ended.state, ended.restarts, ended.next), (State::Ended, 0, None));
        assert_eq!(ended.ended.map(Timestamp::as_millisecond), Some(7000));
    }
}
