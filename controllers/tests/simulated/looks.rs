//! The controllers' looks at keys, against the server in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use service_controllers::api::{Answer, Reply, Write};
use service_controllers::controller::{Controller, Key};
use service_controllers::index::Index;
use service_controllers::index::events::EndpointsEvent;
use service_controllers::mirroring::state::MirrorStep;
use service_controllers::objects::SliceWire;
use service_controllers::reconcile::context::Delivery;
use service_controllers::reconcile::outbox::Outbox;
use service_controllers::reconcile::slices::SliceState;
use service_controllers::reconcile::step::{SliceJob, SliceRead, Step};
use service_controllers::requests::slices::request;
use tokio::time::Instant;

use super::Sim;

impl Sim {
    /// Looks at a key; gives whether it has to be looked at again.
    pub(super) fn reconcile(&mut self, key: &Key) -> bool {
        match key.controller {
            Controller::Slices => self.reconcile_slices(key, Instant::now()),
            Controller::Mirrors => self.reconcile_mirror(key),
            Controller::Endpoints => self.reconcile_endpoints(key),
            _ => false,
        }
    }

    /// Looks at the slices of a Service at a time; gives whether they have to be looked at again.
    pub(crate) fn reconcile_slices(&mut self, key: &Key, now: Instant) -> bool {
        let state = Arc::clone(&self.cluster.slices);
        let step = self.with(|index, out| state.lock().step(index, &key.namespace, &key.name, now, out));
        match step {
            Step::Idle => {
                self.with(|index, _| state.lock().rest(index, key, now));
                false
            }
            Step::Read(read) => {
                let found = Some(self.slices_read(&read));
                let (namespace, name) = (&key.namespace, &key.name);
                let events =
                    self.with(|index, _| state.lock().finish_read(index, namespace, name, &read, found));
                self.cluster.feed.slices(events);
                true
            }
            Step::Send(job) => {
                let mut next = Some(job);
                while let Some(job) = next.take() {
                    let (rest, answers) = (job.rest(), self.send(&job));
                    self.between_writes();
                    let (end, released) = self.with(|index, _| state.lock().finish(index, job, answers));
                    self.cluster.feed.slices(released);
                    if end.again.is_some() {
                        return true;
                    }
                    next = rest;
                }
                self.with(|index, _| state.lock().rest(index, key, now));
                false
            }
        }
    }

    /// What a reader who merges slices must hold at any time, if it is watched.
    fn between_writes(&self) {
        if let Some(service) = &self.merged {
            let listed: BTreeSet<_> = self.listed(service).into_iter().collect();
            assert_eq!(listed.into_iter().collect::<Vec<_>>(), self.wanted(service));
        }
    }

    fn reconcile_mirror(&mut self, key: &Key) -> bool {
        let state = Arc::clone(&self.cluster.mirrors);
        let step = self.with(|index, out| state.lock().step(index, &key.namespace, &key.name, out));
        match step {
            MirrorStep::ReadEndpoints => {
                let Some(found) = self.endpoints.get(&*key.name).cloned() else { return false };
                self.cluster.index.lock().addresses_found(&key.namespace, &key.name, found);
                true
            }
            MirrorStep::Slices(Step::Idle) => false,
            MirrorStep::Slices(Step::Read(read)) => {
                let found = Some(self.slices_read(&read));
                let (namespace, name) = (&key.namespace, &key.name);
                let events =
                    self.with(|index, _| state.lock().finish_read(index, namespace, name, &read, found));
                self.cluster.feed.slices(events);
                true
            }
            MirrorStep::Slices(Step::Send(job)) => {
                let answers = self.send(&job);
                let (end, released) = self.with(|index, _| state.lock().finish(index, job, answers));
                self.cluster.feed.slices(released);
                end.again.is_some()
            }
        }
    }

    /// From now on at most so many addresses of a subset are mirrored.
    pub(crate) fn mirror_at_most(&mut self, addresses: usize) {
        self.limits.max_mirrored = addresses;
        *self.cluster.mirrors.lock() = service_controllers::mirroring::state::State::new(addresses);
    }

    /// What the mirroring controller would do for an object.
    pub(crate) fn mirror_step(&self, name: &str) -> MirrorStep {
        let state = Arc::clone(&self.cluster.mirrors);
        self.with(|index, out| state.lock().step(index, &"default".into(), &name.into(), out))
    }

    /// The mirroring controller reads slices for an object.
    pub(crate) fn mirror_read(&self, name: &str, found: Vec<SliceWire>) {
        let state = Arc::clone(&self.cluster.mirrors);
        let (namespace, name, read) = ("default".into(), name.into(), SliceRead::All);
        let events =
            self.with(|index, _| state.lock().finish_read(index, &namespace, &name, &read, Some(found)));
        self.cluster.feed.slices(events);
    }

    /// Changes the index, and passes on what follows.
    fn with<T>(&self, change: impl FnOnce(&mut Index, &mut Outbox) -> T) -> T {
        let mut out = Outbox::default();
        let outcome = change(&mut self.cluster.index.lock(), &mut out);
        self.cluster.feed.pass_on(out);
        outcome
    }

    fn slices_read(&mut self, read: &SliceRead) -> Vec<SliceWire> {
        self.reads.push(read.clone());
        let found: Vec<SliceWire> = match read {
            SliceRead::All => self.slices.values().cloned().collect(),
            SliceRead::One(name) => self.slices.get(&**name).cloned().into_iter().collect(),
        };
        if self.vanish_during_read {
            for slice in &found {
                self.foreign_delete(&slice.metadata.name);
            }
        }
        found
    }

    fn send(&mut self, job: &SliceJob) -> Vec<Answer<Reply>> {
        let writes: Vec<Write> = job.writes.iter().map(|w| request(&job.key.namespace, w).unwrap()).collect();
        writes.iter().map(|w| self.write(w)).collect()
    }

    fn reconcile_endpoints(&mut self, key: &Key) -> bool {
        let state = Arc::clone(&self.cluster.endpoints);
        let step = self.with(|index, _| state.lock().step(index, &key.namespace, &key.name));
        match step {
            Step::Idle => false,
            Step::Read(()) => {
                let found = self.endpoints.get(&*key.name).cloned().map_or_else(
                    || EndpointsEvent::Missing { namespace: key.namespace.clone(), name: key.name.clone() },
                    |object| EndpointsEvent::Seen(Box::new(object)),
                );
                if self.vanish_during_read {
                    self.foreign_delete_endpoints(&key.name);
                }
                let events = self
                    .with(|index, _| state.lock().finish_read(index, &key.namespace, &key.name, Some(found)));
                Delivery::endpoints(&self.cluster.feed, events);
                true
            }
            Step::Send(job) => {
                let answer = self.write(&job.write);
                let (end, released) = self.with(|index, out| state.lock().finish(index, job, answer, out));
                Delivery::endpoints(&self.cluster.feed, released);
                end.again.is_some()
            }
        }
    }
}
