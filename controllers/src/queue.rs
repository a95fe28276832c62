//! The keys a controller has to look at: each is there once, is given to one worker at a time, and
//! not before it is due.
//!
//! kube's `Controller` looks its object up before it calls the reconciler, knows no key without an
//! object and no wait per key; this queue is what is left when those are taken away.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::watch::world::Key;

/// When a key is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// After this time from now.
    After(Duration),
    /// After this time from now, or as soon as the server [answers](Queue::answered) again.
    Answer(Duration),
    /// When no such call has come for `quiet`, but at the latest `longest` after the first.
    Quiet {
        /// The quiet time.
        quiet: Duration,
        /// The longest wait.
        longest: Duration,
    },
}

#[derive(Debug, Default)]
struct Entry {
    due: Option<Instant>,
    first: Option<Instant>,
    gathering: bool,
    /// Whether an answer makes it due.
    unanswered: bool,
    running: bool,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    heap: BinaryHeap<Reverse<(Instant, Key)>>,
    added: u64,
}

/// The queue of one controller.
#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

impl Inner {
    /// Gives whether the key is due at another time than before.
    fn add(&mut self, key: Key, due: Due, now: Instant) -> bool {
        self.added += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        let at = match due {
            Due::After(wait) | Due::Answer(wait) => {
                let asked = now + wait;
                let at = entry.due.map_or(asked, |due| due.min(asked));
                if at == asked {
                    entry.gathering = false;
                    entry.unanswered = matches!(due, Due::Answer(_));
                }
                at
            }
            Due::Quiet { quiet, longest } => match entry.due {
                Some(due) if !entry.gathering => due.min(now + quiet),
                before => {
                    let first = entry.first.filter(|_| before.is_some()).unwrap_or(now);
                    entry.first = Some(first);
                    entry.gathering = true;
                    (now + quiet).min(first + longest)
                }
            },
        };
        let known = entry.due.replace(at) == Some(at);
        if !entry.running && !known {
            self.heap.push(Reverse((at, key)));
        }
        !known
    }

    /// A key that is due, or when the next one will be.
    fn pop(&mut self, now: Instant) -> Result<Key, Option<Instant>> {
        while let Some(Reverse((at, _))) = self.heap.peek() {
            if *at > now {
                return Err(Some(*at));
            }
            let Some(Reverse((at, key))) = self.heap.pop() else { break };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.running || entry.due != Some(at) {
                continue;
            }
            *entry = Entry { running: true, ..Entry::default() };
            return Ok(key);
        }
        Err(None)
    }

    /// Keys that wait for an answer are due; gives whether there are any.
    fn answered(&mut self, now: Instant) -> bool {
        let mut any = false;
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.unanswered) {
            (entry.unanswered, any) = (false, true);
            if entry.due.is_some_and(|due| due > now) {
                entry.due = Some(now);
                if !entry.running {
                    self.heap.push(Reverse((now, key.clone())));
                }
            }
        }
        any
    }

    /// Gives whether the key is wanted again.
    fn done(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.running = false;
        if let Some(at) = entry.due {
            self.heap.push(Reverse((at, key.clone())));
            true
        } else {
            self.entries.remove(key);
            false
        }
    }
}

impl Queue {
    /// Asks for a look at `key`. The earliest time that was asked for counts, except that a gathering
    /// wait is prolonged by a gathering call.
    pub fn add(&self, key: Key, due: Due) {
        if self.inner.lock().add(key, due, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// The next key that is due. Whoever gets it has to say when it is [`done`](Self::done).
    pub async fn next(&self) -> Key {
        loop {
            let changed = self.changed.notified();
            let (popped, others) = {
                let mut inner = self.inner.lock();
                (inner.pop(Instant::now()), !inner.heap.is_empty())
            };
            match popped {
                Ok(key) => {
                    // A wake-up is for one worker; somebody has to wait for the other keys.
                    if others {
                        self.changed.notify_one();
                    }
                    return key;
                }
                Err(None) => changed.await,
                Err(Some(at)) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
            }
        }
    }

    /// The server answers again after an outage: what waits for that is due.
    pub fn answered(&self) {
        if self.inner.lock().answered(Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// A key has been looked at.
    pub fn done(&self, key: &Key) {
        if self.inner.lock().done(key) {
            self.changed.notify_one();
        }
    }

    /// How many keys wait or are being looked at, and how many calls came in all.
    #[must_use]
    pub fn depth(&self) -> (usize, u64) {
        let inner = self.inner.lock();
        (inner.entries.len(), inner.added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::world::Controller;

    fn key(name: &str) -> Key {
        Key { controller: Controller::Slices, namespace: "ns".into(), name: name.into() }
    }

    const NOW: Due = Due::After(Duration::ZERO);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_key_is_given_once_and_again_only_after_it_is_done() {
        let (mut queue, now) = (Inner::default(), Instant::now());
        queue.add(key("a"), NOW, now);
        queue.add(key("a"), NOW, now);
        assert_eq!(queue.pop(now), Ok(key("a")));
        queue.add(key("a"), NOW, now);
        assert_eq!(queue.pop(now + ms(9000)), Err(None));
        assert!(queue.done(&key("a")));
        assert_eq!(queue.pop(now), Ok(key("a")));
        assert!(!queue.done(&key("a")));
        assert!(queue.entries.is_empty());
    }

    #[test]
    fn the_earlier_time_counts() {
        let (mut queue, now) = (Inner::default(), Instant::now());
        queue.add(key("a"), Due::After(ms(400)), now);
        queue.add(key("a"), Due::After(ms(900)), now);
        queue.add(key("b"), Due::After(ms(200)), now);
        assert_eq!(queue.pop(now), Err(Some(now + ms(200))));
        assert_eq!(queue.pop(now + ms(200)), Ok(key("b")));
        assert_eq!(queue.pop(now + ms(399)), Err(Some(now + ms(400))));
        assert_eq!(queue.pop(now + ms(400)), Ok(key("a")));
    }

    #[test]
    fn an_answer_makes_due_what_waits_for_one() {
        let (mut queue, now) = (Inner::default(), Instant::now());
        queue.add(key("a"), Due::Answer(ms(9000)), now);
        queue.add(key("b"), Due::After(ms(9000)), now);
        queue.add(key("c"), Due::Answer(ms(9000)), now);
        queue.add(key("c"), Due::After(ms(8000)), now);
        queue.add(key("d"), NOW, now);
        assert_eq!(queue.pop(now), Ok(key("d")));
        queue.add(key("d"), Due::Answer(ms(9000)), now);
        assert!(queue.answered(now + ms(10)));
        assert!(!queue.answered(now + ms(10)));
        assert_eq!(queue.pop(now + ms(10)), Ok(key("a")));
        assert_eq!(queue.pop(now + ms(10)), Err(Some(now + ms(8000))));
        assert!(queue.done(&key("d")));
        assert_eq!(queue.pop(now + ms(10)), Ok(key("d")));
        assert_eq!(queue.pop(now + ms(8000)), Ok(key("c")));
        assert_eq!(queue.pop(now + ms(8999)), Err(Some(now + ms(9000))));
    }

    #[test]
    fn gathering_waits_for_quiet_but_not_for_ever() {
        let (mut queue, now) = (Inner::default(), Instant::now());
        let gather = Due::Quiet { quiet: ms(100), longest: ms(500) };
        for i in 0..20 {
            queue.add(key("a"), gather, now + ms(40 * i));
        }
        assert_eq!(queue.entries[&key("a")].due, Some(now + ms(500)));
        queue.add(key("b"), gather, now);
        queue.add(key("b"), gather, now + ms(50));
        assert_eq!(queue.entries[&key("b")].due, Some(now + ms(150)));
        queue.add(key("b"), NOW, now + ms(60));
        queue.add(key("b"), gather, now + ms(70));
        assert_eq!(queue.pop(now + ms(60)), Ok(key("b")));
    }
}
