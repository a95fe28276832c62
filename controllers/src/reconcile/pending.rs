//! The keys of a controller that have to be looked at, and from when on.
//!
//! kube's scheduler holds the keys and wakes up for them; it only ever brings a key forward. What else decides over the
//! time of a look is here: gathering, rests, and waits for the end of an outage. Pure: times come in, times go out.

use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::pacing::{Pacing, Urgency};
use crate::controller::Key;

/// Calls that may be followed by more are answered when none has come for so long.
const QUIET: Duration = Duration::from_millis(100);
/// But no later than this.
const LONGEST: Duration = Duration::from_secs(1);

/// What has to happen after a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something calls for the key.
    #[default]
    Idle,
    /// Another look after this time.
    After(Duration),
    /// Another look after this time, or as soon as the server answers again.
    Answer(Duration),
}

/// Whether a key may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Now.
    Now,
    /// Not before this time.
    NotBefore(Instant),
    /// Nobody asks for it.
    Never,
}

#[derive(Debug, Default)]
struct PendingKey {
    due: Option<Instant>,
    /// When it was first called for since the last look.
    called: Option<Instant>,
    /// Since when it gathers.
    first: Option<Instant>,
    gathering: bool,
    /// Whether an answer makes it due.
    unanswered: bool,
    running: bool,
    /// For how long it gathered, and then was due, when the look began.
    waited: Waited,
}

/// How long a key waited for a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// From the first call until it was due.
    pub gathering: Duration,
    /// From then on.
    pub queued: Duration,
}

/// The keys that wait or are looked at.
#[derive(Debug, Default)]
pub struct Pending {
    entries: HashMap<Key, PendingKey>,
    pacing: Pacing,
    /// `--…-batch-period`: changes of pods wait for so long.
    batch: Duration,
    added: u64,
}

impl Pending {
    /// No keys; changes of pods wait for `batch`.
    #[must_use]
    pub fn new(batch: Duration) -> Self {
        Self { batch, ..Self::default() }
    }

    /// A key is called for; gives when it has to be woken up for, if that is not known yet.
    #[must_use]
    pub fn ask(&mut self, key: &Key, urgency: Urgency, now: Instant) -> Option<Instant> {
        self.added += 1;
        self.entries.entry(key.clone()).or_default().called.get_or_insert(now);
        let batched = !self.batch.is_zero();
        match urgency {
            Urgency::Settle if self.batch < QUIET => self.settle(key, now),
            Urgency::Out | Urgency::In | Urgency::Settle if batched => {
                let at = self.pacing.rested(key, now + self.batch);
                self.at(key, at, false)
            }
            urgency => {
                let at = self.pacing.due(key, urgency, now);
                self.at(key, at, false)
            }
        }
    }

    fn at(&mut self, key: &Key, at: Instant, unanswered: bool) -> Option<Instant> {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.due.is_some_and(|due| due <= at) {
            return None;
        }
        (entry.due, entry.gathering, entry.unanswered) = (Some(at), false, unanswered);
        (!entry.running).then_some(at)
    }

    fn settle(&mut self, key: &Key, now: Instant) -> Option<Instant> {
        let at = self.pacing.rested(key, now + QUIET);
        let entry = self.entries.entry(key.clone()).or_default();
        let at = match entry.due {
            Some(due) if !entry.gathering => due.min(at),
            before => {
                let first = *entry.first.get_or_insert(now);
                entry.gathering = true;
                let at = at.min(first + LONGEST);
                if before.is_some() {
                    // The scheduler wakes up for the earlier time anyhow; `start` gives it the later one then.
                    entry.due = Some(at);
                    return None;
                }
                at
            }
        };
        let known = entry.due.replace(at) == Some(at);
        (!known && !entry.running).then_some(at)
    }

    /// The scheduler woke up for a key.
    #[must_use]
    pub fn start(&mut self, key: &Key, now: Instant) -> Start {
        let Some(entry) = self.entries.get_mut(key) else { return Start::Never };
        match entry.due {
            Some(due) if due > now => Start::NotBefore(due),
            Some(due) if !entry.running => {
                let gathering =
                    entry.called.map_or(Duration::ZERO, |called| due.saturating_duration_since(called));
                let waited = Waited { gathering, queued: now - due };
                *entry = PendingKey { running: true, waited, ..PendingKey::default() };
                Start::Now
            }
            _ => Start::Never,
        }
    }

    /// A look ended; gives when the key has to be woken up for next, if it has to.
    #[must_use]
    pub fn done(&mut self, key: &Key, next: Next, now: Instant) -> Option<Instant> {
        let entry = self.entries.get_mut(key)?;
        entry.running = false;
        let called_for = entry.due;
        let again = match next {
            Next::Idle => None,
            Next::After(wait) => self.at(key, now + wait, false),
            Next::Answer(wait) => self.at(key, now + wait, true),
        };
        if again.is_none() && called_for.is_none() {
            self.entries.remove(key);
        }
        again.or(called_for)
    }

    /// The server answers again after an outage: gives the keys that wait for that, which are due.
    pub fn answered(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.unanswered) {
            entry.unanswered = false;
            if entry.due.is_some_and(|due| due > now) {
                entry.due = Some(now);
                if !entry.running {
                    due.push(key.clone());
                }
            }
        }
        due
    }

    /// So many writes of a key are sent.
    pub fn wrote(&mut self, key: &Key, writes: usize, now: Instant) {
        self.pacing.wrote(key, writes, now);
    }

    /// A key is left alone for a while.
    pub fn rest(&mut self, key: &Key, rest: Duration, now: Instant) {
        self.pacing.rest(key, rest, now);
        let until = now + rest;
        if let Some(due) = self.entries.get_mut(key).and_then(|entry| entry.due.as_mut()) {
            *due = until.max(*due);
        }
    }

    /// For how long a key that is looked at waited before.
    #[must_use]
    pub fn waited(&self, key: &Key) -> Waited {
        self.entries.get(key).map(|entry| entry.waited).unwrap_or_default()
    }

    /// How many keys are due and not looked at yet, and how many calls came in all.
    #[must_use]
    pub fn depth(&self, now: Instant) -> (usize, u64) {
        let is_due = |entry: &&PendingKey| !entry.running && entry.due.is_some_and(|due| due <= now);
        (self.entries.values().filter(is_due).count(), self.added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;

    fn key(name: &str) -> Key {
        Key::new(Controller::Slices, &"ns".into(), &name.into())
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_key_is_looked_at_once_and_again_only_after_that() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        assert_eq!(pending.ask(&key("a"), Urgency::Now, now), Some(now));
        assert_eq!(pending.ask(&key("a"), Urgency::Now, now), None);
        assert_eq!(pending.start(&key("a"), now), Start::Now);
        assert_eq!(pending.ask(&key("a"), Urgency::Now, now + ms(1)), None, "it is running");
        assert_eq!(pending.start(&key("a"), now + ms(1)), Start::Never);
        assert_eq!(pending.done(&key("a"), Next::Idle, now + ms(2)), Some(now + ms(1)));
        assert_eq!(pending.start(&key("a"), now + ms(2)), Start::Now);
        assert_eq!(pending.done(&key("a"), Next::Idle, now + ms(2)), None);
        assert_eq!(pending.start(&key("a"), now + ms(3)), Start::Never);
        assert_eq!(pending.depth(now), (0, 3));
    }

    #[test]
    fn only_what_is_due_and_not_looked_at_is_in_the_queue() {
        let (mut pending, now) = (Pending::new(ms(500)), Instant::now());
        let _ = pending.ask(&key("now"), Urgency::Now, now);
        let _ = pending.ask(&key("gathers"), Urgency::In, now);
        assert_eq!(pending.depth(now), (1, 2));
        assert_eq!(pending.depth(now + ms(500)), (2, 2));
        assert_eq!(pending.start(&key("now"), now), Start::Now);
        assert_eq!(pending.depth(now), (0, 2), "it is looked at");
        let _ = pending.done(&key("now"), Next::After(ms(60_000)), now);
        assert_eq!(pending.depth(now), (0, 2), "it is looked at again in a minute");
        assert_eq!(pending.depth(now + ms(60_000)), (2, 2));
    }

    #[test]
    fn how_long_a_key_waited_is_told_apart() {
        let (mut pending, now) = (Pending::new(ms(500)), Instant::now());
        let _ = pending.ask(&key("a"), Urgency::In, now);
        let _ = pending.ask(&key("a"), Urgency::In, now + ms(100));
        assert_eq!(pending.start(&key("a"), now + ms(503)), Start::Now);
        assert_eq!(pending.waited(&key("a")), Waited { gathering: ms(500), queued: ms(3) });
        let _ = pending.done(&key("a"), Next::After(ms(10)), now + ms(600));
        assert_eq!(pending.start(&key("a"), now + ms(611)), Start::Now);
        assert_eq!(pending.waited(&key("a")), Waited { gathering: ms(0), queued: ms(1) });
    }

    #[test]
    fn the_earlier_time_counts() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let _ = pending.ask(&key("a"), Urgency::Now, now);
        assert_eq!(pending.start(&key("a"), now), Start::Now);
        assert_eq!(pending.done(&key("a"), Next::After(ms(900)), now), Some(now + ms(900)));
        assert_eq!(pending.start(&key("a"), now + ms(899)), Start::NotBefore(now + ms(900)));
        assert_eq!(pending.ask(&key("a"), Urgency::In, now + ms(10)), Some(now + ms(10)));
        assert_eq!(pending.start(&key("a"), now + ms(10)), Start::Now);
    }

    #[test]
    fn an_answer_makes_due_what_waits_for_one() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        for (name, next) in [("a", Next::Answer(ms(9000))), ("b", Next::After(ms(9000)))] {
            let _ = pending.ask(&key(name), Urgency::Now, now);
            assert_eq!(pending.start(&key(name), now), Start::Now);
            assert_eq!(pending.done(&key(name), next, now), Some(now + ms(9000)));
        }
        assert_eq!(pending.answered(now + ms(10)), [key("a")]);
        assert!(pending.answered(now + ms(10)).is_empty());
        assert_eq!(pending.start(&key("a"), now + ms(10)), Start::Now);
        assert_eq!(pending.start(&key("b"), now + ms(10)), Start::NotBefore(now + ms(9000)));
    }

    #[test]
    fn gathering_waits_for_quiet_but_not_for_ever() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        for i in 0..60 {
            let _ = pending.ask(&key("a"), Urgency::Settle, now + ms(40 * i));
        }
        assert_eq!(pending.start(&key("a"), now + ms(999)), Start::NotBefore(now + ms(1000)));
        assert_eq!(pending.ask(&key("b"), Urgency::Settle, now), Some(now + ms(100)));
        assert_eq!(pending.ask(&key("b"), Urgency::Settle, now + ms(50)), None);
        assert_eq!(pending.start(&key("b"), now + ms(100)), Start::NotBefore(now + ms(150)));
        assert_eq!(pending.ask(&key("b"), Urgency::Now, now + ms(110)), Some(now + ms(110)));
        let _ = pending.ask(&key("b"), Urgency::Settle, now + ms(111));
        assert_eq!(pending.start(&key("b"), now + ms(111)), Start::Now);
    }

    #[test]
    fn a_batch_period_holds_back_changes_of_pods_alone() {
        let (mut pending, now) = (Pending::new(ms(500)), Instant::now());
        for urgency in [Urgency::Out, Urgency::In, Urgency::Settle] {
            let name = format!("{urgency:?}");
            assert_eq!(pending.ask(&key(&name), urgency, now), Some(now + ms(500)));
        }
        assert_eq!(pending.ask(&key("now"), Urgency::Now, now), Some(now));
    }

    #[test]
    fn what_rests_is_not_looked_at() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let _ = pending.ask(&key("a"), Urgency::In, now);
        assert_eq!(pending.start(&key("a"), now), Start::Now);
        let _ = pending.ask(&key("a"), Urgency::Out, now);
        pending.rest(&key("a"), ms(300), now);
        assert_eq!(pending.done(&key("a"), Next::Idle, now), Some(now + ms(300)));
        assert_eq!(pending.start(&key("a"), now + ms(299)), Start::NotBefore(now + ms(300)));
    }
}
