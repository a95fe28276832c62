//! How long to wait before something is tried again.

use std::time::Duration;

use crate::api::RequestError;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_mins(1);

/// Doubling waits, from 50 ms to a minute; where the server says how long, that counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure.
    #[must_use]
    pub(crate) fn after(&mut self, error: &RequestError) -> Duration {
        if let RequestError::Busy { after: Some(after), .. } = error {
            // A server that has more to refuse asks for longer waits itself; longer ones still would leave its time unused.
            return after.mul_f64(1.0 + 0.25 * rand::random::<f64>()).max(FIRST);
        }
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(16))).min(LONGEST);
        self.failures += 1;
        wait.mul_f64(0.75 + 0.5 * rand::random::<f64>())
    }

    /// Whether it has gone wrong so often that waiting alone does not help.
    #[must_use]
    pub(crate) fn is_stuck(self) -> bool {
        self.failures > 3
    }

    /// All went well.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_unless_the_server_says_how_long() {
        let mut backoff = Backoff::default();
        let unknown = RequestError::Unknown(String::new());
        for doubled in [50, 100, 200, 400] {
            let wait = backoff.after(&unknown).as_millis();
            assert!((doubled * 3 / 4..=doubled * 5 / 4).contains(&wait), "{wait} ms");
        }
        let busy = RequestError::Busy { message: String::new(), after: Some(Duration::from_secs(2)) };
        for _ in 0..20 {
            let wait = backoff.after(&busy);
            assert!((Duration::from_secs(2)..Duration::from_millis(2501)).contains(&wait), "{wait:?}");
        }
        let wait = backoff.after(&unknown).as_millis();
        assert!((600..=1000).contains(&wait), "{wait} ms");
    }
}
