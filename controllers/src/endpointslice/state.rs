//! The EndpointSlice controller's state of each Service: events of slices in, plans out, answers
//! back in.
//!
//! What we wrote is in the cache as soon as the server has taken it, so that a plan is never made
//! from slices older than our own last write. Events that come while writes are under way wait for
//! their answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::inputs::{Inputs, Scope, Topology};
use super::plan::{self, Change, SlicePlan};
use super::told::HintState;
use crate::api::Refusal;
use crate::backoff::Backoff;
use crate::text::{Text, Uid};
use crate::trigger::{TriggerTimes, sooner};
use crate::watch::cache::{AddressType, Hinting, Node, Pod, Seconds, Service, Slice, SliceKeeper};
use crate::watch::dirty::Dirty;
use crate::watch::index::{Population, Shelf};
use crate::watch::objects::SliceWire;
use crate::watch::world::{Controller, Note, Space, World};

/// What the controller remembers of one Service.
#[derive(Debug, Default)]
pub struct SliceState {
    pub(crate) dirty: Dirty,
    trigger: TriggerTimes,
    pub(super) pending: Option<Seconds>,
    pub(crate) traffic: Traffic,
    pub(super) hints: SmallVec<[(AddressType, HintState); 2]>,
    /// Pods that were told to be left out.
    pub(super) left_out: BTreeSet<Text>,
}

/// Writes or a read under way, and what came in meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) open: bool,
    pub(crate) waiting: Vec<SliceEvent>,
    /// A write had no answer, or is refused again and again: what is there has to be read before the
    /// next plan.
    pub(crate) uncertain: bool,
    pub(crate) backoff: Backoff,
    /// Slices that we made or wrote and that have not gone since.
    pub(crate) written: Written,
}

/// Slices that a controller wrote, each with the generation that its last write made.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<(Uid, i64)>);

impl Written {
    /// The slice was written.
    pub(crate) fn note(&mut self, uid: &Uid, generation: i64) {
        match self.0.iter_mut().find(|(known, _)| known == uid) {
            Some(known) => known.1 = generation,
            None => self.0.push((uid.clone(), generation)),
        }
    }

    /// The generation that the last write of the slice made; none if it was not written.
    pub(crate) fn generation(&self, uid: &Uid) -> Option<i64> {
        self.0.iter().find(|(known, _)| known == uid).map(|(_, generation)| *generation)
    }

    /// Whether the slice was written.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.generation(uid).is_some()
    }

    /// The slice is gone, or somebody else's now.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.0.retain(|(known, _)| known != uid);
    }
}

/// An event of a slice.
#[derive(Debug)]
pub(crate) enum SliceEvent {
    Seen(Box<SliceWire>),
    /// Seen, and not read yet: JSON.
    Unread(Box<[u8]>),
    Gone(Text),
}

/// What has to be done for a key.
#[derive(Debug)]
pub enum Step<J> {
    /// Nothing.
    Idle,
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
    /// What called for it: `pods` or `service`, `selector removed`, `external name`, `endpoints`.
    pub cause: &'static str,
    /// The writes.
    pub changes: Vec<Change>,
    /// Endpoints that come, and that go.
    pub moved: (usize, usize),
    /// What the endpoints get their hints from.
    pub hinting: Hinting,
}

/// How a job ended.
#[derive(Debug, Default)]
pub struct End {
    /// The key has to be looked at again, after this time.
    pub again: Option<Duration>,
    /// What went wrong, if something did.
    pub failure: Option<Refusal>,
    /// What to tell a person of it, unless it was told before.
    pub note: Option<Note>,
}

impl World {
    /// What to do for the slices of a Service.
    pub fn plan_slices(&mut self, namespace: &Text, name: &Text) -> Step<SliceJob> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Step::Idle };
        let Some(service) = space.services.get(name).cloned() else {
            space.slice_states.remove(name);
            return Step::Idle;
        };
        let shelf = space.slices.entry(Arc::clone(name)).or_insert_with(Shelf::indexed);
        let state = space.slice_states.entry(Arc::clone(name)).or_default();
        if state.traffic.open || !state.dirty.is_due() {
            return Step::Idle;
        }
        if state.traffic.uncertain {
            state.traffic.open = true;
            return Step::Read;
        }
        if !service.has_slices() {
            return self.plan_without_pods(namespace, &service);
        }
        let narrow = state.is_narrow();
        state.observe(&service, &space.population);
        let around =
            Around { nodes: &self.nodes, topology: &self.topology, max_per_slice: self.limits.max_per_slice };
        let plan = state.plan(&service, &space.population, shelf, &around, narrow);
        let left_out = state.tell_left_out(&service, &space.population, &plan);
        state.dirty.clear();
        state.pending = state.pending.filter(|_| !plan.changes.is_empty());
        state.traffic.open = !plan.changes.is_empty();
        for note in state.tell_hints(&service, &plan).into_iter().chain(left_out) {
            self.note(note);
        }
        job(&service, if narrow { "pods" } else { "service" }, plan)
    }

    /// A Service that lost its selector or became an external name keeps none of the slices made from
    /// pods: what they say would not be put right any more. Slices that somebody made by hand are not
    /// owned by the Service and stay.
    fn plan_without_pods(&mut self, namespace: &Text, service: &Service) -> Step<SliceJob> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Step::Idle };
        let state = space.slice_states.entry(Arc::clone(&service.name)).or_default();
        state.dirty.clear();
        state.trigger = TriggerTimes::default();
        let slices = space.slices.get(&service.name).map_or(&[][..], |shelf| shelf.slices());
        let owned = slices.iter().filter(|s| s.is_owned_by("Service", &service.uid) && !s.deleting);
        let changes: Vec<Change> = owned.map(|s| Change::Delete(Arc::clone(s))).collect();
        let removed =
            changes.iter().map(|c| if let Change::Delete(s) = c { s.endpoints.len() } else { 0 }).sum();
        state.traffic.open = !changes.is_empty();
        if service.selector.is_none() && !changes.is_empty() {
            let mirrored = space.endpoints.contains_key(&service.name);
            let rest = if mirrored {
                "the Endpoints object of that name is now yours to edit and is mirrored"
            } else {
                "endpoints are now yours to provide"
            };
            let message = format!("The selector is gone: slices made from pods are deleted; {rest}");
            self.note(Note {
                warning: false,
                ..Note::on(service, Controller::Slices, "SelectorRemoved", message)
            });
        }
        let cause = if service.selector.is_none() { "selector removed" } else { "external name" };
        job(service, cause, SlicePlan { changes, removed, ..SlicePlan::default() })
    }
}

/// What a plan depends on beside the Service, its pods and its slices.
struct Around<'a> {
    nodes: &'a HashMap<Text, Node>,
    topology: &'a Topology,
    max_per_slice: usize,
}

impl SliceState {
    /// Takes note of readiness changes that have not been seen yet.
    fn observe(&mut self, service: &Service, population: &Population) {
        let name = &service.name;
        let fresh = if self.is_narrow() {
            let changed = self.dirty.pods().map(|pod| (pod, population.pod_of(name, pod).map(|p| &**p)));
            self.trigger.observe(service, changed)
        } else {
            self.trigger.observe_all(service, population.pods_of(name).map(|p| &**p))
        };
        if let Some(fresh) = fresh {
            self.pending = sooner(self.pending, fresh);
        }
    }

    /// Whether a look at the changed pods will do.
    fn is_narrow(&self) -> bool {
        !self.dirty.is_all() && self.trigger.is_known()
    }

    /// The plan: from the changed pods alone if that will do, otherwise from all pods.
    fn plan(
        &self,
        service: &Service,
        population: &Population,
        shelf: &Shelf,
        around: &Around<'_>,
        narrow: bool,
    ) -> SlicePlan {
        let live: Vec<Arc<Slice>>;
        let all_live = shelf.slices().iter().all(|s| !s.deleting);
        let slices = if all_live {
            shelf.slices()
        } else {
            live = shelf.slices().iter().filter(|s| !s.deleting).cloned().collect();
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
        let narrow = narrow && all_live && !service.topology_auto && !has_odd_blank(slices);
        let touched = if narrow { shelf.holding(self.dirty.pods()) } else { None };
        let from_changed = touched.and_then(|touched| {
            let pods = self.dirty.pods();
            let changed =
                pods.map(|pod| (Arc::clone(pod), population.pod_of(&service.name, pod).map(|p| &**p)));
            plan::plan(&inputs, &Scope::Pods { changed: changed.collect(), touched })
        });
        from_changed.unwrap_or_else(|| {
            let pods: Vec<&Pod> = population.pods_of(&service.name).map(|p| &**p).collect();
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

fn job(service: &Service, cause: &'static str, plan: SlicePlan) -> Step<SliceJob> {
    if plan.changes.is_empty() {
        return Step::Idle;
    }
    Step::Send(SliceJob {
        controller: Controller::Slices,
        cause,
        namespace: Arc::clone(&service.namespace),
        service: Arc::clone(&service.name),
        moved: (plan.added, plan.removed),
        hinting: service.hinting(),
        changes: plan.changes,
    })
}

impl Space {
    pub(crate) fn traffic(&mut self, keeper: SliceKeeper, service: &Text) -> &mut Traffic {
        match keeper {
            SliceKeeper::Slices => &mut self.slice_states.entry(Arc::clone(service)).or_default().traffic,
            SliceKeeper::Mirrors => &mut self.mirror_states.entry(Arc::clone(service)).or_default().traffic,
        }
    }

    pub(crate) fn is_busy(&self, keeper: SliceKeeper, service: &Text) -> bool {
        match keeper {
            SliceKeeper::Slices => self.slice_states.get(service).is_some_and(|s| s.traffic.open),
            SliceKeeper::Mirrors => self.mirror_states.get(service).is_some_and(|s| s.traffic.open),
        }
    }
}
