//! Requests about one object that are under way: what happens meanwhile waits for their answers.
//!
//! So that a plan is never made from something older than our own last write. Owns that order and the doubt after a
//! write without an answer; `E` is the kind of event that waits.

use std::time::Duration;

use crate::api::RequestError;
use crate::backoff::Backoff;

/// The writes or the read of one object that are under way, and what came in meanwhile.
#[derive(Debug)]
pub struct InFlight<E> {
    open: bool,
    waiting: Vec<E>,
    uncertain: bool,
    backoff: Backoff,
}

impl<E> Default for InFlight<E> {
    fn default() -> Self {
        Self { open: false, waiting: Vec::new(), uncertain: false, backoff: Backoff::default() }
    }
}

impl<E> InFlight<E> {
    /// Whether an answer is awaited.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether what is there has to be read before the next plan.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    /// What is there is not known any more.
    pub fn doubt(&mut self) {
        self.uncertain = true;
    }

    /// Requests are sent.
    pub fn begin(&mut self) {
        self.open = true;
    }

    /// Puts an event aside until the answers are there.
    pub fn hold(&mut self, event: E) {
        self.waiting.push(event);
    }

    /// What waits says nothing any more.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// A read ended, with or without finding out what is there; gives what has waited for it.
    #[must_use = "what waited has to be taken in"]
    pub fn end_read(&mut self, found: bool) -> Vec<E> {
        self.uncertain = !found;
        self.end()
    }

    /// What was sent is answered; gives what has waited for that.
    #[must_use = "what waited has to be taken in"]
    pub fn end(&mut self) -> Vec<E> {
        self.open = false;
        std::mem::take(&mut self.waiting)
    }

    /// All writes were carried out.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
    }

    /// A write failed; gives how long to wait before the next try. After one that may have happened, and after
    /// conflicts that do not end, what is there has to be read first.
    #[must_use]
    pub fn failed(&mut self, error: &RequestError) -> Duration {
        let wait = self.backoff.after(error);
        self.uncertain |=
            error.is_uncertain() || (matches!(error, RequestError::Conflict(_)) && self.backoff.is_stuck());
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_meanwhile_waits_in_its_order() {
        let mut in_flight = InFlight::default();
        in_flight.begin();
        in_flight.hold(1);
        in_flight.hold(2);
        assert!(in_flight.is_open());
        assert_eq!(in_flight.end(), [1, 2]);
        assert!(!in_flight.is_open() && in_flight.end().is_empty());
    }

    #[test]
    fn a_write_that_may_have_happened_calls_for_a_read() {
        let mut in_flight = InFlight::<()>::default();
        let _ = in_flight.failed(&RequestError::Conflict(String::new()));
        assert!(!in_flight.is_uncertain());
        let _ = in_flight.failed(&RequestError::Unknown(String::new()));
        assert!(in_flight.is_uncertain());
        assert!(in_flight.end_read(false).is_empty() && in_flight.is_uncertain());
        assert!(in_flight.end_read(true).is_empty() && !in_flight.is_uncertain());
        for _ in 0..4 {
            let _ = in_flight.failed(&RequestError::Conflict(String::new()));
        }
        assert!(in_flight.is_uncertain(), "conflicts do not end");
    }
}
