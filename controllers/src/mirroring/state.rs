//! The mirroring controller's state of each `Endpoints` object: facts in, keys and plans out, answers back in.

use std::sync::Arc;

use foldhash::HashMap;

use super::plan;
use crate::api::{Answer, Reply};
use crate::cache::SliceKeeper;
use crate::controller::{Controller, Key};
use crate::index::endpoints::{EndpointsChange, EndpointsObject};
use crate::index::events::SliceEvent;
use crate::index::{Index, ServiceChange};
use crate::reconcile::outbox::Outbox;
use crate::reconcile::pacing::Urgency;
use crate::reconcile::slice_tracker::{Notice, SliceTracker};
use crate::reconcile::slices::{SliceState, failure_note};
use crate::reconcile::step::{End, SliceJob, SliceStep, Step};
use crate::report::metrics::Planned;
use crate::report::note::Note;
use crate::report::trigger::{Event, Trigger};
use crate::requests::slices::SliceWrite;
use crate::text::Text;

const WHO: Controller = Controller::Mirrors;

/// What the controller remembers of one `Endpoints` object.
#[derive(Debug, Default)]
struct MirrorState {
    tracker: SliceTracker,
    /// What called for the next look.
    trigger: Trigger,
    /// How many addresses a person was told to be left out: too many, and none.
    told: (usize, usize),
}

/// What has to be done for a mirror.
#[derive(Debug)]
pub enum MirrorStep {
    /// As for any slices.
    Slices(SliceStep),
    /// The addresses have to be read first: they are not kept of objects that pods are written to.
    ReadEndpoints,
}

/// The state of the controller.
#[derive(Debug)]
pub struct State {
    /// At most so many addresses of a subset are mirrored.
    max_per_subset: usize,
    objects: HashMap<Key, MirrorState>,
}

impl State {
    /// A controller that knows of no object, and mirrors at most so many addresses of a subset.
    #[must_use]
    pub fn new(max_per_subset: usize) -> Self {
        Self { max_per_subset, objects: HashMap::default() }
    }

    fn of(&mut self, namespace: &Text, name: &Text) -> &mut MirrorState {
        self.objects.entry(Key::new(WHO, namespace, name)).or_default()
    }

    /// Calls for a look because of an event of the object of this name.
    fn ask(
        &mut self,
        namespace: &Text,
        name: &Text,
        urgency: Urgency,
        (event, object): (Event, Option<&Text>),
        out: &mut Outbox,
    ) {
        self.of(namespace, name).trigger.note(event, object);
        out.ask(WHO, namespace, name, urgency);
    }

    /// Calls for a look at all that is or may be mirrored: nothing is known of what was written before.
    pub fn take_over(&mut self, index: &Index, out: &mut Outbox) {
        self.objects.clear();
        for (namespace, space) in &index.namespaces {
            let mirrored = |name: &&Text| space.services.get(*name).is_some_and(|s| s.selector.is_none());
            let wanted = space.endpoints.keys().filter(mirrored);
            for name in wanted.chain(space.mirrors.keys()) {
                self.ask(namespace, name, Urgency::Now, (Event::Start, None), out);
            }
        }
    }

    /// A Service came, changed or went: a mirror depends on nothing but whether there is one, and has a selector.
    pub fn service_changed(&mut self, index: &Index, change: &ServiceChange, out: &mut Outbox) {
        let has_selector = |service: &Arc<crate::cache::Service>| service.selector.is_some();
        let (old, new) = (change.old.as_ref().map(has_selector), change.new.as_ref().map(has_selector));
        let (namespace, name) = (&change.namespace, &change.name);
        let Some(space) = index.namespace(namespace) else { return };
        let mirrored = space.mirrors.contains_key(name);
        let concerned = mirrored || (new.is_some() && space.endpoints.contains_key(name));
        if old != new && concerned {
            self.ask(namespace, name, Urgency::Now, (Event::of_service(change), None), out);
        }
    }

    /// An `Endpoints` object came, changed or went.
    pub fn endpoints_changed(&mut self, index: &Index, change: &EndpointsChange, out: &mut Outbox) {
        let (namespace, name) = (&change.namespace, &change.name);
        let Some(space) = index.namespace(namespace) else { return };
        let wanted = space.services.get(name).is_some_and(|s| s.selector.is_none());
        if change.gone || wanted || space.mirrors.contains_key(name) {
            self.ask(namespace, name, Urgency::Now, (Event::of_endpoints(change), None), out);
        }
    }

    /// The server was put back to an earlier state: what is awaited may be otherwise.
    pub fn restored(&mut self) {
        self.objects.values_mut().for_each(|state| state.tracker.in_flight.forget_waiting());
    }

    /// What to do for the mirror of the `Endpoints` of this name. Begins to await answers unless that is nothing.
    pub fn step(&mut self, index: &Index, namespace: &Text, name: &Text, out: &mut Outbox) -> MirrorStep {
        let Some(space) = index.namespace(namespace) else { return MirrorStep::Slices(Step::Idle) };
        let slices = space.slices_of(SliceKeeper::Mirrors, name);
        let object = space.endpoints.get(name);
        if object.is_none() && slices.is_empty() {
            self.objects.remove(&Key::new(WHO, namespace, name));
            return MirrorStep::Slices(Step::Idle);
        }
        let max = self.max_per_subset;
        let state = self.of(namespace, name);
        if state.tracker.in_flight.is_open() {
            return MirrorStep::Slices(Step::Idle);
        }
        if let Some(read) = state.tracker.unknown() {
            state.tracker.in_flight.begin();
            return MirrorStep::Slices(Step::Read(read));
        }
        let has_selector = |service: &Arc<crate::cache::Service>| service.selector.is_some();
        let service = space.services.get(name);
        let wanted = object.filter(|object| {
            plan::is_mirrored(object) && service.is_some_and(|service| !has_selector(service))
        });
        let Some(object) = wanted else {
            let removed = slices.iter().map(|s| s.endpoints.len()).sum();
            let planned = Planned { removed, ..Planned::default() };
            return MirrorStep::Slices(state.send(namespace, name, plan::remove(slices), planned, max));
        };
        let Some(subsets) = &object.subsets else { return MirrorStep::ReadEndpoints };
        let plan = plan::plan(name, object, subsets, slices, max);
        let told = (plan.skipped, plan.invalid);
        if std::mem::replace(&mut state.told, told) != told {
            out.notes.extend(left_out_notes(namespace, name, object, told, max));
        }
        let planned = Planned {
            added: plan.added,
            updated: plan.updated,
            removed: plan.removed,
            skipped: plan.skipped + plan.invalid,
            ..Planned::default()
        };
        MirrorStep::Slices(state.send(namespace, name, plan.writes, planned, max))
    }
}

impl SliceState for State {
    fn keeper(&self) -> SliceKeeper {
        SliceKeeper::Mirrors
    }

    fn known_tracker(&mut self, namespace: &Text, service: &Text) -> Option<&mut SliceTracker> {
        let state = self.objects.get_mut(&Key::new(WHO, namespace, service));
        state.map(|state| &mut state.tracker)
    }

    fn tracker(&mut self, namespace: &Text, service: &Text) -> &mut SliceTracker {
        &mut self.of(namespace, service).tracker
    }

    fn slices_changed(
        &mut self,
        namespace: &Text,
        service: &Text,
        notice: Notice,
        event: (Event, Option<&Text>),
        out: &mut Outbox,
    ) {
        if matches!(notice, Notice::Now | Notice::Unread) {
            self.ask(namespace, service, Urgency::Settle, event, out);
        }
    }

    fn finish(
        &mut self,
        index: &mut Index,
        job: SliceJob,
        answers: Vec<Answer<Reply>>,
    ) -> (End, Vec<SliceEvent>) {
        let Key { namespace, name, .. } = &job.key;
        let home = (SliceKeeper::Mirrors, Arc::clone(name));
        let state = self.of(namespace, name);
        let applied = state.tracker.apply(index, namespace, &home, job.writes, answers);
        if applied.failure.is_some() {
            state.trigger.again(job.trigger);
        }
        let note = failure_note(index.service(namespace, name), WHO, applied.failure.as_ref());
        (End { again: applied.again, failure: applied.failure, note }, applied.released)
    }
}

/// Of how many addresses that are not mirrored a person is told.
fn left_out_notes(
    namespace: &Text,
    name: &Text,
    object: &EndpointsObject,
    (skipped, invalid): (usize, usize),
    max: usize,
) -> Vec<Note> {
    let note = |reason, message| Note {
        kind: "Endpoints",
        api_version: "v1",
        namespace: Arc::clone(namespace),
        name: Arc::clone(name),
        uid: object.uid.clone(),
        warning: true,
        reason,
        message,
        controller: WHO,
    };
    let mut notes = Vec::new();
    if invalid > 0 {
        let text = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        notes.push(note("InvalidIPAddress", text));
    }
    if skipped > 0 {
        let text = format!(
            "A max of {max} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
        );
        notes.push(note("TooManyAddressesToMirror", text));
    }
    notes
}

impl MirrorState {
    fn send(
        &mut self,
        namespace: &Text,
        name: &Text,
        writes: Vec<SliceWrite>,
        planned: Planned,
        max: usize,
    ) -> SliceStep {
        let trigger = std::mem::take(&mut self.trigger);
        if writes.is_empty() {
            return Step::Idle;
        }
        self.tracker.in_flight.begin();
        Step::Send(SliceJob {
            key: Key::new(WHO, namespace, name),
            trigger,
            max,
            since: None,
            writes,
            then: Vec::new(),
            planned,
        })
    }
}
