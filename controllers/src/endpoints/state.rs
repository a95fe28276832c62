//! The Endpoints controller's state of each Service: facts in, keys and plans out, answers back in.

use foldhash::HashMap;

use super::plan;
use crate::api::{Answer, Reply, RequestError, Write};
use crate::cache::Seconds;
use crate::controller::{Controller, Key};
use crate::index::effect::Effect;
use crate::index::endpoints::{EndpointsChange, EndpointsObject};
use crate::index::events::EndpointsEvent;
use crate::index::{Index, NodeChange, PodFact, ServiceChange};
use crate::reconcile::dirty::Dirty;
use crate::reconcile::in_flight::InFlight;
use crate::reconcile::outbox::Outbox;
use crate::reconcile::pacing::Urgency;
use crate::reconcile::step::{End, Step};
use crate::reconcile::trigger_times::{TriggerTimes, sooner};
use crate::report::note::Note;
use crate::report::trigger::{Event, Trigger};
use crate::requests::endpoints as requests;
use crate::text::Text;

const WHO: Controller = Controller::Endpoints;

/// What the controller remembers of one Service.
#[derive(Debug, Default)]
struct ServiceState {
    dirty: Dirty,
    trigger: TriggerTimes,
    pending: Option<Seconds>,
    in_flight: InFlight<EndpointsEvent>,
}

/// A write of the Endpoints controller.
#[derive(Debug)]
pub struct EndpointsJob {
    /// Of which Service.
    pub key: Key,
    /// What called for it.
    pub trigger: Trigger,
    /// The write.
    pub write: Write,
    /// The version that it replaces, if there is one.
    pub before: Option<u64>,
    /// How many addresses the object has after it that are ready, and how many that are not.
    pub addresses: (usize, usize),
    /// The object after it; none if it is deleted.
    after: Option<EndpointsObject>,
}

/// The state of the controller.
#[derive(Debug, Default)]
pub struct State {
    services: HashMap<Key, ServiceState>,
}

impl State {
    fn of(&mut self, namespace: &Text, name: &Text) -> &mut ServiceState {
        self.services.entry(Key::new(WHO, namespace, name)).or_default()
    }

    /// Calls for a look at all Services, and at what is left over from Services that went while nobody looked: that is
    /// only told apart from somebody's own object when the controller starts.
    pub fn take_over(&mut self, index: &Index, out: &mut Outbox) {
        self.services.clear();
        for (namespace, space) in &index.namespaces {
            let left_over = |(name, object): &(&Text, &EndpointsObject)| {
                !space.services.contains_key(*name) && !object.is_lock()
            };
            let left_over = space.endpoints.iter().filter(left_over).map(|(name, _)| name);
            for name in space.services.keys().chain(left_over) {
                self.of(namespace, name).dirty.all(true, Event::Start, None);
                out.ask(WHO, namespace, name, Urgency::Now);
            }
        }
    }

    /// A Service came, changed or went.
    pub fn service_changed(&mut self, index: &Index, change: &ServiceChange, out: &mut Outbox) {
        let (namespace, name) = (&change.namespace, &change.name);
        if change.new.is_some() {
            if self.of(namespace, name).dirty.touch(change.old != change.new, Event::of_service(change)) {
                out.ask(WHO, namespace, name, Urgency::Now);
            }
            return;
        }
        let key = Key::new(WHO, namespace, name);
        let writing = self.services.get(&key).is_some_and(|state| state.in_flight.is_open());
        if writing || index.endpoints(namespace, name).is_some() {
            self.of(namespace, name).dirty.all(true, Event::ServiceDeleted, None);
            out.ask(WHO, namespace, name, Urgency::Now);
        } else {
            self.services.remove(&key);
        }
    }

    /// A pod of some Services came, changed or went.
    pub fn pod_changed(&mut self, fact: &PodFact, effects: &[(Text, Effect)], out: &mut Outbox) {
        for (service, effect) in effects {
            if self.of(&fact.namespace, service).dirty.pod_changed(&fact.name, *effect, &fact.change) {
                let urgency = if *effect == Effect::Out { Urgency::Out } else { Urgency::In };
                out.ask(WHO, &fact.namespace, service, urgency);
            }
        }
    }

    /// A node came, changed or went: with it the endpoints of its pods come and go.
    pub fn node_changed(&mut self, change: &NodeChange, out: &mut Outbox) {
        for (namespace, service) in change.services.iter().filter(|_| !change.moved) {
            self.of(namespace, service).dirty.all(true, Event::of_node(change), Some(&change.name));
            out.ask(WHO, namespace, service, Urgency::Now);
        }
    }

    /// An `Endpoints` object came, changed or went by somebody else's hand.
    pub fn endpoints_changed(&mut self, index: &Index, change: &EndpointsChange, out: &mut Outbox) {
        let (namespace, name) = (&change.namespace, &change.name);
        let Some(service) = index.service(namespace, name) else { return };
        if !change.gone && service.selector.is_none() {
            return;
        }
        // Edits by hand often come one after the other. And if the server deleted the object with its Service, the event of
        // the Service may still be on its way.
        self.of(namespace, name).dirty.all(change.edited, Event::of_endpoints(change), None);
        if change.edited {
            out.ask(WHO, namespace, name, Urgency::Settle);
        }
    }

    /// The server was put back to an earlier state: what is awaited may be otherwise.
    pub fn restored(&mut self) {
        self.services.values_mut().for_each(|state| state.in_flight.forget_waiting());
    }

    /// All `Endpoints` of Services are looked at: what was written may have been undone.
    pub fn doubt_all(&mut self, index: &Index, out: &mut Outbox) {
        for (namespace, space) in &index.namespaces {
            for name in space.services.keys() {
                self.of(namespace, name).dirty.all(true, Event::Restored, None);
                out.ask(WHO, namespace, name, Urgency::Now);
            }
        }
    }

    /// Whether the answer to a write or a read is awaited; `event` waits for it then.
    ///
    /// # Errors
    /// The event, if it is not.
    pub fn hold(
        &mut self,
        namespace: &Text,
        name: &Text,
        event: EndpointsEvent,
    ) -> Result<(), EndpointsEvent> {
        let state = self.services.get_mut(&Key::new(WHO, namespace, name));
        match state.filter(|state| state.in_flight.is_open()) {
            Some(state) => {
                state.in_flight.hold(event);
                Ok(())
            }
            None => Err(event),
        }
    }

    /// What to do for the `Endpoints` of a Service. Begins to await the answer unless that is nothing.
    pub fn step(&mut self, index: &Index, namespace: &Text, name: &Text) -> Step<(), EndpointsJob> {
        let known = index.endpoints(namespace, name);
        let service = index.service(namespace, name);
        let state = self.of(namespace, name);
        if state.in_flight.is_open() || !(state.dirty.is_due() || state.in_flight.is_uncertain()) {
            return Step::Idle;
        }
        let unread = known.is_some_and(|known| known.digest.is_none())
            && service.is_some_and(|service| service.has_slices());
        if state.in_flight.is_uncertain() || unread {
            state.in_flight.begin();
            return Step::Read(());
        }
        let Some(service) = service else {
            let Some(known) = known else {
                self.services.remove(&Key::new(WHO, namespace, name));
                return Step::Idle;
            };
            let trigger = state.dirty.clear();
            return state.delete(namespace, name, known, trigger);
        };
        if !service.has_slices() {
            let trigger = state.dirty.clear();
            // Without a selector it is the user's; with one nobody would put it right any more.
            let left = known.filter(|known| service.selector.is_some() && known.is_made_here());
            return match left {
                Some(known) => state.delete(namespace, name, known, trigger),
                None => Step::Idle,
            };
        }
        let Some(space) = index.namespace(namespace) else { return Step::Idle };
        let pods = || space.pods.pods_of(name).map(|p| &**p);
        let fresh = if state.dirty.is_all() || !state.trigger.is_known() {
            state.trigger.observe_all(service, pods())
        } else {
            let changed = state.dirty.pods().map(|pod| (pod, space.pods.pod_of(name, pod).map(|p| &**p)));
            state.trigger.observe(service, changed)
        };
        if let Some(fresh) = fresh {
            state.pending = Some(sooner(state.pending, fresh));
        }
        let trigger = state.dirty.clear();
        let desired = plan::desired(service, pods(), |node| index.nodes.contains_key(node));
        let Some(after) = plan::after(known, &desired, state.pending) else {
            state.pending = None;
            return Step::Idle;
        };
        let write =
            requests::put(namespace, name, known, &after.labels, &after.annotations, &desired.subsets);
        let addresses = desired.addresses();
        state.send(write, |write| EndpointsJob {
            key: Key::new(WHO, namespace, name),
            trigger,
            write,
            before: known.map(|known| known.version),
            addresses,
            after: Some(after),
        })
    }

    /// Takes in the answer to a job's write; gives the events that waited for it.
    pub fn finish(
        &mut self,
        index: &mut Index,
        job: EndpointsJob,
        answer: Answer<Reply>,
        out: &mut Outbox,
    ) -> (End, Vec<EndpointsEvent>) {
        let Key { namespace, name, .. } = &job.key;
        let state = self.of(namespace, name);
        let waited = state.in_flight.end();
        let mut end = End::default();
        match (job.after, answer) {
            (Some(after), Ok(reply)) => {
                state.in_flight.succeeded();
                state.pending = None;
                let meta = reply.metadata;
                let (uid, version) = (meta.uid.as_str().into(), meta.resource_version.parse().unwrap_or(0));
                index.endpoints_written(namespace, name, EndpointsObject { uid, version, ..after });
            }
            (None, Ok(_) | Err(RequestError::NotFound(_) | RequestError::Conflict(_))) => {
                index.endpoints_deleted(namespace, name);
                if index.service(namespace, name).is_some() {
                    // It was made again meanwhile.
                    state.dirty.all(true, Event::ServiceAdded, None);
                    out.ask(WHO, namespace, name, Urgency::Now);
                } else {
                    self.services.remove(&job.key);
                    let mirrored = index.namespace(namespace).is_some_and(|s| s.mirrors.contains_key(name));
                    if mirrored {
                        out.ask(Controller::Mirrors, namespace, name, Urgency::Now);
                    }
                }
            }
            (Some(_), Err(RequestError::NamespaceTerminating)) => {}
            (_, Err(error)) => {
                state.dirty.again(job.trigger);
                end.again = Some(state.in_flight.failed(&error));
                if matches!(error, RequestError::Exists(_) | RequestError::NotFound(_)) {
                    state.in_flight.doubt();
                }
                if let (RequestError::Rejected { .. }, Some(service)) =
                    (&error, index.service(namespace, name))
                {
                    let message = format!("Failed to update endpoint {namespace}/{name}: {error}");
                    end.note = Some(Note::on(service, WHO, "FailedToUpdateEndpoint", message));
                }
                end.failure = Some(error);
            }
        }
        (end, waited)
    }

    /// Takes in what a read found, after a write without an answer or somebody else's: an object or that it is missing;
    /// nothing if the read failed. Gives that, and what has waited for it, as events.
    pub fn finish_read(
        &mut self,
        index: &mut Index,
        namespace: &Text,
        name: &Text,
        found: Option<EndpointsEvent>,
    ) -> Vec<EndpointsEvent> {
        let waited = self.of(namespace, name).in_flight.end_read(found.is_some());
        if let Some(EndpointsEvent::Seen(wire)) = &found {
            index.endpoints_found(wire);
        }
        found.into_iter().chain(waited).collect()
    }
}

impl ServiceState {
    fn delete(
        &mut self,
        namespace: &Text,
        name: &Text,
        known: &EndpointsObject,
        trigger: Trigger,
    ) -> Step<(), EndpointsJob> {
        let before = Some(known.version);
        self.send(requests::delete(namespace, name, known), |write| EndpointsJob {
            key: Key::new(WHO, namespace, name),
            trigger,
            write,
            before,
            addresses: (0, 0),
            after: None,
        })
    }

    fn send(
        &mut self,
        write: Result<Write, serde_json::Error>,
        job: impl FnOnce(Write) -> EndpointsJob,
    ) -> Step<(), EndpointsJob> {
        let Ok(write) = write else { return Step::Idle };
        self.in_flight.begin();
        Step::Send(job(write))
    }
}
