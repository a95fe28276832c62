//! What follows from an event or an answer: keys to look at, and what to tell people.

use crate::controller::{Controller, Key};
use crate::reconcile::pacing::Urgency;
use crate::report::look::LookId;
use crate::report::note::Note;
use crate::text::Text;

/// What follows from an event or an answer.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Keys that are called for.
    pub asks: Vec<(Key, Urgency)>,
    /// What to tell people.
    pub notes: Vec<Note>,
    /// The look that it follows from, if it is one.
    pub look: Option<LookId>,
}

impl Outbox {
    /// Calls for a look at an object.
    pub fn ask(&mut self, controller: Controller, namespace: &Text, name: &Text, urgency: Urgency) {
        self.asks.push((Key::new(controller, namespace, name), urgency));
    }

    /// Whether nothing follows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.notes.is_empty()
    }
}
