//! One look at a key: its number, and how long its parts took.
//!
//! The number stands in the line of the log, in the Events that the look led to, and it is the number of its trace.

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
    /// When it began.
    pub begun: Instant,
    /// How long it took until it was decided what to write.
    pub planning: Duration,
}

impl Look {
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
}
