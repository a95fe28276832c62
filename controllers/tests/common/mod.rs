//! The index, the feed and the controllers' states without a queue, a clock or a server.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use service_controllers::controller::{Controller, Key};
use service_controllers::feed::{Feed, States};
use service_controllers::index::Index;
use service_controllers::reconcile::outbox::Outbox;
use service_controllers::reconcile::pacing::Urgency;
use service_controllers::report::note::Note;
use service_controllers::{endpoints, endpointslice, mirroring};

/// What the controllers are set to.
#[derive(Clone, Debug)]
pub struct Limits {
    pub max_per_slice: usize,
    pub max_mirrored: usize,
    pub enabled: BTreeSet<Controller>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_per_slice: 100, max_mirrored: 1000, enabled: Controller::ALL.into_iter().collect() }
    }
}

#[derive(Debug)]
pub struct Cluster {
    pub feed: Feed,
    pub index: Arc<Mutex<Index>>,
    pub slices: Arc<Mutex<endpointslice::state::State>>,
    pub endpoints: Arc<Mutex<endpoints::state::State>>,
    pub mirrors: Arc<Mutex<mirroring::state::State>>,
    pub out: Arc<Mutex<Outbox>>,
    enabled: BTreeSet<Controller>,
}

impl Cluster {
    /// A standby: nobody is told of what happens.
    pub fn new(limits: &Limits) -> Self {
        let index = Arc::<Mutex<Index>>::default();
        let out = Arc::<Mutex<Outbox>>::default();
        let sink = Arc::clone(&out);
        let pass_on = move |mut more: Outbox| {
            let mut out = sink.lock();
            out.asks.append(&mut more.asks);
            out.notes.append(&mut more.notes);
        };
        Self {
            feed: Feed::new(Arc::clone(&index), Box::new(pass_on), Box::new(|| {})),
            index,
            slices: Arc::new(Mutex::new(endpointslice::state::State::new(limits.max_per_slice))),
            endpoints: Arc::default(),
            mirrors: Arc::new(Mutex::new(mirroring::state::State::new(limits.max_mirrored))),
            out,
            enabled: limits.enabled.clone(),
        }
    }

    /// From now on the controllers are told.
    pub fn start(&self) {
        let on = |controller| self.enabled.contains(&controller);
        self.feed.lead(&States {
            slices: on(Controller::Slices).then(|| Arc::clone(&self.slices)),
            endpoints: on(Controller::Endpoints).then(|| Arc::clone(&self.endpoints)),
            mirrors: on(Controller::Mirrors).then(|| Arc::clone(&self.mirrors)),
        });
    }

    pub fn take_asks(&self) -> Vec<(Key, Urgency)> {
        let mut asks = std::mem::take(&mut self.out.lock().asks);
        asks.retain(|(key, _)| self.enabled.contains(&key.controller));
        asks
    }

    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.out.lock().notes)
    }
}
