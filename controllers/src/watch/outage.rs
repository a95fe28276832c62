//! The end of an outage: waits that began because the API server gave no answer end when it gives one.
//!
//! Owns which answer ends an outage. Each wait has a length of its own as well, and is never longer than that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// An answer ends an outage if there was none for so long before it. Answers that come more often say nothing new: somebody
/// else's requests may fail all the same, and must not be sent again without a wait.
const SILENCE: Duration = Duration::from_secs(5);

/// While there is no answer, whether there is one is asked so often.
const PROBE: Duration = Duration::from_secs(2);

/// What is known of the API server's answers.
#[derive(Debug, Default)]
pub struct Outage {
    last: Mutex<Option<Instant>>,
    again: Notify,
    silent: AtomicBool,
    falls_silent: Notify,
}

impl Outage {
    /// The server answered; gives whether that ends an outage. Those who [wait](Self::wait) go on then.
    pub fn answered(&self) -> bool {
        self.silent.store(false, Relaxed);
        let now = Instant::now();
        let ends = self.last.lock().replace(now).is_none_or(|last| now.duration_since(last) >= SILENCE);
        if ends {
            self.again.notify_waiters();
        }
        ends
    }

    /// A request got no answer.
    pub fn unanswered(&self) {
        self.silent.store(true, Relaxed);
        self.falls_silent.notify_one();
    }

    /// There are new credentials: waits that began because the old ones were refused end.
    pub fn renewed(&self) {
        self.again.notify_waiters();
    }

    /// Asks, as long as there is no answer to anything, by `ask` whether there is one, and says by `answered` that there is.
    /// Waits grow with an outage, and would outlast it; one small request now and then need not. Never ends.
    pub async fn probe<F: Future<Output = bool>>(&self, ask: impl Fn() -> F, answered: impl Fn()) {
        loop {
            self.falls_silent.notified().await;
            while self.silent.load(Relaxed) {
                sleep(PROBE).await;
                if self.silent.load(Relaxed) && timeout(PROBE, ask()).await.unwrap_or_default() {
                    answered();
                }
            }
        }
    }

    /// Waits so long, or until an outage ends.
    pub async fn wait(&self, longest: Duration) {
        tokio::select! {
            () = sleep(longest) => {}
            () = self.again.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_asked_every_two_seconds_until_it_answers() {
        let (outage, asked, begun) = (Outage::default(), AtomicUsize::new(0), Instant::now());
        let ask = || {
            let after = asked.fetch_add(1, Relaxed);
            async move { after == 29 }
        };
        let waits = async {
            sleep(Duration::from_mins(1)).await;
            assert_eq!(asked.load(Relaxed), 0, "nobody is asked without need");
            outage.unanswered();
            outage.wait(Duration::from_mins(10)).await;
            assert_eq!(begun.elapsed(), Duration::from_mins(2));
            sleep(Duration::from_mins(1)).await;
        };
        tokio::select! {
            () = waits => {}
            () = outage.probe(ask, || _ = outage.answered()) => {}
        }
        assert_eq!(asked.load(Relaxed), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_after_silence_ends_all_waits() {
        let (outage, begun) = (Outage::default(), Instant::now());
        assert!(outage.answered());
        let answers = async {
            for (after, ends) in [(1, false), (4, false), (5, true), (5, true), (1, false)] {
                sleep(Duration::from_secs(after)).await;
                assert_eq!(outage.answered(), ends, "after {after} s");
            }
        };
        let waits = async {
            outage.wait(Duration::from_mins(1)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(10));
            outage.wait(Duration::from_secs(2)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(12));
            outage.wait(Duration::from_mins(1)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(15));
        };
        tokio::join!(answers, waits);
    }
}
