//! The end of an outage: whoever waits because the API server gave no answer goes on when it has given one.
//!
//! Owns which answer ends an outage; each who waits has a wait of its own as well, and never waits longer than that.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// An answer ends an outage if there was none for so long before it. Answers that come more often say nothing new: somebody
/// else's requests may fail all the same, and must not be sent again without a wait.
const SILENCE: Duration = Duration::from_secs(5);

/// What is known of the API server's answers.
#[derive(Debug, Default)]
pub struct Outage {
    last: Mutex<Option<Instant>>,
    again: Notify,
}

impl Outage {
    /// The server answered; gives whether that ends an outage. Those who [wait](Self::wait) go on then.
    pub fn answered(&self) -> bool {
        let now = Instant::now();
        let ends = self.last.lock().replace(now).is_none_or(|last| now.duration_since(last) >= SILENCE);
        if ends {
            self.again.notify_waiters();
        }
        ends
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
    use super::*;

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
