//! Whether this process may write: what the election knows of its term, for everyone who writes.
//!
//! Owns the end of the term, by a clock that runs while the process is stopped (SIGSTOP) and while the machine is
//! suspended. Never talks to the API server: `lease` begins and ends terms, `client` asks before each write.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use crate::deadline::Deadlines;

/// This process does not lead: another may, so nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the lease; another may write by now")]
pub struct NotLeading;

/// A moment, and how far it lies back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    awake: Instant,
    suspended: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { awake: Instant::now(), suspended: suspended() }
    }

    /// How long ago it was, with the time in which the machine was suspended.
    pub(crate) fn elapsed(self) -> Duration {
        self.awake.elapsed() + suspended().saturating_sub(self.suspended)
    }
}

/// How long the machine has been suspended since it started. `Instant` is `CLOCK_MONOTONIC`, which stands still then.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = read(ClockId::Monotonic);
    // The two are read one after the other, and only what is longer than that counts.
    let difference = read(ClockId::Boottime).saturating_sub(awake);
    Duration::from_millis(u64::try_from(difference.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
}

/// A term: from the sending of the request that took or renewed the lease.
#[derive(Clone, Copy, Debug)]
struct Term {
    begun: Moment,
    length: Duration,
}

impl Term {
    fn left(self) -> Duration {
        self.length.saturating_sub(self.begun.elapsed())
    }
}

/// Whether this process leads. Clones share one answer.
#[derive(Clone, Debug)]
pub struct Leadership(Option<Arc<Election>>);

#[derive(Debug, Default)]
struct Election {
    term: watch::Sender<Option<Term>>,
    deadlines: Deadlines,
}

impl Leadership {
    /// That of a process that takes part in no election: it always leads.
    #[must_use]
    pub fn without_election() -> Self {
        Self(None)
    }

    /// That of a process that does not lead yet.
    #[must_use]
    pub fn follower() -> Self {
        Self(Some(Arc::default()))
    }

    /// This one, if it is of a process that takes part in an election, or else that of one that begins to.
    #[must_use]
    pub(crate) fn of_an_election(&self) -> Self {
        if self.0.is_some() { self.clone() } else { Self::follower() }
    }

    /// Whether a write may be sent now.
    ///
    /// # Errors
    /// If the lease is not held, or its term is over, even if nobody could say so yet.
    pub fn check(&self) -> Result<(), NotLeading> {
        if self.left().is_some_and(|left| left.is_zero()) { Err(NotLeading) } else { Ok(()) }
    }

    /// A client that sends what writes only while this process leads, and gives it up with the term; what it gives then is
    /// [`NotLeading`].
    #[must_use]
    pub fn fence(&self, client: &kube::Client) -> kube::Client {
        if self.0.is_none() {
            return client.clone();
        }
        let (leadership, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (leadership, inner) = (leadership.clone(), inner.clone());
            async move {
                if request.method() != Method::GET {
                    leadership.check()?;
                }
                let reads = request.method() == Method::GET;
                let lost = async {
                    if reads {
                        std::future::pending::<()>().await;
                    }
                    leadership.lost().await;
                };
                tokio::select! {
                    biased;
                    () = lost => Err(NotLeading.into()),
                    answer = inner.send(request) => answer.map_err(BoxError::from),
                }
            }
        });
        kube::Client::new(service, client.default_namespace())
    }

    /// How much of the term is left; none without an election.
    pub(crate) fn left(&self) -> Option<Duration> {
        let term = *self.0.as_ref()?.term.borrow();
        Some(term.map_or(Duration::ZERO, Term::left))
    }

    /// Waits until this process leads.
    pub async fn gained(&self) {
        if let Some(election) = &self.0 {
            let mut terms = election.term.subscribe();
            // The sender lives as long as this handle.
            let _ = terms.wait_for(|term| term.is_some_and(|term| !term.left().is_zero())).await;
        }
    }

    /// Waits until this process does not lead: the lease was lost or given back, or its term has been over for up to a second.
    pub async fn lost(&self) {
        let Some(election) = &self.0 else { return std::future::pending().await };
        let mut terms = election.term.subscribe();
        loop {
            let left = terms.borrow_and_update().map_or(Duration::ZERO, Term::left);
            if left.is_zero() {
                return;
            }
            election.deadlines.within(left, terms.changed()).await;
        }
    }

    /// The lease was taken or renewed by a request that was sent then, and holds for at least so long.
    pub(crate) fn begin(&self, sent: Moment, length: Duration) {
        if let Some(Election { term, .. }) = self.0.as_deref() {
            term.send_replace(Some(Term { begun: sent, length }));
        }
    }

    /// The lease is another's, or will be.
    pub(crate) fn end(&self) {
        if let Some(Election { term, .. }) = self.0.as_deref() {
            term.send_replace(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use tokio::time::sleep;

    use super::*;

    const TERM: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_itself_counted_from_the_request_that_began_it() {
        let leadership = Leadership::follower();
        assert_eq!(leadership.check(), Err(NotLeading));
        let sent = Moment::now();
        tokio::time::advance(Duration::from_secs(4)).await;
        leadership.begin(sent, TERM);
        leadership.gained().now_or_never().expect("it leads");
        tokio::time::advance(Duration::from_millis(5900)).await;
        assert_eq!(leadership.check(), Ok(()));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(leadership.check(), Err(NotLeading), "nobody had to say so");
        leadership.lost().now_or_never().expect("it is over");
        assert!(leadership.gained().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_end_sees_renewals_and_losses() {
        let (leadership, begun) = (Leadership::follower(), Instant::now());
        leadership.begin(Moment::now(), TERM);
        let holder = leadership.clone();
        let holds = async {
            sleep(Duration::from_secs(7)).await;
            holder.begin(Moment::now(), TERM);
        };
        tokio::join!(holds, leadership.lost());
        assert_eq!(begun.elapsed(), Duration::from_secs(17));
        leadership.begin(Moment::now(), TERM);
        let ends = async {
            sleep(Duration::from_secs(1)).await;
            holder.end();
        };
        tokio::join!(ends, leadership.lost());
        assert_eq!(begun.elapsed(), Duration::from_secs(18));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fenced_client_reads_and_does_not_write() {
        let answers = service_fn(|_: Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        let leadership = Leadership::follower();
        let client = leadership.fence(&kube::Client::new(answers, "default"));
        let send = |method| client.send(Request::builder().method(method).body(Body::empty()).unwrap());
        assert!(send(Method::GET).await.is_ok());
        let refused = send(Method::PATCH).await.unwrap_err();
        assert_eq!(crate::client::request_error_of(&refused), NotLeading.into());
        leadership.begin(Moment::now(), TERM);
        assert!(send(Method::PATCH).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_it_always_leads() {
        let leadership = Leadership::without_election();
        leadership.gained().await;
        leadership.end();
        tokio::time::advance(Duration::from_hours(1000)).await;
        assert_eq!(leadership.check(), Ok(()));
        assert!(leadership.lost().now_or_never().is_none());
    }
}
