//! One look at a key: its number, and how long its parts took.
//!
//! The number stands in the line of the log, in the Events that the look led to, and it is the number of its trace: requests
//! of a look whose trace is kept say so to the server (W3C Trace Context), so that the server's spans stand below ours.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The number of a look; no two of one process are the same, and they are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookId(NonZeroU64);

impl LookId {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// The number of a span of its trace: 0 is that of the whole, [`WRITES`] and those that follow are those of its writes.
    #[must_use]
    pub const fn span(self, place: u64) -> u64 {
        // No span has the number 0.
        match self.0.get().wrapping_add(place) {
            0 => u64::MAX,
            number => number,
        }
    }
}

/// The place of the span of a look's first write; those before are the parts of the look.
pub const WRITES: u64 = 16;

tokio::task_local! {
    /// The span that is being worked on, where its trace is kept.
    static SPAN: (LookId, u64);
}

/// What a request that is made now says of the trace that it belongs to, if it does: the value of `traceparent`.
#[must_use]
pub(crate) fn traceparent() -> Option<String> {
    let (look, place) = SPAN.try_with(|span| *span).ok()?;
    // Version 00; sampled.
    Some(format!("00-{:032x}-{:016x}-01", look.number(), look.span(place)))
}

impl fmt::Display for LookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Gives looks their numbers.
#[derive(Clone, Debug)]
pub struct LookIds(Arc<AtomicU64>);

impl Default for LookIds {
    /// Begins anywhere.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(rand::random())))
    }
}

impl LookIds {
    /// The next number (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
    #[must_use]
    pub fn next(&self) -> LookId {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // None of them is 0 but one, which takes the place of another that nobody will see.
        LookId(NonZeroU64::new(bits ^ (bits >> 31)).unwrap_or(NonZeroU64::MIN))
    }
}

/// A look that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Its number.
    pub id: LookId,
    /// Whether somebody keeps its trace.
    pub traced: bool,
    /// When it began.
    pub begun: Instant,
    /// How long it took until it was decided what to write.
    pub planning: Duration,
}

impl Look {
    /// Does work of the look, whose requests belong to the span of this place.
    pub(crate) async fn trace<F: Future>(&self, place: u64, work: F) -> F::Output {
        if self.traced { SPAN.scope((self.id, place), work).await } else { work.await }
    }

    /// The same, now that it is decided what to write.
    #[must_use]
    pub fn decided(self) -> Self {
        Self { planning: self.begun.elapsed(), ..self }
    }
}

/// How long the parts of a look took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the first event until the key was due.
    pub gathering: Duration,
    /// From then until it was looked at.
    pub queued: Duration,
    /// From then until it was decided what to write.
    pub planning: Duration,
    /// From then until the last answer.
    pub writing: Duration,
}

impl Times {
    /// From the first event to the last answer.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.gathering + self.queued + self.planning + self.writing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_differ_and_are_spread_evenly() {
        let ids = LookIds::default();
        let numbers: HashSet<u64> = (0..10_000).map(|_| ids.next().number()).collect();
        assert_eq!(numbers.len(), 10_000);
        let low = numbers.iter().filter(|number| **number < u64::MAX / 4).count();
        assert!((2_000..3_000).contains(&low), "{low} of 10000 in the lowest quarter");
    }

    #[test]
    fn a_number_has_sixteen_digits() {
        assert_eq!(LookId(NonZeroU64::MIN).to_string(), "0000000000000001");
    }

    #[tokio::test]
    async fn requests_of_a_look_that_is_traced_say_so() {
        let id = LookId(NonZeroU64::new(0x00c0_ffee).unwrap());
        let look = |traced| Look { id, traced, begun: Instant::now(), planning: Duration::ZERO };
        let said = |look: Look, place| async move { look.trace(place, async { traceparent() }).await };
        assert_eq!(said(look(false), 0).await, None);
        let whole = "00-00000000000000000000000000c0ffee-0000000000c0ffee-01";
        assert_eq!(said(look(true), 0).await.as_deref(), Some(whole));
        let write = "00-00000000000000000000000000c0ffee-0000000000c0fffe-01";
        assert_eq!(said(look(true), WRITES).await.as_deref(), Some(write));
        assert_eq!(traceparent(), None);
    }

    #[test]
    fn no_span_has_the_number_of_none() {
        let last = LookId(NonZeroU64::MAX);
        assert!((0..100).all(|place| last.span(place) != 0));
    }
}
