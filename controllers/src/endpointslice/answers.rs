//! Answers to writes of slices: what the server took is in the cache at once.

use std::sync::Arc;

use super::plan::Change;
use super::state::{End, SliceEvent, SliceJob};
use crate::api::{Answer, Refusal, Reply};
use crate::text::{Text, Uid};
use crate::watch::cache::{self, Service, Slice, SliceKeeper};
use crate::watch::objects::SliceWire;
use crate::watch::world::{Controller, Note, World};

impl World {
    /// Takes in the answers to a job's writes, in their order.
    pub fn finish_slices(&mut self, job: SliceJob, answers: Vec<Answer<Reply>>) -> End {
        let keeper =
            if job.controller == Controller::Mirrors { SliceKeeper::Mirrors } else { SliceKeeper::Slices };
        let mut failure = None;
        let (mut uncertain, mut conflict) = (false, false);
        for (change, answer) in job.changes.into_iter().zip(answers) {
            if let Err(refusal) = self.take_answer(&job.namespace, keeper, &job.service, change, answer) {
                uncertain |= refusal.is_uncertain();
                conflict |= matches!(refusal, Refusal::Conflict(_));
                failure = Some(refusal);
            }
        }
        let Some(space) = self.spaces.get_mut(&job.namespace) else { return End::default() };
        let exists = space.services.contains_key(&job.service);
        let traffic = space.traffic(keeper, &job.service);
        traffic.open = false;
        traffic.uncertain |= uncertain;
        let waiting = std::mem::take(&mut traffic.waiting);
        let again = if let Some(refusal) = &failure {
            let again = traffic.backoff.after(refusal);
            traffic.uncertain |= conflict && traffic.backoff.is_stuck();
            match keeper {
                SliceKeeper::Slices => {
                    space.slice_states.entry(Arc::clone(&job.service)).or_default().dirty.all(true);
                }
                SliceKeeper::Mirrors => {
                    space.mirror_states.entry(Arc::clone(&job.service)).or_default().stale = true;
                }
            }
            Some(again)
        } else {
            traffic.backoff.reset();
            space.shelf(keeper, &job.service).settle();
            if keeper == SliceKeeper::Slices {
                space.slice_states.entry(Arc::clone(&job.service)).or_default().pending = None;
            }
            None
        };
        if !exists && keeper == SliceKeeper::Slices {
            space.slice_states.remove(&job.service);
        }
        self.take_waiting(&job.namespace, waiting);
        let note = failure.as_ref().filter(|refusal| matches!(refusal, Refusal::Rejected { .. }));
        let note = note.and_then(|refusal| {
            let service = self.service_of(&job.namespace, &job.service)?;
            let message = format!(
                "Error updating Endpoint Slices for Service {}/{}: {refusal}",
                job.namespace, job.service
            );
            Some(Note::on(&service, job.controller, "FailedToUpdateEndpointSlices", message))
        });
        End { again: again.filter(|_| exists || keeper == SliceKeeper::Mirrors), failure, note }
    }

    fn take_waiting(&mut self, namespace: &str, waiting: Vec<SliceEvent>) {
        for event in waiting {
            match event {
                SliceEvent::Seen(wire) => self.slice(*wire),
                SliceEvent::Unread(json) => self.slice_put_aside(&json),
                SliceEvent::Gone(name) => self.slice_gone(namespace, &name),
            }
        }
    }

    pub(crate) fn service_of(&self, namespace: &Text, name: &Text) -> Option<Arc<Service>> {
        self.spaces.get(namespace)?.services.get(name).cloned()
    }

    fn take_answer(
        &mut self,
        namespace: &Text,
        keeper: SliceKeeper,
        service: &Text,
        change: Change,
        answer: Answer<Reply>,
    ) -> Result<(), Refusal> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Ok(()) };
        match (change, answer) {
            (Change::Create(new) | Change::Update { new, .. }, Ok(reply)) => {
                let meta = reply.metadata;
                let slice = Slice {
                    name: self.shared.texts.text(&meta.name),
                    uid: meta.uid.as_str().into(),
                    version: meta.resource_version.parse().unwrap_or(0),
                    generation: meta.generation,
                    labels: self.shared.texts.share(new.labels.clone()),
                    annotations: self.shared.texts.share(new.annotations.clone()),
                    ..new
                };
                space.homes.insert(Arc::clone(&slice.name), (keeper, Arc::clone(service)));
                self.relists.slices.see(namespace, &slice.name);
                space.traffic(keeper, service).written.note(&slice.uid, slice.generation);
                space.shelf(keeper, service).put(Arc::new(slice));
                Ok(())
            }
            (Change::Delete(old), Ok(_) | Err(Refusal::NotFound(_) | Refusal::Conflict(_))) => {
                space.homes.remove(&old.name);
                space.shelf(keeper, service).remove(&old.name);
                space.traffic(keeper, service).written.forget(&old.uid);
                if old.finalizers.is_empty() {
                    self.buried.insert(old.uid.clone());
                }
                Ok(())
            }
            (Change::Update { old, .. }, Err(refusal @ Refusal::NotFound(_))) => {
                space.homes.remove(&old.name);
                space.shelf(keeper, service).remove(&old.name);
                space.traffic(keeper, service).written.forget(&old.uid);
                Err(refusal)
            }
            (Change::Create(_), Err(Refusal::NamespaceTerminating)) => Ok(()),
            (_, Err(refusal)) => Err(refusal),
        }
    }

    /// Takes in what a read found of a Service's slices, after a write without an answer; none if it
    /// found nothing out. What is found counts whatever version was known before: nothing was written
    /// since the read began, and events that came meanwhile have waited.
    pub fn slices_read(
        &mut self,
        namespace: &Text,
        keeper: SliceKeeper,
        service: &Text,
        found: Option<Vec<SliceWire>>,
    ) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let traffic = space.traffic(keeper, service);
        traffic.open = false;
        traffic.uncertain = found.is_none();
        let waiting = std::mem::take(&mut traffic.waiting);
        if let Some(found) = found {
            self.slices_found(namespace, keeper, service, found);
        }
        self.take_waiting(namespace, waiting);
    }

    fn slices_found(&mut self, namespace: &Text, keeper: SliceKeeper, service: &Text, found: Vec<SliceWire>) {
        let names: Vec<String> = found.iter().map(|s| s.metadata.name.clone()).collect();
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let shelf = space.shelf(keeper, service);
        let gone: Vec<Text> = shelf
            .slices()
            .iter()
            .filter(|s| !names.iter().any(|n| **n == *s.name))
            .map(|s| Arc::clone(&s.name))
            .collect();
        for name in gone {
            self.slice_gone(namespace, &name);
        }
        for wire in found {
            // Nothing waits for the slices of others: of them the watch knows better.
            let known = self.spaces.get(namespace).and_then(|s| s.homes.get(&*wire.metadata.name));
            let before = known.is_some_and(|(k, s)| *k == keeper && s == service);
            if !before && cache::keeper(&wire.metadata) != Some(keeper) {
                continue;
            }
            self.buried.remove(&Uid::from(wire.metadata.uid.as_str()));
            if let Some(space) = self.spaces.get_mut(namespace) {
                space.shelf(keeper, service).forget_version_after(&wire);
            }
            self.slice(wire);
        }
    }
}
