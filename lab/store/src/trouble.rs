//! Whether the store can be written, and who is told: the one that mends it, and everyone who asks.
//!
//! Nothing here touches a disk.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// What keeps the store from being written, if anything does.
pub(super) struct Trouble {
    state: Mutex<State>,
    changed: Condvar,
    /// What the store's users are told.
    told: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    cause: Option<String>,
    closed: bool,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), told: watch::Sender::new(None) }
    }
}

impl Trouble {
    /// Notes a failure; the first one counts.
    pub(super) fn begin(&self, cause: &str) {
        let mut state = self.state.lock();
        if state.cause.is_none() {
            tracing::error!(cause, "the store cannot be written; reads go on, and it is tried again");
            state.cause = Some(cause.to_owned());
            self.told.send_replace(Some(cause.to_owned()));
            self.changed.notify_all();
        }
    }

    /// All is well again.
    pub(super) fn end(&self) {
        if self.state.lock().cause.take().is_some() {
            tracing::info!("the store can be written again");
            self.told.send_replace(None);
        }
    }

    /// What is the matter, if anything is.
    pub(super) fn cause(&self) -> Option<String> {
        self.state.lock().cause.clone()
    }

    /// Follows what is the matter.
    pub(super) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    /// The store is being closed: nobody waits any more.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until something is the matter; `false` once the store is closed.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.cause.is_none() && !state.closed {
            self.changed.wait(&mut state);
        }
        !state.closed
    }

    /// Waits for so long; `false` once the store is closed.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            self.changed.wait_for(&mut state, time);
        }
        !state.closed
    }
}
