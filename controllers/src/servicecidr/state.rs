//! What is remembered of the ranges: which wait for a look, what was seen and said of them, and when a look is tried again.
//!
//! Pure but for [`Recheck`]: times come in, times go out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use futures::channel::mpsc;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::RequestError;
use crate::backoff::Backoff;
use crate::text::Text;

/// Who holds a range is said once in so long at most: it may have many Services that go one after the other.
const SAID_EVERY: Duration = Duration::from_secs(1);

/// What is remembered of all ranges.
#[derive(Debug, Default)]
pub(crate) struct State {
    ranges: HashMap<Text, RangeState>,
    /// Those that wait for a look, and since when.
    waiting: BTreeMap<Text, Instant>,
    added: u64,
}

/// What is remembered of one range.
#[derive(Debug, Default)]
struct RangeState {
    version: String,
    /// The version on which we wrote last: what is known of it is out of date until the watch tells of the write.
    written: Option<String>,
    /// When it was last said who holds it.
    said: Option<Instant>,
    backoff: Backoff,
}

impl State {
    /// A look at a range is called for.
    pub(crate) fn ask(&mut self, name: &Text, now: Instant) {
        if !self.waiting.contains_key(name) {
            self.waiting.insert(name.clone(), now);
            self.added += 1;
        }
    }

    /// A look at a range begins; gives for how long it has waited.
    pub(crate) fn start(&mut self, name: &Text, now: Instant) -> Duration {
        let Some(since) = self.waiting.remove(name) else {
            // It is looked at again, as was said when the last look ended.
            self.added += 1;
            return Duration::ZERO;
        };
        now.saturating_duration_since(since)
    }

    /// How many ranges wait for a look, and how often one was called for in all.
    #[must_use]
    pub(crate) fn depth(&self) -> (usize, u64) {
        (self.waiting.len(), self.added)
    }

    /// Takes note of a range's version; gives whether that is new.
    pub(crate) fn observe(&mut self, name: &Text, version: &str) -> bool {
        let state = self.ranges.entry(name.clone()).or_default();
        let new = state.version != version;
        if new {
            version.clone_into(&mut state.version);
        }
        new
    }

    /// A range was written on this version of it.
    pub(crate) fn wrote(&mut self, name: &Text, version: &str) {
        // The watch may have told already that it is gone.
        if let Some(state) = self.ranges.get_mut(name) {
            state.written = Some(version.to_owned());
        }
    }

    /// Whether the watch has still to tell of what was written on this version of a range: until then there is nothing to
    /// decide, and a write would be refused.
    #[must_use]
    pub(crate) fn awaits_echo(&self, name: &Text, version: &str) -> bool {
        self.ranges.get(name).is_some_and(|state| state.written.as_deref() == Some(version))
    }

    /// The server was put back: a version that was written on may come again.
    pub(crate) fn doubt(&mut self) {
        self.ranges.values_mut().for_each(|state| state.written = None);
    }

    /// Asks whether it may be said again who holds a range; that it is is taken note of.
    ///
    /// # Errors
    /// For how long it may not.
    pub(crate) fn say(&mut self, name: &Text, now: Instant) -> Result<(), Duration> {
        let state = self.ranges.entry(name.clone()).or_default();
        let left =
            state.said.map_or(Duration::ZERO, |said| (said + SAID_EVERY).saturating_duration_since(now));
        if !left.is_zero() {
            return Err(left);
        }
        state.said = Some(now);
        Ok(())
    }

    /// A look at a range failed; gives how long to wait before the next one.
    pub(crate) fn failed(&mut self, name: &Text, error: &RequestError) -> Duration {
        self.ranges.entry(name.clone()).or_default().backoff.after(error)
    }

    /// A look at a range did not fail.
    pub(crate) fn worked(&mut self, name: &Text) {
        if let Some(state) = self.ranges.get_mut(name) {
            state.backoff.reset();
        }
    }

    /// A range is gone.
    pub(crate) fn forget(&mut self, name: &Text) {
        self.ranges.remove(name);
        self.waiting.remove(name);
    }

    /// These are all the ranges that there are.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&Text) -> bool) {
        self.ranges.retain(|name, _| is_there(name));
        self.waiting.retain(|name, _| is_there(name));
    }
}

/// Calls for a look at all ranges: they depend on each other, and there are few.
#[derive(Clone, Debug)]
pub(crate) struct Recheck {
    calls: Arc<Mutex<mpsc::Sender<()>>>,
    /// Whether some range waits for addresses to go.
    waits: Arc<AtomicBool>,
}

impl Recheck {
    /// A way to call, and the calls; those that come together are one.
    #[must_use]
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (calls, called) = mpsc::channel(0);
        (Self { calls: Arc::new(Mutex::new(calls)), waits: Arc::default() }, called)
    }

    /// All ranges are looked at.
    pub(crate) fn all(&self) {
        // One that waits already is as good.
        let _ = self.calls.lock().try_send(());
    }

    /// A range waits for addresses to go: each that goes matters from now on.
    pub(super) fn wait_for_addresses(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// An address came or went: that matters to ranges that are being removed.
    pub(crate) fn address_changed(&self) {
        if self.waits.load(Ordering::Relaxed) {
            self.all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_once_until_it_is_looked_at() {
        let (mut state, begun) = (State::default(), Instant::now());
        let (a, b): (Text, Text) = ("a".into(), "b".into());
        let second = Duration::from_secs(1);
        state.ask(&a, begun);
        state.ask(&a, begun + second);
        state.ask(&b, begun);
        assert_eq!(state.depth(), (2, 2));
        assert_eq!(state.start(&a, begun + 3 * second), 3 * second);
        // What is called for during a look is looked at again.
        state.ask(&a, begun + 3 * second);
        assert_eq!(state.depth(), (2, 3));
        assert_eq!(state.start(&a, begun + 4 * second), second);
        assert_eq!(state.start(&a, begun + 9 * second), Duration::ZERO, "a later look, as was said");
        assert_eq!(state.depth(), (1, 4));
        state.retain(|name| *name != b);
        assert_eq!(state.depth(), (0, 4));
    }

    #[test]
    fn what_was_written_on_a_version_is_awaited_until_another_one_comes() {
        let (mut state, name) = (State::default(), "a".into());
        state.observe(&name, "5");
        assert!(!state.awaits_echo(&name, "5"));
        state.wrote(&name, "5");
        assert!(state.awaits_echo(&name, "5") && !state.awaits_echo(&name, "6"));
        state.doubt();
        assert!(
            !state.awaits_echo(&name, "5"),
            "the same version comes again from a server that was put back"
        );
        state.forget(&name);
        state.wrote(&name, "5");
        assert!(state.ranges.is_empty(), "of a range that is gone nothing is kept");
    }

    #[test]
    fn who_holds_a_range_is_said_once_a_second() {
        let (mut state, begun, name) = (State::default(), Instant::now(), "a".into());
        assert_eq!(state.say(&name, begun), Ok(()));
        let half = Duration::from_millis(500);
        assert_eq!(state.say(&name, begun + half), Err(half));
        assert_eq!(state.say(&name, begun + 2 * half), Ok(()));
    }
}
