//! The EndpointSlice controller's state of each Service: facts in, keys and plans out, answers back in.
//!
//! Owns what of a Service is out of date and what its own writes were; what is there is the index's.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::events::ServiceEvents;
use super::inputs::{Inputs, Scope};
use super::plan::repack::repack;
use super::plan::{self, SlicePlan};
use crate::api::{Answer, Reply};
use crate::cache::{Node, Pod, Seconds, Service, Slice, SliceKeeper};
use crate::controller::{Controller, Key};
use crate::index::effect::Effect;
use crate::index::events::SliceEvent;
use crate::index::pods::PodIndex;
use crate::index::slice_set::SliceSet;
use crate::index::topology::Topology;
use crate::index::{Index, NodeChange, PodFact, ServiceChange};
use crate::reconcile::dirty::Dirty;
use crate::reconcile::outbox::Outbox;
use crate::reconcile::pacing::Urgency;
use crate::reconcile::slice_tracker::{Notice, SliceTracker};
use crate::reconcile::slices::{SliceState, failure_note};
use crate::reconcile::step::{End, SliceJob, SliceStep, Step};
use crate::reconcile::trigger_times::{TriggerTimes, sooner};
use crate::report::metrics::Planned;
use crate::report::note::Note;
use crate::report::trigger::{Event, Trigger};
use crate::text::Text;

const WHO: Controller = Controller::Slices;

/// Slices that could be fewer are packed when nothing has happened to their Service for so long.
pub const REPACK_AFTER: Duration = Duration::from_mins(1);
/// And then one after the other.
const REPACK_NEXT: Duration = Duration::from_secs(1);

/// What the controller remembers of one Service.
#[derive(Debug, Default)]
struct ServiceState {
    dirty: Dirty,
    trigger: TriggerTimes,
    pending: Option<Seconds>,
    tracker: SliceTracker,
    events: ServiceEvents,
    /// When the slices are packed, if there could be fewer.
    repack_at: Option<Instant>,
}

/// The state of the controller.
#[derive(Debug)]
pub struct State {
    /// At most so many endpoints are put into one slice.
    max_per_slice: usize,
    services: HashMap<Key, ServiceState>,
}

impl State {
    /// A controller that knows of no Service, and puts at most so many endpoints into one slice.
    #[must_use]
    pub fn new(max_per_slice: usize) -> Self {
        Self { max_per_slice, services: HashMap::default() }
    }

    fn of(&mut self, namespace: &Text, name: &Text) -> &mut ServiceState {
        self.services.entry(Key::new(WHO, namespace, name)).or_default()
    }

    /// Calls for a look at all Services: nothing is known of what was written before.
    pub fn take_over(&mut self, index: &Index, out: &mut Outbox) {
        self.services.clear();
        for (namespace, space) in &index.namespaces {
            for name in space.services.keys() {
                self.of(namespace, name).dirty.all(true, Event::Start, None);
                out.ask(WHO, namespace, name, Urgency::Now);
            }
        }
    }

    /// A Service came, changed or went.
    pub fn service_changed(&mut self, change: &ServiceChange, out: &mut Outbox) {
        let (namespace, name) = (&change.namespace, &change.name);
        if change.new.is_some() {
            if self.of(namespace, name).dirty.touch(change.old != change.new, Event::of_service(change)) {
                out.ask(WHO, namespace, name, Urgency::Now);
            }
            return;
        }
        // What is under way ends first: its answer is still wanted.
        let key = Key::new(WHO, namespace, name);
        if !self.services.get(&key).is_some_and(|state| state.tracker.in_flight.is_open()) {
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

    /// A node came, changed or went. The end of a node says nothing about its pods: their endpoints stay until their
    /// Service is looked at again.
    pub fn node_changed(&mut self, change: &NodeChange, out: &mut Outbox) {
        for (namespace, service) in &change.services {
            self.of(namespace, service).dirty.all(!change.gone, Event::of_node(change), Some(&change.name));
            if !change.gone {
                out.ask(WHO, namespace, service, Urgency::Now);
            }
        }
        for (namespace, service) in &change.shares {
            self.of(namespace, service).dirty.all(true, Event::ZoneShares, None);
            out.ask(WHO, namespace, service, Urgency::Now);
        }
    }

    /// The server was put back to an earlier state: what is awaited may be otherwise.
    pub fn restored(&mut self) {
        self.services.values_mut().for_each(|state| state.tracker.in_flight.forget_waiting());
    }

    /// What to do for the slices of a Service. Begins to await answers unless that is nothing.
    pub fn step(
        &mut self,
        index: &Index,
        namespace: &Text,
        name: &Text,
        now: Instant,
        out: &mut Outbox,
    ) -> SliceStep {
        let Some(service) = index.service(namespace, name) else {
            self.services.remove(&Key::new(WHO, namespace, name));
            return Step::Idle;
        };
        let max_per_slice = self.max_per_slice;
        let state = self.of(namespace, name);
        if state.tracker.in_flight.is_open() {
            return Step::Idle;
        }
        if let Some(read) = state.tracker.unknown() {
            state.tracker.in_flight.begin();
            return Step::Read(read);
        }
        if !state.dirty.is_due() {
            return state.repack(index, service, max_per_slice, now);
        }
        state.repack_at = None;
        let (trigger, plan) = if service.has_slices() {
            let around = Around { nodes: &index.nodes, topology: &index.topology, max_per_slice };
            state.decide_from_pods(index, service, &around, out)
        } else {
            state.decide_without_pods(index, service, out)
        };
        if plan.writes.is_empty() {
            return Step::Idle;
        }
        state.tracker.in_flight.begin();
        Step::Send(SliceJob {
            key: Key::new(WHO, namespace, name),
            trigger,
            max: max_per_slice,
            since: state.pending,
            planned: Planned {
                added: plan.added,
                updated: plan.changed,
                readied: plan.readied,
                unready: plan.unready,
                removed: plan.removed,
                hinting: service.hinting(),
                ..Planned::default()
            },
            writes: plan.writes,
            then: Vec::new(),
        })
    }

    /// After how long there may be something to do for a Service although nothing happens.
    pub fn rest(&mut self, index: &Index, key: &Key, now: Instant) -> Option<Duration> {
        let max_per_slice = self.max_per_slice;
        let state = self.services.get_mut(key)?;
        if state.dirty.is_due() || state.tracker.in_flight.is_open() {
            return None;
        }
        if state.repack_at.is_none() {
            let service = index.service(&key.namespace, &key.name).filter(|service| service.has_slices())?;
            let slices = index.namespace(&key.namespace)?.slices_of(SliceKeeper::Slices, &key.name);
            repack(service, slices, max_per_slice)?;
            state.repack_at = Some(now + REPACK_AFTER);
        }
        state.repack_at.map(|at| at.saturating_duration_since(now))
    }
}

impl SliceState for State {
    fn keeper(&self) -> SliceKeeper {
        SliceKeeper::Slices
    }

    fn known_tracker(&mut self, namespace: &Text, service: &Text) -> Option<&mut SliceTracker> {
        let state = self.services.get_mut(&Key::new(WHO, namespace, service));
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
        (event, slice): (Event, Option<&Text>),
        out: &mut Outbox,
    ) {
        if matches!(notice, Notice::Now | Notice::Later) {
            self.of(namespace, service).dirty.all(notice == Notice::Now, event, slice);
        }
        if matches!(notice, Notice::Now | Notice::Unread) {
            // Edits by hand often come one after the other.
            out.ask(WHO, namespace, service, Urgency::Settle);
        }
    }

    fn finish(
        &mut self,
        index: &mut Index,
        job: SliceJob,
        answers: Vec<Answer<Reply>>,
    ) -> (End, Vec<SliceEvent>) {
        let Key { namespace, name, .. } = &job.key;
        let home = (SliceKeeper::Slices, Arc::clone(name));
        let state = self.of(namespace, name);
        let applied = state.tracker.apply(index, namespace, &home, job.writes, answers);
        match &applied.failure {
            Some(_) => state.dirty.again(job.trigger),
            None => state.pending = None,
        }
        if applied.failure.is_none() && !job.then.is_empty() {
            state.tracker.in_flight.begin();
        }
        let service = index.service(namespace, name);
        let again = applied.again.filter(|_| service.is_some());
        if service.is_none() {
            self.services.remove(&job.key);
        }
        let note = failure_note(service, WHO, applied.failure.as_ref());
        (End { again, failure: applied.failure, note }, applied.released)
    }
}

/// What a plan depends on beside the Service, its pods and its slices.
struct Around<'a> {
    nodes: &'a HashMap<Text, Node>,
    topology: &'a Topology,
    max_per_slice: usize,
}

impl ServiceState {
    fn decide_from_pods(
        &mut self,
        index: &Index,
        service: &Service,
        around: &Around<'_>,
        out: &mut Outbox,
    ) -> (Trigger, SlicePlan) {
        let (no_pods, no_slices) = (PodIndex::default(), SliceSet::indexed());
        let space = index.namespace(&service.namespace);
        let pods = space.map_or(&no_pods, |space| &space.pods);
        let slices = space.and_then(|space| space.slices.get(&service.name)).unwrap_or(&no_slices);
        let incremental = self.is_incremental();
        self.observe(service, pods);
        let plan = self.plan(service, pods, slices, around, incremental);
        let left_out = self.events.left_out(service, pods, &plan, &self.dirty);
        let trigger = self.dirty.clear();
        self.pending = self.pending.filter(|_| !plan.writes.is_empty());
        let incomplete = self.events.incomplete_zones(service, pods, index);
        out.notes.extend(self.events.hints(service, &plan).into_iter().chain(left_out).chain(incomplete));
        (trigger, plan)
    }

    /// A Service that lost its selector or became an external name keeps none of the slices made from
    /// pods: what they say would not be put right any more.
    fn decide_without_pods(
        &mut self,
        index: &Index,
        service: &Service,
        out: &mut Outbox,
    ) -> (Trigger, SlicePlan) {
        let trigger = self.dirty.clear();
        self.trigger = TriggerTimes::default();
        let space = index.namespace(&service.namespace);
        let slices = space.map_or(&[][..], |space| space.slices_of(SliceKeeper::Slices, &service.name));
        let plan = plan::without_pods(service, slices);
        let lost = service.selector.is_none();
        if lost && !plan.writes.is_empty() {
            let rest = if index.endpoints(&service.namespace, &service.name).is_some() {
                "the Endpoints object of that name is now yours to edit and is mirrored"
            } else {
                "endpoints are now yours to provide"
            };
            let message = format!("The selector is gone: slices made from pods are deleted; {rest}");
            out.notes.push(Note { warning: false, ..Note::on(service, WHO, "SelectorRemoved", message) });
        }
        (trigger, plan)
    }

    /// Puts the endpoints into one slice less, if it is time and that is possible.
    fn repack(&mut self, index: &Index, service: &Service, max: usize, now: Instant) -> SliceStep {
        if self.repack_at.is_none_or(|at| at > now) || !service.has_slices() {
            return Step::Idle;
        }
        self.repack_at = None;
        let space = index.namespace(&service.namespace);
        let slices = space.map_or(&[][..], |space| space.slices_of(SliceKeeper::Slices, &service.name));
        let Some(packed) = repack(service, slices, max) else { return Step::Idle };
        self.tracker.in_flight.begin();
        self.repack_at = Some(now + REPACK_NEXT);
        Step::Send(SliceJob {
            key: Key::new(WHO, &service.namespace, &service.name),
            trigger: Trigger::of(Event::Packing),
            max,
            since: None,
            planned: Planned { hinting: service.hinting(), ..Planned::default() },
            writes: packed.fill,
            then: vec![packed.drop],
        })
    }

    /// Takes note of readiness changes that have not been seen yet.
    fn observe(&mut self, service: &Service, pods: &PodIndex) {
        let name = &service.name;
        let fresh = if self.is_incremental() {
            let changed = self.dirty.pods().map(|pod| (pod, pods.pod_of(name, pod).map(|p| &**p)));
            self.trigger.observe(service, changed)
        } else {
            self.trigger.observe_all(service, pods.pods_of(name).map(|p| &**p))
        };
        if let Some(fresh) = fresh {
            self.pending = Some(sooner(self.pending, fresh));
        }
    }

    /// Whether a look at the changed pods will do.
    fn is_incremental(&self) -> bool {
        !self.dirty.is_all() && self.trigger.is_known()
    }

    /// The plan: from the changed pods alone if that will do, otherwise from all pods.
    fn plan(
        &self,
        service: &Service,
        pods: &PodIndex,
        set: &SliceSet,
        around: &Around<'_>,
        incremental: bool,
    ) -> SlicePlan {
        let live: Vec<Arc<Slice>>;
        let all_live = set.slices().iter().all(|s| !s.deleting);
        let slices = if all_live {
            set.slices()
        } else {
            live = set.slices().iter().filter(|s| !s.deleting).cloned().collect();
            &live[..]
        };
        let inputs = Inputs {
            service,
            slices,
            nodes: around.nodes,
            topology: around.topology,
            max_per_slice: around.max_per_slice,
            trigger: self.pending,
        };
        let incremental = incremental && all_live && !service.topology_auto && !has_odd_blank(slices);
        let touched = if incremental { set.holding(self.dirty.pods()) } else { None };
        let from_changed = touched.and_then(|touched| {
            let changed = self.dirty.pods();
            let changed = changed.map(|pod| (Arc::clone(pod), pods.pod_of(&service.name, pod).map(|p| &**p)));
            plan::plan(&inputs, &Scope::Pods { changed: changed.collect(), touched })
        });
        from_changed.unwrap_or_else(|| {
            let pods: Vec<&Pod> = pods.pods_of(&service.name).map(|p| &**p).collect();
            plan::plan(&inputs, &Scope::All(pods)).unwrap_or_default()
        })
    }
}

/// Whether a slice is empty that is no lone placeholder. It stays for the sake of pods that serve at its
/// ports and are in no slice, and goes with them: a look at the changed pods can not tell.
fn has_odd_blank(slices: &[Arc<Slice>]) -> bool {
    let is_lone = |slice: &Slice| {
        slice.ports.is_empty() && slices.iter().filter(|other| other.family == slice.family).count() == 1
    };
    slices.iter().any(|slice| slice.endpoints.is_empty() && !is_lone(slice))
}
