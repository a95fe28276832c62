//! When a Service is written: what takes an endpoint out goes at once, what brings endpoints in is gathered.
//!
//! Each write of a slice goes to every node of the cluster, so writes are what a roll-out costs. The rule, for each key:
//!
//! * what takes an endpoint out is written at once, but not within [`BURST`] of the last write;
//! * what brings endpoints in is written at once too if nothing was written of late, and otherwise [`STEP`] after the
//!   last write for each write of the last second, at most [`STEPS`] of them;
//! * whatever is written takes along all that waits.
//!
//! Pure: times come in, times go out.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use crate::controller::Key;

/// What takes endpoints out is gathered for so long after a write.
pub const BURST: Duration = Duration::from_millis(20);
/// What brings endpoints in waits for so long after a write, for each write of the last second.
pub const STEP: Duration = Duration::from_micros(62_500);
/// At most so many of these.
pub const STEPS: usize = 4;
/// Writes count for so long.
const WINDOW: Duration = Duration::from_secs(1);

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// At once: the Service itself changed, or what its nodes say.
    Now,
    /// An endpoint that could be used is not to be used any more.
    Out,
    /// Endpoints come, or become ready, or change otherwise.
    In,
    /// When no further such call comes: somebody writes slices, or an owner may be gone.
    Settle,
}

/// What was written of one key of late.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// The last writes, the latest first.
    writes: [Option<Instant>; STEPS],
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

impl Recent {
    fn is_over(&self, now: Instant) -> bool {
        self.writes[0].is_none_or(|last| now.duration_since(last) >= WINDOW)
            && self.rests_until.is_none_or(|until| until <= now)
    }
}

/// What was written of all keys of late.
#[derive(Debug, Default)]
pub struct Pacing {
    recent: HashMap<Key, Recent>,
    /// The order in which they can be forgotten.
    order: VecDeque<(Instant, Key)>,
}

impl Pacing {
    /// When a key that is called for now is due.
    #[must_use]
    pub fn due(&self, key: &Key, urgency: Urgency, now: Instant) -> Instant {
        let Some(recent) = self.recent.get(key) else { return now };
        let Some(last) = recent.writes[0] else { return self.rested(key, now) };
        let due = match urgency {
            Urgency::Now | Urgency::Settle => now,
            Urgency::Out => last + BURST,
            Urgency::In => {
                let of_late = recent.writes.iter().flatten().filter(|at| now.duration_since(**at) < WINDOW);
                last + STEP * u32::try_from(of_late.count()).unwrap_or_default()
            }
        };
        self.rested(key, due.max(now))
    }

    /// A time, or when the key has rested if that is later.
    #[must_use]
    pub fn rested(&self, key: &Key, at: Instant) -> Instant {
        let until = self.recent.get(key).and_then(|recent| recent.rests_until);
        until.map_or(at, |until| until.max(at))
    }

    /// So many writes of a key are sent.
    pub fn wrote(&mut self, key: &Key, writes: usize, now: Instant) {
        self.forget(now);
        let recent = self.recent.entry(key.clone()).or_default();
        for _ in 0..writes.min(STEPS) {
            recent.writes.rotate_right(1);
            recent.writes[0] = Some(now);
        }
        self.order.push_back((now + WINDOW, key.clone()));
    }

    /// A key is left alone for a while.
    pub fn rest(&mut self, key: &Key, rest: Duration, now: Instant) {
        self.forget(now);
        self.recent.entry(key.clone()).or_default().rests_until = Some(now + rest);
        self.order.push_back((now + rest.max(WINDOW), key.clone()));
    }

    /// Forgets what counts no longer.
    fn forget(&mut self, now: Instant) {
        while let Some((_, key)) = self.order.pop_front_if(|(at, _)| *at <= now) {
            if self.recent.get(&key).is_some_and(|recent| recent.is_over(now)) {
                self.recent.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn key() -> Key {
        Key::new(Controller::Slices, &"ns".into(), &"a".into())
    }

    /// Writes whenever something is due; gives how often, and the longest wait.
    fn play(events: &[(u64, Urgency)]) -> (usize, Duration) {
        let (mut pacing, begun) = (Pacing::default(), Instant::now());
        let (mut due, mut since): (Option<Instant>, Option<Instant>) = (None, None);
        let (mut writes, mut longest) = (0, Duration::ZERO);
        let end = events.last().map_or(0, |(at, _)| *at) + 2000;
        let mut events = events.iter().peekable();
        for now in (0..end).map(|at| begun + ms(at)) {
            while let Some((_, urgency)) = events.next_if(|(at, _)| begun + ms(*at) <= now) {
                let at = pacing.due(&key(), *urgency, now);
                due = Some(due.map_or(at, |due| due.min(at)));
                since.get_or_insert(now);
            }
            if due.is_some_and(|due| due <= now) {
                pacing.wrote(&key(), 1, now);
                longest = longest.max(since.map_or(Duration::ZERO, |since| now.duration_since(since)));
                (due, since, writes) = (None, None, writes + 1);
            }
        }
        (writes, longest)
    }

    #[test]
    fn the_first_change_never_waits() {
        assert_eq!(play(&[(0, Urgency::In)]), (1, Duration::ZERO));
        assert_eq!(play(&[(0, Urgency::Out), (1500, Urgency::In)]), (2, Duration::ZERO));
    }

    #[test]
    fn bursts_of_what_goes_are_gathered_for_no_longer_than_20_ms() {
        let burst: Vec<_> = (0..100).map(|at| (at, Urgency::Out)).collect();
        let (writes, longest) = play(&burst);
        assert!(writes <= 6, "{writes} writes in 100 ms");
        assert!(longest <= BURST, "{longest:?}");
    }

    #[test]
    fn a_roll_out_costs_four_writes_a_second() {
        // 350 pods over 8 s, each with an address and, a little later, ready.
        let roll_out: Vec<_> = (0..700).map(|n| (n * 8000 / 700, Urgency::In)).collect();
        let (writes, longest) = play(&roll_out);
        assert!((32..=40).contains(&writes), "{writes} writes");
        assert!(longest <= STEP * 4, "{longest:?}");
    }

    #[test]
    fn what_was_written_is_forgotten() {
        let (mut pacing, begun) = (Pacing::default(), Instant::now());
        for n in 0..1000_u64 {
            let key = Key { name: n.to_string().into(), ..key() };
            pacing.wrote(&key, 3, begun + ms(n * 10));
        }
        assert!(pacing.recent.len() <= 101 && pacing.order.len() <= 101, "{}", pacing.recent.len());
    }

    #[test]
    fn a_key_rests_whatever_calls_for_it() {
        let (mut pacing, now) = (Pacing::default(), Instant::now());
        pacing.rest(&key(), ms(300), now);
        for urgency in [Urgency::Now, Urgency::Out, Urgency::In] {
            assert_eq!(pacing.due(&key(), urgency, now), now + ms(300));
        }
        assert_eq!(pacing.due(&key(), Urgency::In, now + ms(400)), now + ms(400));
    }
}
