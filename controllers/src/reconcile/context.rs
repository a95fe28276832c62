//! What a controller works with, built once.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::outbox::Outbox;
use super::runner::Queue;
use crate::api::ApiServer;
use crate::controller::Controller;
use crate::index::Index;
use crate::index::events::{EndpointsEvent, SliceEvent};
use crate::report::events::Reporter;
use crate::report::log::FailureLog;
use crate::report::look::Look;
use crate::report::metrics::Metrics;
use crate::report::reconcile::Told;

/// Where events go that have waited for an answer, and what follows from an answer.
pub trait Delivery: Send + Sync {
    /// Takes in events of slices.
    fn slices(&self, events: Vec<SliceEvent>);
    /// Takes in events of `Endpoints`.
    fn endpoints(&self, events: Vec<EndpointsEvent>);
    /// Passes on what follows.
    fn pass_on(&self, out: Outbox);
}

/// What a controller with the state `S` works with. Who needs both locks takes the one of the index first.
pub struct Context<S> {
    /// Which controller it is.
    pub controller: Controller,
    /// What is known of the cluster.
    pub index: Arc<Mutex<Index>>,
    /// What the controller remembers.
    pub state: Arc<Mutex<S>>,
    /// The API server.
    pub api: Arc<dyn ApiServer>,
    /// Its keys.
    pub queue: Arc<Queue>,
    /// Where events and other controllers' keys go.
    pub delivery: Arc<dyn Delivery>,
    /// What is told of failures.
    pub failures: Arc<FailureLog>,
    /// What is told on objects.
    pub reporter: Reporter,
    /// What is counted.
    pub metrics: Metrics,
    /// What is told of looks.
    pub told: Told,
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl<S> Context<S> {
    /// Changes index and state together, and passes on what follows.
    pub fn with<T>(&self, change: impl FnOnce(&mut Index, &mut S, &mut Outbox) -> T) -> T {
        self.passing_on(Outbox::default(), change)
    }

    /// The same, in the course of a look.
    pub fn looking<T>(&self, look: &Look, change: impl FnOnce(&mut Index, &mut S, &mut Outbox) -> T) -> T {
        self.passing_on(Outbox { look: Some(look.id), ..Outbox::default() }, change)
    }

    fn passing_on<T>(&self, mut out: Outbox, change: impl FnOnce(&mut Index, &mut S, &mut Outbox) -> T) -> T {
        let outcome = change(&mut self.index.lock(), &mut self.state.lock(), &mut out);
        if !out.is_empty() {
            self.delivery.pass_on(out);
        }
        outcome
    }
}
