//! What a pod has written: lines with their time, the last of them, and word of each new one.

use std::collections::VecDeque;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Lines of a log that are kept.
const LINES: usize = 10_000;

/// The lines that a pod has written.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<VecDeque<(u64, Timestamp, String)>>,
    written: watch::Sender<Written>,
}

/// How far a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// The number of the last line.
    pub last: u64,
    /// Nothing will follow.
    pub closed: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: Mutex::default(), written: watch::Sender::new(Written::default()) }
    }
}

impl Log {
    /// Adds a line.
    pub(crate) fn write(&self, line: String) {
        let mut lines = self.lines.lock();
        let number = self.written.borrow().last + 1;
        lines.push_back((number, Timestamp::now(), line));
        if lines.len() > LINES {
            lines.pop_front();
        }
        self.written.send_modify(|written| written.last = number);
    }

    /// Nothing will follow: the pod is gone.
    pub(crate) fn close(&self) {
        self.written.send_modify(|written| written.closed = true);
    }

    /// The lines after a number, and how far it is.
    pub(crate) fn after(&self, number: u64) -> (Vec<(Timestamp, String)>, Written) {
        let lines = self.lines.lock();
        let new = lines.iter().filter(|(of, ..)| *of > number);
        (new.map(|(_, time, line)| (*time, line.clone())).collect(), *self.written.borrow())
    }

    /// Tells of each new line.
    pub(crate) fn watch(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }

    /// How many are told of new lines.
    #[cfg(test)]
    pub(crate) fn listeners(&self) -> usize {
        self.written.receiver_count()
    }
}
