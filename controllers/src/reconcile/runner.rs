//! Runs a controller: looks at keys that are due, some at a time.
//!
//! As kube's `applier`, which is made of the same scheduler, but for keys instead of objects. What is due now does not go through the
//! scheduler, whose timer costs a turn of the event loop and up to a millisecond even so (docs/decisions/0006 has the measurements).
//! Owns concurrency and the orderly end; what a look does is the controller's business.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use foldhash::HashSet;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::runtime::scheduler;
use kube::runtime::scheduler::ScheduleRequest;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pacing::Urgency;
use super::pending::{Next, Pending, Start, Waited};
use crate::controller::Key;

/// Where keys are called for.
#[derive(Debug)]
pub struct Queue {
    pending: Mutex<Pending>,
    due: UnboundedSender<Key>,
    later: UnboundedSender<ScheduleRequest<Key>>,
}

/// The keys that are called for, to be [run](run).
#[derive(Debug)]
pub struct Requests {
    due: UnboundedReceiver<Key>,
    later: UnboundedReceiver<ScheduleRequest<Key>>,
}

impl Queue {
    /// A queue in which changes of pods wait for `batch`, and its other end.
    #[must_use]
    pub fn new(batch: Duration) -> (Arc<Self>, Requests) {
        let ((due, is_due), (later, is_later)) = (unbounded(), unbounded());
        let pending = Mutex::new(Pending::new(batch));
        (Arc::new(Self { pending, due, later }), Requests { due: is_due, later: is_later })
    }

    fn wake(&self, key: Key, at: Instant) {
        // Whoever runs it has ended if this fails.
        let _ = if at <= Instant::now() {
            self.due.unbounded_send(key).is_ok()
        } else {
            self.later.unbounded_send(ScheduleRequest { message: key, run_at: at }).is_ok()
        };
    }

    /// Asks for a look at a key.
    pub fn ask(&self, key: Key, urgency: Urgency) {
        let at = self.pending.lock().ask(&key, urgency, Instant::now());
        if let Some(at) = at {
            self.wake(key, at);
        }
    }

    /// The server answers again after an outage: what waits for that is due.
    pub fn answered(&self) {
        let now = Instant::now();
        let due = self.pending.lock().answered(now);
        for key in due {
            self.wake(key, now);
        }
    }

    /// So many writes of a key are sent.
    pub fn wrote(&self, key: &Key, writes: usize) {
        self.pending.lock().wrote(key, writes, Instant::now());
    }

    /// A key is left alone for a while.
    pub fn rest(&self, key: &Key, rest: Duration) {
        self.pending.lock().rest(key, rest, Instant::now());
    }

    /// For how long a key that is looked at waited before.
    #[must_use]
    pub fn waited(&self, key: &Key) -> Waited {
        self.pending.lock().waited(key)
    }

    /// How many keys are due and not looked at yet, and how many calls came in all.
    #[must_use]
    pub fn depth(&self) -> (usize, u64) {
        self.pending.lock().depth(Instant::now())
    }

    fn start(&self, key: &Key) -> bool {
        match self.pending.lock().start(key, Instant::now()) {
            Start::Now => true,
            Start::NotBefore(at) => {
                self.wake(key.clone(), at);
                false
            }
            Start::Never => false,
        }
    }

    fn done(&self, key: &Key, next: Next) {
        let at = self.pending.lock().done(key, next, Instant::now());
        if let Some(at) = at {
            self.wake(key.clone(), at);
        }
    }
}

/// Looks at keys when they are due, at most `concurrency` at a time, until `shutdown`; returns when all looks that have
/// begun have ended.
pub async fn run(
    queue: Arc<Queue>,
    Requests { mut due, later }: Requests,
    concurrency: usize,
    shutdown: CancellationToken,
    reconcile: impl Fn(Key) -> BoxFuture<'static, Next>,
) {
    let mut later = Box::pin(scheduler(later));
    let mut looks = FuturesUnordered::new();
    let mut under_way: HashSet<Key> = HashSet::default();
    loop {
        let stopping = shutdown.is_cancelled();
        if stopping && looks.is_empty() {
            return;
        }
        let next_due = poll_fn(|context| {
            // Whatever is looked at is not due: `Queue` takes note that it is called for again.
            if let Poll::Ready(Some(key)) = due.poll_next_unpin(context) {
                return Poll::Ready(Some(key));
            }
            let mut free = later.as_mut().hold_unless(|key| !under_way.contains(key));
            free.poll_next_unpin(context)
        });
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !stopping => {}
            Some((key, next)) = looks.next(), if !looks.is_empty() => {
                let key: Key = key;
                under_way.remove(&key);
                queue.done(&key, next);
            }
            Some(key) = next_due, if !stopping && looks.len() < concurrency => {
                if queue.start(&key) {
                    under_way.insert(key.clone());
                    looks.push(reconcile(key.clone()).map(|next| (key, next)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::controller::Controller;

    fn key(number: usize) -> Key {
        Key::new(Controller::Slices, &"ns".into(), &number.to_string().as_str().into())
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_looked_at_at_a_time() {
        let (queue, requests) = Queue::new(Duration::ZERO);
        (0..50).for_each(|number| queue.ask(key(number), Urgency::Now));
        let (now, most, looks) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let shutdown = CancellationToken::new();
        let (done, counted) = (shutdown.clone(), Arc::clone(&most));
        let look = move |_| {
            let (now, most, looks, done) = (now.clone(), most.clone(), looks.clone(), done.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                if looks.fetch_add(1, Ordering::Relaxed) == 49 {
                    done.cancel();
                }
                Next::Idle
            }
            .boxed()
        };
        run(Arc::clone(&queue), requests, 4, shutdown, look).await;
        assert_eq!(counted.load(Ordering::Relaxed), 4);
        assert_eq!(queue.depth().0, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_looked_at_again_when_it_asks_for_it_or_is_called_for_meanwhile() {
        let (queue, requests) = Queue::new(Duration::ZERO);
        queue.ask(key(0), Urgency::Now);
        let (begun, shutdown, done) = (Instant::now(), CancellationToken::new(), CancellationToken::new());
        let looks = Arc::new(Mutex::new(Vec::new()));
        let (seen, calls, end) = (Arc::clone(&looks), Arc::clone(&queue), done.clone());
        let look = move |key: Key| {
            let (seen, calls, end) = (Arc::clone(&seen), Arc::clone(&calls), end.clone());
            async move {
                seen.lock().push(begun.elapsed().as_millis());
                let looks = seen.lock().len();
                if looks == 1 {
                    calls.ask(key, Urgency::Now);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                if looks == 3 {
                    end.cancel();
                }
                if looks == 2 { Next::After(Duration::from_millis(500)) } else { Next::Idle }
            }
            .boxed()
        };
        let running = tokio::spawn(run(queue, requests, 4, shutdown.clone(), look));
        done.cancelled().await;
        shutdown.cancel();
        running.await.unwrap();
        assert_eq!(*looks.lock(), [0, 100, 600]);
    }
}
