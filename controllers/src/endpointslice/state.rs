//! The EndpointSlice controller's state of each Service: events of slices in, plans out, answers
//! back in.
//!
//! What we wrote is in the cache as soon as the server has taken it, so that a plan is never made
//! from slices older than our own last write. Events that come while writes are under way wait for
//! their answers.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::inputs::{Inputs, Scope};
use super::plan::hints::{Cause, Outcome};
use super::plan::{self, Change, SlicePlan};
use crate::api::{Answer, Refusal, Reply};
use crate::backoff::Backoff;
use crate::keys;
use crate::text::{Text, Uid};
use crate::trigger::{sooner, TriggerTimes};
use crate::watch::cache::{self, AddressType, Pod, Seconds, Service, Slice, SliceKeeper};
use crate::watch::objects::{MetaWire, SliceWire};
use crate::watch::world::{Controller, Dirty, Note, Pace, Space, World};

/// What the controller remembers of one Service.
#[derive(Debug, Default)]
pub struct SliceState {
    pub(crate) dirty: Dirty,
    trigger: TriggerTimes,
    pending: Option<Seconds>,
    pub(crate) traffic: Traffic,
    hints: SmallVec<[(AddressType, HintState); 2]>,
}

/// Writes under way, and what came in meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) open: bool,
    pub(crate) waiting: Vec<SliceEvent>,
    /// A write had no answer: what is there has to be read before the next plan.
    pub(crate) uncertain: bool,
    pub(crate) backoff: Backoff,
    /// Slices that we made or wrote and that have not gone since.
    pub(crate) written: Vec<Uid>,
}

/// An event of a slice.
#[derive(Debug)]
pub(crate) enum SliceEvent {
    Seen(Box<SliceWire>),
    Gone(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintState {
    Given,
    Withheld(Cause),
}

/// What has to be done for a key.
#[derive(Debug)]
pub enum Step<J> {
    /// Nothing.
    Idle,
    /// Nothing until an event comes: a slice of ours is being deleted but not gone.
    Hold,
    /// What is there has to be read first, because a write had no answer.
    Read,
    /// These writes have to be sent.
    Send(J),
}

/// Writes of a controller that keeps slices.
#[derive(Debug)]
pub struct SliceJob {
    /// The controller.
    pub controller: Controller,
    /// Namespace.
    pub namespace: Text,
    /// Service.
    pub service: Text,
    /// The writes.
    pub changes: Vec<Change>,
    /// Endpoints that come, and that go.
    pub moved: (usize, usize),
}

/// How a job ended.
#[derive(Debug, Default)]
pub struct End {
    /// The key has to be looked at again, after this time.
    pub again: Option<Duration>,
    /// What went wrong, if something did.
    pub failure: Option<Refusal>,
}

impl World {
    /// A slice as it is now.
    pub fn slice(&mut self, wire: SliceWire) {
        let name = self.shared.texts.text(&wire.metadata.name);
        let (namespace, space) = self.space(&wire.metadata.namespace);
        let before = space.homes.get(&name).cloned();
        let now = home(&wire.metadata);
        if before.is_none() && now.is_none() {
            return;
        }
        let busy = [&before, &now].into_iter().flatten().find(|(keeper, service)| space.is_busy(*keeper, service)).cloned();
        if let Some((keeper, service)) = busy {
            space.traffic(keeper, &service).waiting.push(SliceEvent::Seen(Box::new(wire)));
            return;
        }
        self.relists.slices.see(&namespace, &name);
        if self.buried.contains(&Uid::from(wire.metadata.uid.as_str())) {
            return;
        }
        let now = now.map(|(keeper, service)| (keeper, self.shared.texts.text(&service)));
        if let Some(old) = before.as_ref().filter(|b| now.as_ref() != Some(*b)) {
            self.slice_given_away(&namespace, &name, old);
        }
        if let Some((keeper, service)) = now {
            self.slice_kept(&namespace, keeper, &service, wire);
        }
    }

    /// Somebody changed the labels by which a slice was ours: it is not ours to write any more, and
    /// what it held is put elsewhere at the next occasion.
    fn slice_given_away(&mut self, namespace: &Text, name: &Text, home: &(SliceKeeper, Text)) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        space.homes.remove(name);
        let old = space.shelf(home.0, &home.1).remove(name);
        let traffic = space.traffic(home.0, &home.1);
        traffic.written.retain(|uid| old.as_ref().is_none_or(|o| o.uid != *uid));
        match home.0 {
            SliceKeeper::Slices => space.slice_states.entry(Arc::clone(&home.1)).or_default().dirty.all(false),
            SliceKeeper::Mirrors => space.mirror_states.entry(Arc::clone(&home.1)).or_default().stale = true,
        }
    }

    fn slice_kept(&mut self, namespace: &Text, keeper: SliceKeeper, service: &Text, wire: SliceWire) {
        let slice = Arc::new(Slice::read(wire, &mut self.shared));
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let shelf = space.shelf(keeper, service);
        let known = shelf.get(&slice.name).filter(|k| k.uid == slice.uid);
        if known.is_some_and(|k| k.version >= slice.version) {
            return;
        }
        space.homes.insert(Arc::clone(&slice.name), (keeper, Arc::clone(service)));
        let old = space.shelf(keeper, service).put(Arc::clone(&slice)).filter(|o| o.uid == slice.uid);
        let notice = old.as_ref().map_or(Notice::Now, |old| Notice::of(old, &slice));
        let controller = match keeper {
            SliceKeeper::Slices => {
                if notice != Notice::Never {
                    let state = space.slice_states.entry(Arc::clone(service)).or_default();
                    state.dirty.all(notice == Notice::Now);
                }
                Controller::Slices
            }
            SliceKeeper::Mirrors => {
                space.mirror_states.entry(Arc::clone(service)).or_default().stale |= notice != Notice::Never;
                Controller::Mirrors
            }
        };
        if notice == Notice::Now {
            self.wake(controller, namespace, service, Pace::Now);
        }
    }

    /// A slice that is gone.
    pub fn slice_deleted(&mut self, meta: &MetaWire) {
        if !self.buried.remove(&Uid::from(meta.uid.as_str())) {
            self.slice_gone(&meta.namespace, &meta.name);
        }
    }

    pub(crate) fn slice_gone(&mut self, namespace: &str, name: &str) {
        let (namespace, space) = self.space(namespace);
        let Some((name, (keeper, service))) = space.homes.get_key_value(name).map(|(n, h)| (Arc::clone(n), h.clone()))
        else {
            return;
        };
        if space.is_busy(keeper, &service) {
            space.traffic(keeper, &service).waiting.push(SliceEvent::Gone(name));
            return;
        }
        space.homes.remove(&name);
        let old = space.shelf(keeper, &service).remove(&name);
        space.traffic(keeper, &service).written.retain(|uid| old.as_ref().is_none_or(|o| o.uid != *uid));
        let controller = match keeper {
            SliceKeeper::Slices => {
                space.slice_states.entry(Arc::clone(&service)).or_default().dirty.all(true);
                Controller::Slices
            }
            SliceKeeper::Mirrors => {
                space.mirror_states.entry(Arc::clone(&service)).or_default().stale = true;
                Controller::Mirrors
            }
        };
        self.wake(controller, &namespace, &service, Pace::Now);
    }

    /// What to do for the slices of a Service.
    pub fn plan_slices(&mut self, namespace: &Text, name: &Text) -> Step<SliceJob> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Step::Idle };
        let Some(service) = space.services.get(name).cloned() else {
            space.slice_states.remove(name);
            return Step::Idle;
        };
        let shelf = space.slices.entry(Arc::clone(name)).or_insert_with(super::super::watch::index::Shelf::indexed);
        let state = space.slice_states.entry(Arc::clone(name)).or_default();
        if state.traffic.open || !state.dirty.is_due() {
            return Step::Idle;
        }
        if state.traffic.uncertain {
            return Step::Read;
        }
        if service.external_name {
            state.dirty.clear();
            return Step::Idle;
        }
        if service.selector.is_none() {
            return self.plan_without_selector(namespace, &service);
        }
        let held = |s: &&Arc<Slice>| s.deleting && state.traffic.written.contains(&s.uid);
        if shelf.slices().iter().any(|s| held(&s)) {
            return Step::Hold;
        }
        let narrow = !state.dirty.is_all() && state.trigger.is_known();
        let fresh = if narrow {
            let changed = state.dirty.pods().map(|pod| (pod, space.population.pod_of(name, pod).map(|p| &**p)));
            state.trigger.observe(&service, changed)
        } else {
            state.trigger.observe_all(&service, space.population.pods_of(name).map(|p| &**p))
        };
        if let Some(fresh) = fresh {
            state.pending = sooner(state.pending, fresh);
        }
        let live: Vec<Arc<Slice>>;
        let all_live = shelf.slices().iter().all(|s| !s.deleting);
        let slices = if all_live {
            shelf.slices()
        } else {
            live = shelf.slices().iter().filter(|s| !s.deleting).cloned().collect();
            &live[..]
        };
        let inputs = Inputs {
            service: &service,
            slices,
            nodes: &self.nodes,
            topology: &self.topology,
            max_per_slice: self.limits.max_per_slice,
            trigger: state.pending,
        };
        let touched = if narrow && all_live && !service.topology_auto { shelf.holding(state.dirty.pods()) } else { None };
        let narrow_plan = touched.and_then(|touched| {
            let changed = state.dirty.pods().map(|pod| {
                (Arc::clone(pod), space.population.pod_of(name, pod).map(|p| &**p))
            });
            plan::plan(&inputs, &Scope::Pods { changed: changed.collect(), touched })
        });
        let plan = narrow_plan.unwrap_or_else(|| {
            let pods: Vec<&Pod> = space.population.pods_of(name).map(|p| &**p).collect();
            plan::plan(&inputs, &Scope::All(pods)).unwrap_or_default()
        });
        state.dirty.clear();
        state.pending = state.pending.filter(|_| !plan.changes.is_empty());
        state.traffic.open = !plan.changes.is_empty();
        let told = state.tell_hints(&service, &plan);
        for note in told {
            self.note(note);
        }
        job(Controller::Slices, &service, plan)
    }

    /// A Service that lost its selector keeps none of the slices made from pods: what they say would
    /// never be put right again. Slices that somebody made by hand are not owned by the Service and
    /// stay.
    fn plan_without_selector(&mut self, namespace: &Text, service: &Service) -> Step<SliceJob> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Step::Idle };
        let state = space.slice_states.entry(Arc::clone(&service.name)).or_default();
        state.dirty.clear();
        state.trigger = TriggerTimes::default();
        let slices = space.slices.get(&service.name).map_or(&[][..], |shelf| shelf.slices());
        let owned = slices.iter().filter(|s| s.is_owned_by("Service", &service.uid) && !s.deleting);
        let changes: Vec<Change> = owned.map(|s| Change::Delete(Arc::clone(s))).collect();
        let removed = changes.iter().map(|c| if let Change::Delete(s) = c { s.endpoints.len() } else { 0 }).sum();
        state.traffic.open = !changes.is_empty();
        if !changes.is_empty() {
            let mirrored = space.endpoints.contains_key(&service.name);
            let rest = if mirrored {
                "the Endpoints object of that name is now yours to edit and is mirrored"
            } else {
                "endpoints are now yours to provide"
            };
            let message = format!("The selector is gone: slices made from pods are deleted; {rest}");
            self.note(Note { warning: false, ..Note::on(service, Controller::Slices, "SelectorRemoved", message) });
        }
        job(Controller::Slices, service, SlicePlan { changes, removed, ..SlicePlan::default() })
    }

    /// Takes in the answers to a job's writes, in their order.
    pub fn finish_slices(&mut self, job: SliceJob, answers: Vec<Answer<Reply>>) -> End {
        let keeper = if job.controller == Controller::Mirrors { SliceKeeper::Mirrors } else { SliceKeeper::Slices };
        let mut failure = None;
        let mut uncertain = false;
        for (change, answer) in job.changes.into_iter().zip(answers) {
            if let Err(refusal) = self.take_answer(&job.namespace, keeper, &job.service, change, answer) {
                uncertain |= matches!(refusal, Refusal::Unknown(_));
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
            match keeper {
                SliceKeeper::Slices => space.slice_states.entry(Arc::clone(&job.service)).or_default().dirty.all(true),
                SliceKeeper::Mirrors => space.mirror_states.entry(Arc::clone(&job.service)).or_default().stale = true,
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
        for event in waiting {
            match event {
                SliceEvent::Seen(wire) => self.slice(*wire),
                SliceEvent::Gone(name) => self.slice_gone(&job.namespace, &name),
            }
        }
        if let (Some(refusal), Some(service)) = (&failure, self.service_of(&job.namespace, &job.service))
            && matches!(refusal, Refusal::Rejected { .. })
        {
            let message = format!("Error updating Endpoint Slices for Service {}/{}: {refusal}", job.namespace, job.service);
            self.note(Note::on(&service, job.controller, "FailedToUpdateEndpointSlices", message));
        }
        End { again: again.filter(|_| exists || keeper == SliceKeeper::Mirrors), failure }
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
                let written = &mut space.traffic(keeper, service).written;
                if !written.contains(&slice.uid) {
                    written.push(slice.uid.clone());
                }
                space.shelf(keeper, service).put(Arc::new(slice));
                Ok(())
            }
            (Change::Delete(old), Ok(_) | Err(Refusal::NotFound(_) | Refusal::Conflict(_))) => {
                space.homes.remove(&old.name);
                space.shelf(keeper, service).remove(&old.name);
                space.traffic(keeper, service).written.retain(|uid| *uid != old.uid);
                if old.finalizers.is_empty() {
                    self.buried.insert(old.uid.clone());
                }
                Ok(())
            }
            (Change::Update { old, .. }, Err(refusal @ Refusal::NotFound(_))) => {
                space.homes.remove(&old.name);
                space.shelf(keeper, service).remove(&old.name);
                space.traffic(keeper, service).written.retain(|uid| *uid != old.uid);
                Err(refusal)
            }
            (Change::Create(_), Err(Refusal::NamespaceTerminating)) => Ok(()),
            (_, Err(refusal)) => Err(refusal),
        }
    }

    /// Takes in what a read found of a Service's slices, after a write without an answer.
    pub fn slices_read(&mut self, namespace: &Text, keeper: SliceKeeper, service: &Text, found: Vec<SliceWire>) {
        let names: Vec<String> = found.iter().map(|s| s.metadata.name.clone()).collect();
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        space.traffic(keeper, service).uncertain = false;
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
            self.slice(wire);
        }
    }
}

fn job(controller: Controller, service: &Service, plan: SlicePlan) -> Step<SliceJob> {
    if plan.changes.is_empty() {
        return Step::Idle;
    }
    Step::Send(SliceJob {
        controller,
        namespace: Arc::clone(&service.namespace),
        service: Arc::clone(&service.name),
        moved: (plan.added, plan.removed),
        changes: plan.changes,
    })
}

/// Who keeps a slice with this metadata, and for which Service.
fn home(meta: &MetaWire) -> Option<(SliceKeeper, Text)> {
    let service = cache::label(meta, keys::SERVICE_NAME).filter(|s| !s.is_empty())?;
    Some((cache::keeper(meta)?, service.into()))
}

impl Space {
    pub(crate) fn traffic(&mut self, keeper: SliceKeeper, service: &Text) -> &mut Traffic {
        match keeper {
            SliceKeeper::Slices => &mut self.slice_states.entry(Arc::clone(service)).or_default().traffic,
            SliceKeeper::Mirrors => &mut self.mirror_states.entry(Arc::clone(service)).or_default().traffic,
        }
    }

    fn is_busy(&self, keeper: SliceKeeper, service: &Text) -> bool {
        match keeper {
            SliceKeeper::Slices => self.slice_states.get(service).is_some_and(|s| s.traffic.open),
            SliceKeeper::Mirrors => self.mirror_states.get(service).is_some_and(|s| s.traffic.open),
        }
    }
}

/// When a change of a slice by somebody else is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// It is not wrong.
    Never,
    /// When the Service is looked at next: owners and reserved labels.
    Later,
    /// At once: endpoints, ports, labels, deletion.
    Now,
}

impl Notice {
    fn of(old: &Slice, new: &Slice) -> Self {
        let labels = old.labels.equal_without(&new.labels, keys::is_reserved);
        if old.endpoints != new.endpoints || old.ports != new.ports || !labels || old.deleting != new.deleting {
            Self::Now
        } else if old.owners != new.owners || old.labels != new.labels {
            Self::Later
        } else {
            Self::Never
        }
    }
}

impl SliceState {
    /// What became of the topology hints, as notes: one for each new state, not for each plan.
    fn tell_hints(&mut self, service: &Service, plan: &SlicePlan) -> Vec<Note> {
        let mut notes = Vec::new();
        if !service.topology_auto {
            if self.hints.iter().any(|(_, state)| *state == HintState::Given) {
                let message = "Topology hints are off: the annotation is gone".to_owned();
                notes.push(Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message));
            }
            self.hints.clear();
            return notes;
        }
        for (family, outcome) in &plan.hints {
            let state = match outcome {
                Outcome::Given => HintState::Given,
                Outcome::Withheld(withheld) => HintState::Withheld(withheld.cause),
            };
            let before = self.hints.iter_mut().find(|(f, _)| f == family);
            if before.as_ref().is_some_and(|(_, before)| *before == state) {
                continue;
            }
            match before {
                Some(before) => before.1 = state,
                None => self.hints.push((*family, state)),
            }
            let family = family.name();
            notes.push(match outcome {
                Outcome::Given => {
                    let message = format!("Topology Aware Hints has been enabled, addressType: {family}");
                    Note { warning: false, ..Note::on(service, Controller::Slices, "TopologyAwareHintsEnabled", message) }
                }
                Outcome::Withheld(withheld) => {
                    let message = format!("{}: {}, addressType: {family}", withheld.cause.name(), withheld.detail);
                    Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message)
                }
            });
        }
        notes
    }
}
