//! Time limits of requests, all by one timer.
//!
//! A timer of its own for each request would be the earliest of the process, and setting the earliest one costs a turn of the event
//! loop (docs/decisions/0006). Limits are kept to a second. Owns the timer; what is limited is
//! not its business.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// So often it is looked who has waited too long.
const GRAIN: Duration = Duration::from_secs(1);

/// The limits that are running. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    all: BTreeMap<u64, (Instant, Waker)>,
    last: u64,
    /// Whether somebody looks.
    watched: bool,
}

impl Deadlines {
    /// What `work` gives, if it does within the limit, or at most a second later.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut limited = Limited { deadlines: self, number: None };
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(outcome) = work.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            if Instant::now() >= deadline {
                return Poll::Ready(None);
            }
            limited.wait(deadline, context.waker());
            Poll::Pending
        })
        .await
    }

    /// Wakes whoever is over the limit; says whether anybody else waits.
    fn look(&self) -> bool {
        let now = Instant::now();
        let mut waiting = self.0.lock();
        for (deadline, waker) in waiting.all.values() {
            if *deadline <= now {
                waker.wake_by_ref();
            }
        }
        waiting.watched = !waiting.all.is_empty();
        waiting.watched
    }

    async fn watch(self) {
        loop {
            sleep(GRAIN).await;
            if !self.look() {
                return;
            }
        }
    }
}

/// One that waits; it is forgotten with this.
struct Limited<'a> {
    deadlines: &'a Deadlines,
    number: Option<u64>,
}

impl Limited<'_> {
    fn wait(&mut self, deadline: Instant, waker: &Waker) {
        let mut waiting = self.deadlines.0.lock();
        let number = *self.number.get_or_insert_with(|| {
            waiting.last += 1;
            waiting.last
        });
        match waiting.all.get_mut(&number) {
            Some((_, known)) => known.clone_from(waker),
            None => {
                waiting.all.insert(number, (deadline, waker.clone()));
            }
        }
        if !std::mem::replace(&mut waiting.watched, true) {
            tokio::spawn(self.deadlines.clone().watch());
        }
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.deadlines.0.lock().all.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_given_up_and_forgotten() {
        let (deadlines, begun) = (Deadlines::default(), Instant::now());
        let short = deadlines.within(Duration::from_secs(3), pending::<()>());
        let long = async {
            sleep(Duration::from_millis(1500)).await;
            deadlines.within(Duration::from_secs(3), pending::<()>()).await
        };
        let (short, long) = tokio::join!(short, long);
        assert!(short.is_none() && long.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(5), "4.5 s, and the rest of that second");
        sleep(GRAIN * 2).await;
        let waiting = deadlines.0.lock();
        assert!(waiting.all.is_empty() && !waiting.watched);
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_in_time_gives_its_outcome() {
        let deadlines = Deadlines::default();
        for _ in 0..3 {
            let work = async {
                sleep(Duration::from_millis(2500)).await;
                7
            };
            assert_eq!(deadlines.within(Duration::from_secs(3), work).await, Some(7));
            assert_eq!(deadlines.within(Duration::from_secs(3), async { 8 }).await, Some(8));
        }
    }
}
