//! Waits for what will be so.

use std::time::Duration;

use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);

/// Looks again and again until there is something to give.
///
/// # Panics
/// When that does not come to pass: it is for tests.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} did not come to pass");
        sleep(POLL).await;
    }
}
