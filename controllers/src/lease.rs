//! Leader election by a Lease, so that of several replicas one works. `decide` is pure; `Election` talks to the API server.
//!
//! A replica never trusts another's clock: it watches when *it* saw the lease change, as client-go does. Its own term is
//! counted from the moment at which it sent the request that took or renewed the lease, which nobody can have seen
//! sooner, and ends at the renew deadline. The rest of the lease's duration is for requests under way then.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api::RequestError;
use crate::client::request_error_of;
use crate::error::with_causes;
use crate::leadership::{Leadership, Moment};
use crate::report::cause::Cause;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};

/// An answer that is under way when the end is asked for is awaited for so long.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);
/// A pause that lasts longer by this than it should says that the process did not run.
const STALL: Duration = Duration::from_secs(1);

/// Who takes part in which election, and how patient it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// This replica, unlike every other.
    pub identity: String,
    /// How long a lease holds without being renewed.
    pub duration: Duration,
    /// How long the leader tries to renew before it stops working.
    pub renew_deadline: Duration,
    /// How long to wait between two tries.
    pub retry_period: Duration,
}

/// What was last seen of the lease, and when this replica saw it change.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    spec: LeaseSpec,
    at: Instant,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It is ours: write a new renew time.
    Renew,
    /// It is nobody's, or has run out: write our name.
    Take,
    /// Somebody else works.
    Wait,
}

fn decide(spec: &LeaseSpec, seen_for: Duration, candidate: &Candidate) -> Decision {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == candidate.identity {
        return Decision::Renew;
    }
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let holds = seconds.map_or(candidate.duration, Duration::from_secs);
    if holder.is_empty() || seen_for >= holds { Decision::Take } else { Decision::Wait }
}

/// The lease after a decision.
fn next(spec: Option<&LeaseSpec>, candidate: &Candidate, now: Timestamp, renewed: bool) -> LeaseSpec {
    let now = MicroTime(now);
    let acquired = spec.and_then(|spec| spec.acquire_time.clone()).filter(|_| renewed);
    let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(candidate.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
        acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
        renew_time: Some(now),
        // As client-go counts: an orderly handover is one too.
        lease_transitions: Some(transitions.saturating_add(i32::from(spec.is_some() && !renewed))),
        ..LeaseSpec::default()
    }
}

/// Taking part in an election.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    candidate: Candidate,
    leadership: Leadership,
    seen: Option<Seen>,
    /// Why the last try came to nothing, if it did.
    failed: Option<String>,
    failures: Arc<FailureLog>,
}

impl Election {
    /// A replica that has not tried yet, and who is told whether it leads.
    #[must_use]
    pub fn new(
        client: Client,
        candidate: Candidate,
        leadership: Leadership,
        failures: Arc<FailureLog>,
    ) -> Self {
        let api = Api::namespaced(client, &candidate.namespace);
        Self { api, candidate, leadership, seen: None, failed: None, failures }
    }

    /// Waits until this replica leads; `false` if it is to end before that.
    pub async fn win(&mut self, shutdown: &CancellationToken) -> bool {
        let mut leader = None;
        loop {
            let within = self.candidate.renew_deadline;
            let tried = tokio::select! {
                () = overdue(shutdown) => return false,
                tried = timeout(within, self.attempt()) => tried,
            };
            match self.told("take", within, tried) {
                Some(Attempt::Leads(sent)) => {
                    self.leadership.begin(sent, self.candidate.renew_deadline);
                    tracing::info!(
                        lease = self.candidate.name,
                        identity = self.candidate.identity,
                        "leading"
                    );
                    return true;
                }
                Some(Attempt::AnotherLeads) => self.tell_leader(&mut leader),
                Some(Attempt::Overtaken) | None => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = sleep(self.candidate.retry_period) => {}
            }
        }
    }

    /// Says which leader this replica stands by for, once for each leader.
    fn tell_leader(&self, told: &mut Option<String>) {
        let leader = self.seen.as_ref().and_then(|seen| seen.spec.holder_identity.clone());
        if *told != leader {
            let lease = &*self.candidate.name;
            tracing::info!(lease, leader = leader.as_deref(), "standing by: another replica leads");
            *told = leader;
        }
    }

    /// Renews until the lease is lost; returns then, or after giving the lease up when told to end.
    pub async fn hold(&mut self, shutdown: &CancellationToken) -> TermEnd {
        let end = self.renew(shutdown).await;
        self.leadership.end();
        if end == TermEnd::Released {
            self.release().await;
        }
        end
    }

    async fn renew(&mut self, shutdown: &CancellationToken) -> TermEnd {
        loop {
            let pause = Moment::now();
            tokio::select! {
                () = shutdown.cancelled() => return TermEnd::Released,
                () = sleep(self.candidate.retry_period) => {}
            }
            let Some(left) = self.leadership.left().filter(|left| !left.is_zero()) else {
                return self.overdue(pause.elapsed());
            };
            let asked = Moment::now();
            let tried = tokio::select! {
                tried = timeout(left, self.attempt()) => tried,
                () = overdue(shutdown) => continue,
            };
            if tried.is_err() && asked.elapsed() > left + STALL {
                // Nobody waited for the answer: the server is not to blame.
                self.failed = None;
                return self.overdue(pause.elapsed());
            }
            match self.told("renew", left, tried) {
                Some(Attempt::Leads(sent)) => self.leadership.begin(sent, self.candidate.renew_deadline),
                Some(Attempt::AnotherLeads) => return TermEnd::Taken,
                // If somebody wrote in between, perhaps a label, the next try sees whose the lease is.
                Some(Attempt::Overtaken) | None => {}
            }
            if self.leadership.check().is_err() {
                return self.overdue(pause.elapsed());
            }
        }
    }

    /// The term is over; from the last pause to here so much time has gone.
    fn overdue(&self, gone: Duration) -> TermEnd {
        let Candidate { renew_deadline, retry_period, .. } = &self.candidate;
        TermEnd::Overdue(match &self.failed {
            Some(failed) => format!("it was not renewed within {renew_deadline:?}: {failed}"),
            None if gone > *retry_period + STALL => format!(
                "it was not renewed within {renew_deadline:?}, for this process did not run, or hardly, for {gone:.1?} (stopped, suspended, or without CPU time)"
            ),
            None => {
                format!("it was not renewed within {renew_deadline:?}: others wrote it each time in between")
            }
        })
    }

    /// Tells what became of a try that had so much time; gives it if there was an answer.
    fn told(&mut self, verb: &'static str, within: Duration, tried: Tried) -> Option<Attempt> {
        let subject = Subject::Lease(self.candidate.name.as_str().into());
        let error = match tried {
            Ok(Ok(attempt)) => {
                self.failed = None;
                self.failures.works(&subject);
                return Some(attempt);
            }
            Ok(Err(error)) => request_error_of(&error),
            // It had no fair chance, and what comes of it is told.
            Err(_) if within < LAST_ATTEMPT => return None,
            Err(_) => RequestError::Unreachable(format!("none within {within:.1?}")),
        };
        self.failed = Some(error.to_string());
        let about = About { verb: Some(verb), ..About::default() };
        let failure = Failure { about, cause: &Cause::of(&error), why: &error };
        self.failures.failed(&subject, &[failure], Some(self.candidate.retry_period));
        None
    }

    /// One try to take or to renew the lease.
    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let Some(lease) = self.api.get_opt(&self.candidate.name).await? else {
            let spec = next(None, &self.candidate, Timestamp::now(), false);
            let lease = Lease { metadata: self.metadata(), spec: Some(spec) };
            let sent = Moment::now();
            return written(self.api.create(&PostParams::default(), &lease).await, sent);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|seen| seen.spec != spec) {
            self.seen = Some(Seen { spec: spec.clone(), at: Instant::now() });
        }
        let seen_for = self.seen.as_ref().map(|seen| seen.at.elapsed()).unwrap_or_default();
        let decision = decide(&spec, seen_for, &self.candidate);
        if decision == Decision::Wait {
            return Ok(Attempt::AnotherLeads);
        }
        let renewed = decision == Decision::Renew;
        // The version in the metadata makes this fail when another replica was faster.
        let lease =
            Lease { spec: Some(next(Some(&spec), &self.candidate, Timestamp::now(), renewed)), ..lease };
        let sent = Moment::now();
        written(self.api.replace(&self.candidate.name, &PostParams::default(), &lease).await, sent)
    }

    /// Makes room for another replica at once.
    async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(&self.candidate.name).await?;
            if let Some(spec) = &mut lease.spec
                && spec.holder_identity.as_deref() == Some(self.candidate.identity.as_str())
            {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.api.replace(&self.candidate.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(self.candidate.retry_period, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let why = with_causes(&error);
                tracing::warn!(
                    why,
                    "cannot release the lease; another replica can take it when it has expired"
                );
            }
            Err(_) => tracing::warn!(
                why = "no answer",
                "cannot release the lease; another replica can take it when it has expired"
            ),
        }
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.candidate.name.clone()),
            namespace: Some(self.candidate.namespace.clone()),
            ..ObjectMeta::default()
        }
    }
}

/// What a try came to, if it came to something in time.
type Tried = Result<Result<Attempt, kube::Error>, tokio::time::error::Elapsed>;

/// What a try came to.
#[derive(Debug, Clone, Copy)]
enum Attempt {
    /// This replica leads, by a request that was sent then.
    Leads(Moment),
    /// Another replica does.
    AnotherLeads,
    /// The lease was written in between; by whom is not known.
    Overtaken,
}

/// How holding a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermEnd {
    /// Another replica has it.
    Taken,
    /// It was not renewed in time, for a reason that is given, and another replica may have it soon.
    Overdue(String),
    /// Given up because the process ends.
    Released,
}

/// Another's faster write is no error.
fn written<T>(result: Result<T, kube::Error>, sent: Moment) -> Result<Attempt, kube::Error> {
    match result {
        Ok(_) => Ok(Attempt::Leads(sent)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Overtaken),
        Err(error) => Err(error),
    }
}

/// Done a while after the end is asked for: what an attempt took would be held after the end.
async fn overdue(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    sleep(LAST_ATTEMPT).await;
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            namespace: "kube-system".into(),
            name: "lock".into(),
            identity: "me".into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn held_by(holder: Option<&str>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(ToOwned::to_owned),
            lease_duration_seconds: Some(20),
            lease_transitions: Some(3),
            acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..LeaseSpec::default()
        }
    }

    #[rstest]
    #[case(Some("me"), 0, Decision::Renew)]
    #[case(Some("me"), 100, Decision::Renew)]
    #[case(Some("other"), 0, Decision::Wait)]
    #[case(Some("other"), 19, Decision::Wait)]
    #[case(Some("other"), 20, Decision::Take)]
    #[case(Some(""), 0, Decision::Take)]
    #[case(None, 0, Decision::Take)]
    fn decisions(#[case] holder: Option<&str>, #[case] seen_for: u64, #[case] decision: Decision) {
        assert_eq!(decide(&held_by(holder), Duration::from_secs(seen_for), &candidate()), decision);
    }

    #[test]
    fn a_renewal_keeps_the_acquire_time_and_a_takeover_counts() {
        let now = Timestamp::from_second(1_000).unwrap();
        let renewed = next(Some(&held_by(Some("me"))), &candidate(), now, true);
        assert_eq!(renewed.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
        assert_eq!((renewed.renew_time, renewed.lease_transitions), (Some(MicroTime(now)), Some(3)));
        let taken = next(Some(&held_by(Some("other"))), &candidate(), now, false);
        assert_eq!(taken.acquire_time, Some(MicroTime(now)));
        assert_eq!(taken.lease_transitions, Some(4));
        assert_eq!(taken.lease_duration_seconds, Some(15));
        assert_eq!(next(Some(&held_by(Some(""))), &candidate(), now, false).lease_transitions, Some(4));
        assert_eq!(next(None, &candidate(), now, false).lease_transitions, Some(0));
    }
}
