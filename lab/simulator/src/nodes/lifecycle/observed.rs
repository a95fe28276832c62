//! A container whose probes are asked: what they found goes over what the clock alone would say. Pure.

use jiff::Timestamp;

use super::super::probes::BACK_OFF;
use super::super::probing::Observed;
use super::between;
use super::containers::{Failures, Run, State};

impl Observed {
    /// The container at `now`, of which the clock says `run`.
    pub(super) fn applied(&self, run: Run, now: Timestamp) -> Run {
        let run = match self.stop {
            None => run,
            Some(stop) => {
                let ended = Run {
                    state: State::Ended,
                    begun: stop.begun,
                    ended: Some(stop.ended),
                    restarts: self.stops - 1,
                    started: false,
                    ready: false,
                    since: stop.ended,
                    next: stop.resumes,
                };
                match stop.resumes {
                    None => return ended,
                    Some(resumes) if now < resumes => return Run { state: State::Paused, ..ended },
                    Some(resumes) => Run {
                        state: State::Running,
                        begun: resumes,
                        ended: None,
                        restarts: self.stops,
                        started: true,
                        ready: true,
                        since: resumes,
                        next: None,
                    },
                }
            }
        };
        if run.state != State::Running {
            return run;
        }
        let since = self.since.unwrap_or(run.begun).max(run.begun);
        let ready = run.ready && self.ready;
        let since = if ready { since.max(run.since) } else { since };
        Run { started: run.started && self.started, ready, since, ..run }
    }

    /// Whether the container waits for its next run because it ended too often.
    pub(super) fn backs_off(&self) -> bool {
        let pause = self.stop.and_then(|stop| Some(between(stop.ended, stop.resumes?)));
        pause.is_some_and(|pause| pause >= BACK_OFF)
    }

    /// How often each of its probes failed.
    pub(super) fn failed(&self) -> Vec<Failures> {
        let one = |(kind, count, kills, found): &(_, i64, i64, String)| Failures {
            kind: *kind,
            found: found.clone(),
            count: *count,
            kills: *kills,
            next: None,
        };
        self.failures.iter().map(one).collect()
    }
}
