//! How long to wait before something is tried again.

use std::time::Duration;

use crate::api::Refusal;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_mins(1);

/// Doubling waits, from 50 ms to a minute; what the server asks for counts more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure.
    #[must_use]
    pub fn after(&mut self, refusal: &Refusal) -> Duration {
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(16))).min(LONGEST);
        self.failures += 1;
        let wait = wait.mul_f64(0.75 + 0.5 * rand::random::<f64>());
        match refusal {
            Refusal::Busy { after: Some(after), .. } => (*after).max(wait),
            _ => wait,
        }
    }

    /// Whether it has gone wrong so often that waiting alone does not help.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.failures > 3
    }

    /// All went well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
