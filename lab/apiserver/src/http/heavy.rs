//! Requests that take long: done on threads of their own, and a bounded amount of them at a time.
//!
//! Most requests take less than a millisecond, and are answered where they were read: handing them to another thread would
//! cost more than they do. A body of a megabyte takes as long as a thousand of them, and would hold up everyone whose
//! connection the same thread serves.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::registry::error::ApiError;

/// Requests with more to read and write than this, in bytes, are heavy.
pub(crate) const LIGHT: usize = 32 << 10;

/// One permit stands for so many bytes.
const UNIT: usize = 32 << 10;

/// How many bytes of heavy requests are worked on at a time: twice the largest body. What a request takes in memory is a
/// multiple of its size (see `docs/decisions`), so this bounds all of them together.
const ROOM: usize = 6 << 20;

/// The room for heavy requests.
#[derive(Clone, Debug)]
pub struct Heavy(Arc<Semaphore>);

impl Default for Heavy {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM / UNIT)))
    }
}

impl Heavy {
    /// Does `work`, of that many bytes, away from the threads that serve connections, as soon as there is room.
    ///
    /// # Errors
    /// 500 when it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let permits = u32::try_from(bytes.min(ROOM).div_ceil(UNIT)).unwrap_or(1);
        let failed = |error: &dyn std::fmt::Display| ApiError::internal(&format!("a large request: {error}"));
        let room = Arc::clone(&self.0).acquire_many_owned(permits).await.map_err(|e| failed(&e))?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(room);
            done
        });
        done.await.map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn heavy_work_runs_elsewhere_and_only_so_much_at_a_time() {
        let heavy = Heavy::default();
        let here = std::thread::current().id();
        let there = heavy.run(LIGHT + 1, || std::thread::current().id()).await.unwrap();
        assert_ne!(here, there);

        // Two of the largest fill the room; a third one waits until the first is done.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let first = tokio::spawn({
            let heavy = heavy.clone();
            async move { heavy.run(usize::MAX, move || held.recv().is_ok()).await.unwrap() }
        });
        while heavy.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let mut second = Box::pin(heavy.run(1, || ()));
        assert!(futures::poll!(&mut second).is_pending());
        hold.send(()).unwrap();
        assert!(first.await.unwrap());
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_its_room_back() {
        let heavy = Heavy::default();
        let fails = || -> () { std::panic::resume_unwind(Box::new("on purpose")) };
        assert_eq!(heavy.run(usize::MAX, fails).await.unwrap_err().code(), 500);
        heavy.run(usize::MAX, || ()).await.unwrap();
    }
}
