//! The feed: events go into the index, and what they changed to the controllers that run.
//!
//! Owns the order of both: an event of an object for which an answer is awaited waits for that answer. Without
//! controllers (a standby) only the index is kept up. Knows what each kind of event is called, not what it means.

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::cache::SliceKeeper;
use crate::index::effect::Effect;
use crate::index::endpoints::EndpointsChange;
use crate::index::events::{EndpointsEvent, SliceEvent};
use crate::index::slices::SliceChange;
use crate::index::{Home, Index, NodeChange, PodFact, ServiceChange};
use crate::objects::{IpAddressWire, MetaWire, NodeWire, ObjectKind, PodWire, ServiceWire};
use crate::reconcile::context::Delivery;
use crate::reconcile::outbox::Outbox;
use crate::reconcile::slices::SliceState;
use crate::text::{Text, Uid};
use crate::{endpoints, endpointslice, mirroring};

/// The states of the controllers that run.
#[derive(Clone, Debug, Default)]
pub struct States {
    /// Of the EndpointSlice controller.
    pub slices: Option<Arc<Mutex<endpointslice::state::State>>>,
    /// Of the Endpoints controller.
    pub endpoints: Option<Arc<Mutex<endpoints::state::State>>>,
    /// Of the mirroring controller.
    pub mirrors: Option<Arc<Mutex<mirroring::state::State>>>,
}

impl States {
    /// The state of the controller that keeps such slices, if it runs.
    fn keeping(&self, keeper: SliceKeeper) -> Option<&Mutex<dyn SliceState>> {
        match keeper {
            SliceKeeper::Slices => self.slices.as_deref().map(|state| state as &Mutex<dyn SliceState>),
            SliceKeeper::Mirrors => self.mirrors.as_deref().map(|state| state as &Mutex<dyn SliceState>),
        }
    }
}

/// Where what follows from an event goes.
pub type PassOn = Box<dyn Fn(Outbox) + Send + Sync>;

/// Puts events into the index and tells the controllers.
pub struct Feed {
    index: Arc<Mutex<Index>>,
    states: Mutex<States>,
    pass_on: PassOn,
    /// Told of each change of an allocated address.
    on_address: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

/// Calls a block with each of some controllers' states, those that run.
macro_rules! tell {
    ($states:expr, [$($who:ident),*], |$state:ident| $call:expr) => {
        {
            $(if let Some($state) = &$states.$who {
                let $state = &mut *$state.lock();
                $call;
            })*
        }
    };
}

impl Feed {
    /// A feed without controllers.
    #[must_use]
    pub fn new(index: Arc<Mutex<Index>>, pass_on: PassOn, on_address: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { index, states: Mutex::default(), pass_on, on_address }
    }

    /// From now on these controllers are told of what happens. All that there is calls for a look.
    pub fn lead(&self, states: &States) {
        let index = self.index.lock();
        let mut out = Outbox::default();
        *self.states.lock() = states.clone();
        tell!(states, [slices, endpoints, mirrors], |state| state.take_over(&index, &mut out));
        drop(index);
        self.flush(out);
    }

    fn flush(&self, out: Outbox) {
        if !out.is_empty() {
            (self.pass_on)(out);
        }
    }

    /// Changes the index and tells the controllers; passes on what follows.
    fn change(&self, change: impl FnOnce(&mut Index, &States, &mut Outbox)) {
        let mut out = Outbox::default();
        change(&mut self.index.lock(), &self.states.lock(), &mut out);
        self.flush(out);
    }

    /// A node as it is now.
    pub fn node(&self, wire: &NodeWire) {
        self.change(|index, states, out| {
            let change = index.apply_node(wire);
            node_changed(states, &change, out);
        });
    }

    /// A node that is gone.
    pub fn node_deleted(&self, name: &str) {
        self.change(|index, states, out| {
            let change = index.delete_node(name);
            node_changed(states, &change, out);
        });
    }

    /// A Service as it is now.
    pub fn service(&self, wire: &ServiceWire) {
        self.change(|index, states, out| {
            let change = index.apply_service(wire);
            service_changed(index, states, &change, out);
        });
    }

    /// A Service that is gone.
    pub fn service_deleted(&self, namespace: &str, name: &str) {
        self.change(|index, states, out| {
            if let Some(change) = index.delete_service(namespace, name) {
                service_changed(index, states, &change, out);
            }
        });
    }

    /// A pod as it is now.
    pub fn pod(&self, wire: &PodWire) {
        self.change(|index, states, out| {
            if let Some(fact) = index.apply_pod(wire) {
                pod_changed(index, states, &fact, out);
            }
        });
    }

    /// A pod that is gone.
    pub fn pod_deleted(&self, namespace: &str, name: &str) {
        self.change(|index, states, out| {
            let fact = index.delete_pod(namespace, name);
            pod_changed(index, states, &fact, out);
        });
    }

    /// An `IPAddress` as it is now.
    pub fn address(&self, wire: &IpAddressWire) {
        let changed = self.index.lock().apply_address(wire);
        if changed.is_some() {
            (self.on_address)();
        }
    }

    /// An `IPAddress` that is gone.
    pub fn address_deleted(&self, name: &str) {
        let changed = self.index.lock().delete_address(name);
        if changed.is_some() {
            (self.on_address)();
        }
    }

    /// An event of a slice.
    pub fn slice(&self, event: SliceEvent) {
        self.change(|index, states, out| slice_event(index, states, event, out));
    }

    /// An event of an `Endpoints` object.
    pub fn endpoints(&self, event: EndpointsEvent) {
        self.change(|index, states, out| endpoints_event(index, states, event, out));
    }

    /// A list of a kind begins.
    pub fn list_begins(&self, kind: ObjectKind) {
        self.index.lock().list_begins(kind);
    }

    /// An object is there, though it cannot be read.
    pub fn is_there(&self, kind: ObjectKind, namespace: &str, name: &str) {
        self.index.lock().is_there(kind, namespace, name);
    }

    /// The server was put back to an earlier state; a list of the kind follows.
    pub fn restored(&self, kind: ObjectKind) {
        self.change(|index, states, _| {
            index.restored(kind);
            match kind {
                ObjectKind::Slices => tell!(states, [slices, mirrors], |state| state.restored()),
                ObjectKind::Endpoints => tell!(states, [endpoints], |state| state.restored()),
                _ => {}
            }
        });
    }

    /// The list of a kind is complete: what it did not have is gone.
    pub fn list_ends(&self, kind: ObjectKind) {
        let missing = self.index.lock().list_ends(kind);
        for (namespace, name) in missing {
            match kind {
                ObjectKind::Nodes => self.node_deleted(&name),
                ObjectKind::Services => self.service_deleted(&namespace, &name),
                ObjectKind::Pods => self.pod_deleted(&namespace, &name),
                ObjectKind::Slices => self.slice(SliceEvent::Missing { namespace, name }),
                ObjectKind::Endpoints => self.endpoints(EndpointsEvent::Missing { namespace, name }),
                ObjectKind::Addresses => self.address_deleted(&name),
                // Not in the index.
                _ => {}
            }
        }
        if kind == ObjectKind::Endpoints {
            self.change(|index, states, out| {
                if index.take_endpoints_restored() {
                    tell!(states, [endpoints], |state| state.doubt_all(index, out));
                }
            });
        }
    }
}

impl Delivery for Feed {
    fn slices(&self, events: Vec<SliceEvent>) {
        for event in events {
            self.slice(event);
        }
    }

    fn endpoints(&self, events: Vec<EndpointsEvent>) {
        for event in events {
            Feed::endpoints(self, event);
        }
    }

    fn pass_on(&self, out: Outbox) {
        self.flush(out);
    }
}

fn node_changed(states: &States, change: &NodeChange, out: &mut Outbox) {
    tell!(states, [slices, endpoints], |state| state.node_changed(change, out));
}

fn service_changed(index: &Index, states: &States, change: &ServiceChange, out: &mut Outbox) {
    tell!(states, [slices], |state| state.service_changed(change, out));
    tell!(states, [endpoints, mirrors], |state| state.service_changed(index, change, out));
}

fn pod_changed(index: &Index, states: &States, fact: &PodFact, out: &mut Outbox) {
    let effect = Effect::of(&fact.change);
    if effect == Effect::None {
        return;
    }
    let selects = |service: &Text| {
        index.namespace(&fact.namespace).is_some_and(|space| space.pods.pod_of(service, &fact.name).is_some())
    };
    let effects: SmallVec<[(Text, Effect); 2]> = fact
        .change
        .services
        .iter()
        .map(|(service, moved)| {
            let effect = if *moved { Effect::of_moving(&fact.change, selects(service)) } else { effect };
            (Arc::clone(service), effect)
        })
        .collect();
    tell!(states, [slices, endpoints], |state| state.pod_changed(fact, &effects, out));
}

/// Puts the event aside if some controller awaits answers about the slices of one of these homes.
fn hold_slice(
    states: &States,
    namespace: &Text,
    homes: &[Option<Home>],
    mut event: SliceEvent,
) -> Result<(), SliceEvent> {
    for (keeper, service) in homes.iter().flatten() {
        let Some(state) = states.keeping(*keeper) else { continue };
        match state.lock().hold(namespace, service, event) {
            Ok(()) => return Ok(()),
            Err(back) => event = back,
        }
    }
    Err(event)
}

fn slice_event(index: &mut Index, states: &States, event: SliceEvent, out: &mut Outbox) {
    let (meta, gone) = match &event {
        SliceEvent::Seen(wire) => (&wire.metadata, false),
        SliceEvent::Changed(meta) => (&**meta, false),
        SliceEvent::Deleted(meta) => {
            if index.take_tombstone(&Uid::from(meta.uid.as_str())) {
                return;
            }
            (&**meta, true)
        }
        SliceEvent::Missing { namespace, name } => {
            let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
            return slice_gone(index, states, &namespace, &name, out);
        }
    };
    if gone {
        let (namespace, name) = index.names(&meta.namespace, &meta.name);
        return slice_gone(index, states, &namespace, &name, out);
    }
    let homes = index.slice_homes(meta);
    if homes[0].is_none() && homes[1].is_none() {
        return;
    }
    let (namespace, _) = index.names(&meta.namespace, &meta.name);
    let change = match hold_slice(states, &namespace, &homes, event) {
        Err(SliceEvent::Seen(wire)) => index.apply_slice(*wire),
        Err(SliceEvent::Changed(meta)) => index.apply_slice_metadata(&meta),
        Ok(()) | Err(SliceEvent::Deleted(_) | SliceEvent::Missing { .. }) => return,
    };
    slice_changed(states, &namespace, &change, out);
}

fn slice_changed(states: &States, namespace: &Text, change: &SliceChange, out: &mut Outbox) {
    if let Some(left) = &change.left
        && let Some(state) = states.keeping(left.home.0)
    {
        state.lock().slice_left(namespace, left, out);
    }
    if let Some(kept) = &change.kept
        && let Some(state) = states.keeping(kept.home.0)
    {
        state.lock().slice_kept(namespace, kept, out);
    }
}

fn slice_gone(index: &mut Index, states: &States, namespace: &Text, name: &Text, out: &mut Outbox) {
    let event = SliceEvent::Missing { namespace: Arc::clone(namespace), name: Arc::clone(name) };
    let home = index.home_of(namespace, name);
    if hold_slice(states, namespace, &[home], event).is_ok() {
        return;
    }
    let Some(((keeper, service), old)) = index.slice_gone(namespace, name) else { return };
    if let Some(state) = states.keeping(keeper) {
        state.lock().slice_gone(namespace, &service, old.as_ref(), out);
    }
}

fn endpoints_event(index: &mut Index, states: &States, event: EndpointsEvent, out: &mut Outbox) {
    let (namespace, name) = match &event {
        EndpointsEvent::Seen(wire) => endpoints_are_there(index, &wire.metadata),
        EndpointsEvent::Changed(meta) => endpoints_are_there(index, meta),
        EndpointsEvent::Deleted(meta) => index.names(&meta.namespace, &meta.name),
        EndpointsEvent::Missing { namespace, name } => (Arc::clone(namespace), Arc::clone(name)),
    };
    let mut event = event;
    if let Some(state) = &states.endpoints {
        match state.lock().hold(&namespace, &name, event) {
            Ok(()) => return,
            Err(back) => event = back,
        }
    }
    let change = match event {
        EndpointsEvent::Seen(wire) => index.apply_endpoints(*wire),
        EndpointsEvent::Changed(meta) => index.apply_endpoints_metadata(&meta),
        EndpointsEvent::Deleted(meta) if index.is_overtaken(&meta) => None,
        EndpointsEvent::Deleted(_) | EndpointsEvent::Missing { .. } => {
            index.endpoints_gone(&namespace, &name)
        }
    };
    if let Some(change) = change {
        endpoints_changed(index, states, &change, out);
    }
}

/// Notes that a list has the object, whatever becomes of the event.
fn endpoints_are_there(index: &mut Index, meta: &MetaWire) -> (Text, Text) {
    index.is_there(ObjectKind::Endpoints, &meta.namespace, &meta.name);
    index.names(&meta.namespace, &meta.name)
}

fn endpoints_changed(index: &Index, states: &States, change: &EndpointsChange, out: &mut Outbox) {
    tell!(states, [endpoints, mirrors], |state| state.endpoints_changed(index, change, out));
}
