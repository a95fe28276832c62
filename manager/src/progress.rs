//! How far something has come that takes longer than a second: one line on the standard error, if that is a terminal.
//!
//! It is taken away again at the end, so that nothing of it is in what is kept.

use std::{
    io::{self, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Nothing is shown before.
const AFTER: Duration = Duration::from_secs(1);
/// And then it is shown anew so often.
const EVERY: Duration = Duration::from_millis(200);

/// Something that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    state: Arc<State>,
    shown_by: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    done: AtomicU64,
    ended: AtomicBool,
}

impl Progress {
    /// Something begins of which so many `what` are done.
    #[must_use]
    pub(crate) fn new(what: &'static str) -> Self {
        let state = Arc::new(State::default());
        let shown_by = io::stderr().is_terminal().then(|| {
            let state = Arc::clone(&state);
            thread::spawn(move || show(&state, what, &mut io::stderr()))
        });
        Self { state, shown_by }
    }

    /// So many are done.
    pub(crate) fn set(&self, done: u64) {
        self.state.done.store(done, Ordering::Relaxed);
    }

    /// So many more are done.
    pub(crate) fn add(&self, more: u64) {
        self.state.done.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.shown_by.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Shows how far it is until it ends, and takes that away again. A terminal that does not take it is no reason to stop.
fn show(state: &State, what: &str, out: &mut impl io::Write) {
    let begun = Instant::now();
    let mut shown = false;
    while !state.ended.load(Ordering::Relaxed) {
        let elapsed = begun.elapsed();
        if elapsed >= AFTER {
            let _ = write!(out, "\r\u{1b}[K{}", text(state.done.load(Ordering::Relaxed), what, elapsed));
            let _ = out.flush();
            shown = true;
        }
        thread::park_timeout(if elapsed < AFTER { AFTER.saturating_sub(elapsed) } else { EVERY });
    }
    if shown {
        let _ = write!(out, "\r\u{1b}[K");
        let _ = out.flush();
    }
}

fn text(done: u64, what: &str, elapsed: Duration) -> String {
    format!("{done} {what}, {} s", elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_within_a_second_shows_nothing() {
        let (state, mut out) = (State::default(), Vec::new());
        state.ended.store(true, Ordering::Relaxed);
        show(&state, "objects", &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn it_is_said_how_far_it_is() {
        assert_eq!(text(512, "objects listed", Duration::from_millis(2300)), "512 objects listed, 2 s");
    }
}
