//! How many requests are under way at once: as many as the server takes.
//!
//! Owns that number. A request that is refused because there are too many is sent again later, but as
//! long as the others go on as before it is refused again, and an API server with priority and
//! fairness asks for longer waits the more it has to refuse. So the number is halved with a refusal
//! and grows again with what is taken. Which request goes next is not decided here: it is the first
//! that waits.

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// More than the workers send at once: there is no limit before the server refuses something.
const MOST: usize = 1024;
/// So often every permit has to have been of use before there is one more: what is refused has to wait
/// for a second at least, so it should be little.
const USES: usize = 10;

/// Permits for requests: as many as the server takes at a time.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    under_way: usize,
    /// Permits that are gone but still held.
    owed: usize,
    /// Requests that were taken since the limit changed.
    taken: usize,
    /// Counts the cuts: of what was sent before one, a refusal says nothing new.
    round: u64,
}

/// What the server made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Taken,
    Refused,
    Unknown,
}

/// Held by a request that is under way; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    limit: &'a ConcurrencyLimit,
    round: u64,
    admission: Admission,
}

impl ConcurrencyLimit {
    pub(crate) fn new() -> Self {
        let state = State { limit: MOST, under_way: 0, owed: 0, taken: 0, round: 0 };
        Self { free: Semaphore::new(MOST), state: Mutex::new(state) }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Permit<'_> {
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
        let mut state = self.state.lock();
        state.under_way += 1;
        Permit { limit: self, round: state.round, admission: Admission::Unknown }
    }

    fn leave(&self, round: u64, admission: Admission) {
        let mut state = self.state.lock();
        let mut freed = 1;
        match admission {
            Admission::Refused if round == state.round => {
                let limit = (state.under_way.min(state.limit) / 2).max(1);
                state.owed += state.limit - limit;
                state.limit = limit;
                state.taken = 0;
                state.round += 1;
                state.owed -= self.free.forget_permits(state.owed);
            }
            Admission::Taken if state.limit < MOST => {
                state.taken += 1;
                if state.taken >= state.limit * USES {
                    state.taken = 0;
                    state.limit += 1;
                    freed += 1;
                }
            }
            Admission::Taken | Admission::Refused | Admission::Unknown => {}
        }
        state.under_way -= 1;
        let kept = state.owed.min(freed);
        state.owed -= kept;
        self.free.add_permits(freed - kept);
    }
}

impl Permit<'_> {
    /// The server took the request, whatever it answered.
    pub(crate) fn taken(&mut self) {
        self.admission = Admission::Taken;
    }

    /// The server had no time for it.
    pub(crate) fn refused(&mut self) {
        self.admission = Admission::Refused;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.limit.leave(self.round, self.admission);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn acquire(limit: &ConcurrencyLimit, count: usize) -> Vec<Permit<'_>> {
        (0..count).map_while(|_| limit.acquire().now_or_never()).collect()
    }

    fn refuse(permits: Vec<Permit<'_>>) {
        for mut permit in permits {
            permit.refused();
        }
    }

    #[test]
    fn a_refusal_halves_what_is_under_way_once_for_all_that_were_sent_together() {
        let limit = ConcurrencyLimit::new();
        refuse(acquire(&limit, 16));
        assert_eq!(acquire(&limit, 100).len(), 8);
        refuse(acquire(&limit, 100));
        assert_eq!(acquire(&limit, 100).len(), 4);
        for _ in 0..9 {
            refuse(acquire(&limit, 100));
        }
        assert_eq!(acquire(&limit, 100).len(), 1, "one is always tried");
    }

    #[test]
    fn what_is_taken_makes_room_for_more() {
        let limit = ConcurrencyLimit::new();
        refuse(acquire(&limit, 4));
        for most in 2..40 {
            for _ in 0..USES {
                let mut sent = acquire(&limit, 100);
                assert_eq!(sent.len(), most);
                sent.iter_mut().for_each(Permit::taken);
            }
        }
    }

    #[test]
    fn permits_that_are_held_when_the_limit_falls_are_not_given_out_again() {
        let limit = ConcurrencyLimit::new();
        let mut sent = acquire(&limit, 10);
        refuse(sent.split_off(9));
        assert!(acquire(&limit, 100).is_empty(), "nine are under way and five may be");
        sent.truncate(4);
        assert_eq!(acquire(&limit, 100).len(), 1);
        drop(sent);
        assert_eq!(acquire(&limit, 100).len(), 5);
    }
}
