//! The Endpoints controller's state of each Service: events of `Endpoints` in, plans out, answers
//! back in.

use std::sync::Arc;

use serde::Serialize;

use super::plan::{self, Desired};
use crate::api::{Answer, Refusal, Reply, Resource, Verb, Write};
use crate::backoff::Backoff;
use crate::endpointslice::apply::delete_body;
use crate::endpointslice::state::{End, Step};
use crate::keys;
use crate::subsets::{Subset, SubsetsBody, digest};
use crate::text::{Labels, Text, Uid};
use crate::trigger::{TriggerTimes, sooner};
use crate::watch::cache::{Owner, Seconds, Service, UNKNOWN_VERSION, rfc3339, version};
use crate::watch::dirty::Dirty;
use crate::watch::objects::{EndpointsWire, MetaWire};
use crate::watch::world::{Controller, Note, Pace, World};

/// What the annotation of an object says that has more addresses than it lists.
const TRUNCATED: &str = "truncated";

/// An `Endpoints` object as far as it is kept: its addresses only where they may have to be mirrored.
#[derive(Clone, Debug)]
pub struct EndpointsObject {
    /// Uid.
    pub uid: Uid,
    /// Version of the object.
    pub version: u64,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Owners.
    pub owners: Arc<[Owner]>,
    /// Finalizers.
    pub finalizers: Arc<[Text]>,
    /// Whether deletion has been asked for.
    pub deleting: bool,
    /// Stands for the addresses.
    pub digest: u64,
    /// The addresses; none where this was written by the Endpoints controller.
    pub subsets: Option<Arc<Vec<Subset>>>,
}

impl EndpointsObject {
    /// Whether the Endpoints controller wrote it, and nobody has asked for its deletion.
    fn is_made_here(&self) -> bool {
        let manager = self.labels.get(keys::ENDPOINTS_MANAGED_BY);
        manager.is_some_and(|manager| &**manager == keys::ENDPOINTS_MANAGER) && !self.deleting
    }
}

/// What the controller remembers of one Service.
#[derive(Debug, Default)]
pub struct EndpointsState {
    pub(crate) dirty: Dirty,
    trigger: TriggerTimes,
    pending: Option<Seconds>,
    open: bool,
    uncertain: bool,
    backoff: Backoff,
    pub(crate) waiting: Vec<EndpointsEvent>,
}

impl EndpointsState {
    /// Whether the answer to a write or a read is awaited.
    pub(crate) fn is_writing(&self) -> bool {
        self.open
    }
}

/// An event of an `Endpoints` object.
#[derive(Debug)]
pub(crate) enum EndpointsEvent {
    Seen(Box<EndpointsWire>),
    /// Seen, and not read yet: JSON.
    Unread(Box<[u8]>),
    Gone,
    /// What had this metadata is gone.
    Deleted(Box<MetaWire>),
}

/// A write of the Endpoints controller.
#[derive(Debug)]
pub struct EndpointsJob {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// The write.
    pub write: Write,
    after: Option<EndpointsObject>,
}

impl World {
    /// An `Endpoints` object as it is now.
    pub fn endpoints(&mut self, wire: EndpointsWire) {
        let (namespace, _) = self.space(&wire.metadata.namespace);
        let name = self.shared.texts.text(&wire.metadata.name);
        // Before anything else: a list that has it does not end its life.
        self.relists.endpoints.see(&namespace, &name);
        let Some(space) = self.spaces.get_mut(&namespace) else { return };
        if let Some(state) = space.endpoints_states.get_mut(&name).filter(|s| s.open) {
            state.waiting.push(EndpointsEvent::Seen(Box::new(wire)));
            return;
        }
        let uid = Uid::from(wire.metadata.uid.as_str());
        let known = space.endpoints.get(&name).filter(|k| k.uid == uid);
        if known.is_some_and(|k| k.version >= version(&wire.metadata)) {
            return;
        }
        let leader = wire.metadata.annotations.0.iter().any(|(k, _)| k == keys::LEADER);
        let object = read(wire, &mut self.shared);
        let edited = known.is_some_and(|k| k.digest != object.digest || k.labels != object.labels);
        let first = !space.endpoints.contains_key(&name);
        let service = space.services.get(&name).cloned();
        space.endpoints.insert(Arc::clone(&name), object);
        let mirrorable =
            service.as_ref().is_some_and(|s| s.selector.is_none()) || space.mirrors.contains_key(&name);
        // What is left over from a Service that went while nobody looked is only told apart from
        // somebody's own object when the controller starts.
        if first && service.is_none() && !leader && self.starting {
            space.endpoints_states.entry(Arc::clone(&name)).or_default().dirty.all(true);
            self.wake(Controller::Endpoints, &namespace, &name, Pace::Now);
        }
        if service.is_some_and(|s| s.selector.is_some())
            && let Some(space) = self.spaces.get_mut(&namespace)
        {
            // Somebody else wrote it; one edit by hand is often followed by the next.
            space.endpoints_states.entry(Arc::clone(&name)).or_default().dirty.all(edited);
            if edited {
                self.wake(Controller::Endpoints, &namespace, &name, Pace::Gather);
            }
        }
        if mirrorable {
            self.wake(Controller::Mirrors, &namespace, &name, Pace::Now);
        }
    }

    /// An `Endpoints` object that is gone.
    pub fn endpoints_deleted(&mut self, meta: &MetaWire) {
        if let Some(space) = self.spaces.get_mut(meta.namespace.as_str()) {
            if let Some(state) = space.endpoints_states.get_mut(meta.name.as_str()).filter(|s| s.open) {
                state.waiting.push(EndpointsEvent::Deleted(Box::new(meta.clone())));
                return;
            }
            // It was made again since, and the answer was faster.
            let other = |known: &EndpointsObject| known.uid != Uid::from(meta.uid.as_str());
            let known = space.endpoints.get(meta.name.as_str()).filter(|known| other(known));
            if known.is_some_and(|known| known.version > version(meta)) {
                return;
            }
        }
        self.endpoints_gone(&meta.namespace, &meta.name);
    }

    pub(crate) fn endpoints_gone(&mut self, namespace: &str, name: &str) {
        let (namespace, space) = self.space(namespace);
        if let Some(state) = space.endpoints_states.get_mut(name).filter(|s| s.open) {
            state.waiting.push(EndpointsEvent::Gone);
            return;
        }
        let Some((name, _)) = space.endpoints.remove_entry(name) else { return };
        if space.services.contains_key(&name) {
            space.endpoints_states.entry(Arc::clone(&name)).or_default().dirty.all(true);
            // A server deletes it with its Service, whose end may be on its way on another watch.
            self.wake(Controller::Endpoints, &namespace, &name, Pace::Gather);
        }
        self.wake(Controller::Mirrors, &namespace, &name, Pace::Now);
    }

    /// All `Endpoints` of Services are looked at: what was written may have been undone.
    pub(crate) fn endpoints_doubted(&mut self) {
        let mut keys = Vec::new();
        for (namespace, space) in &mut self.spaces {
            for name in space.services.keys() {
                space.endpoints_states.entry(Arc::clone(name)).or_default().dirty.all(true);
                keys.push((Arc::clone(namespace), Arc::clone(name)));
            }
        }
        for (namespace, name) in keys {
            self.wake(Controller::Endpoints, &namespace, &name, Pace::Now);
        }
    }

    /// What to do for the `Endpoints` of a Service.
    pub fn plan_endpoints(&mut self, namespace: &Text, name: &Text) -> Step<EndpointsJob> {
        let Some(space) = self.spaces.get_mut(namespace) else { return Step::Idle };
        let state = space.endpoints_states.entry(Arc::clone(name)).or_default();
        if state.open || !state.dirty.is_due() {
            return Step::Idle;
        }
        if state.uncertain {
            state.open = true;
            return Step::Read;
        }
        let known = space.endpoints.get(name);
        let Some(service) = space.services.get(name).cloned() else {
            let Some(known) = known else {
                space.endpoints_states.remove(name);
                return Step::Idle;
            };
            state.dirty.clear();
            return deletion(namespace, name, known, state);
        };
        if !service.has_slices() {
            state.dirty.clear();
            // Without a selector it is the user's; with one nobody would put it right any more.
            let left = known.filter(|known| service.selector.is_some() && known.is_made_here());
            return left.map_or(Step::Idle, |known| deletion(namespace, name, known, state));
        }
        let pods = || space.population.pods_of(name).map(|p| &**p);
        let fresh = if state.dirty.is_all() || !state.trigger.is_known() {
            state.trigger.observe_all(&service, pods())
        } else {
            let changed =
                state.dirty.pods().map(|pod| (pod, space.population.pod_of(name, pod).map(|p| &**p)));
            state.trigger.observe(&service, changed)
        };
        if let Some(fresh) = fresh {
            state.pending = sooner(state.pending, fresh);
        }
        state.dirty.clear();
        let desired = plan::desired(&service, pods());
        let trigger = state.pending;
        match write(&service, known, &desired, trigger) {
            None => {
                state.pending = None;
                Step::Idle
            }
            Some((write, after)) => {
                state.open = true;
                Step::Send(EndpointsJob {
                    namespace: Arc::clone(namespace),
                    name: Arc::clone(name),
                    write,
                    after,
                })
            }
        }
    }

    /// Takes in the answer to a job's write.
    pub fn finish_endpoints(&mut self, job: EndpointsJob, answer: Answer<Reply>) -> End {
        let Some(space) = self.spaces.get_mut(&job.namespace) else { return End::default() };
        let state = space.endpoints_states.entry(Arc::clone(&job.name)).or_default();
        state.open = false;
        let waiting = std::mem::take(&mut state.waiting);
        let mut end = End::default();
        match (job.after, answer) {
            (Some(after), Ok(reply)) => {
                state.backoff.reset();
                state.pending = None;
                let meta = reply.metadata;
                let object = EndpointsObject {
                    uid: meta.uid.as_str().into(),
                    version: meta.resource_version.parse().unwrap_or(0),
                    ..after
                };
                space.endpoints.insert(Arc::clone(&job.name), object);
                self.relists.endpoints.see(&job.namespace, &job.name);
            }
            (None, Ok(_) | Err(Refusal::NotFound(_) | Refusal::Conflict(_))) => {
                space.endpoints.remove(&job.name);
                if space.services.contains_key(&job.name) {
                    // It was made again meanwhile.
                    state.dirty.all(true);
                    self.wake(Controller::Endpoints, &job.namespace, &job.name, Pace::Now);
                } else {
                    space.endpoints_states.remove(&job.name);
                    if space.mirrors.contains_key(&job.name) {
                        self.wake(Controller::Mirrors, &job.namespace, &job.name, Pace::Now);
                    }
                }
            }
            (Some(_), Err(Refusal::NamespaceTerminating)) => {}
            (_, Err(refusal)) => {
                state.dirty.all(true);
                state.uncertain |=
                    refusal.is_uncertain() || matches!(refusal, Refusal::Exists(_) | Refusal::NotFound(_));
                end.again = Some(state.backoff.after(&refusal));
                state.uncertain |= matches!(refusal, Refusal::Conflict(_)) && state.backoff.is_stuck();
                if let (Refusal::Rejected { .. }, Some(service)) =
                    (&refusal, space.services.get(&job.name).cloned())
                {
                    let message =
                        format!("Failed to update endpoint {}/{}: {refusal}", job.namespace, job.name);
                    end.note =
                        Some(Note::on(&service, Controller::Endpoints, "FailedToUpdateEndpoint", message));
                }
                end.failure = Some(refusal);
            }
        }
        self.take_waiting_endpoints(&job.namespace, &job.name, waiting);
        end
    }

    fn take_waiting_endpoints(&mut self, namespace: &Text, name: &Text, waiting: Vec<EndpointsEvent>) {
        for event in waiting {
            match event {
                EndpointsEvent::Seen(wire) => self.endpoints(*wire),
                EndpointsEvent::Unread(json) => self.endpoints_put_aside(namespace, name, &json),
                EndpointsEvent::Gone => self.endpoints_gone(namespace, name),
                EndpointsEvent::Deleted(meta) => self.endpoints_deleted(&meta),
            }
        }
    }

    /// An `Endpoints` object that was put aside unread.
    fn endpoints_put_aside(&mut self, namespace: &Text, name: &Text, json: &[u8]) {
        if self.endpoints_seen(json).is_err()
            && let Some(space) = self.spaces.get_mut(namespace)
            && let Some(state) = space.endpoints_states.get_mut(name)
        {
            // What is there is asked for before the next plan.
            state.uncertain = true;
        }
    }

    /// Takes in what a read found after a write without an answer: an object or that there is none;
    /// nothing if the read failed. See [`World::slices_read`].
    pub fn endpoints_read(&mut self, namespace: &Text, name: &Text, found: Option<Option<EndpointsWire>>) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let state = space.endpoints_states.entry(Arc::clone(name)).or_default();
        state.open = false;
        state.uncertain = found.is_none();
        let waiting = std::mem::take(&mut state.waiting);
        match found {
            Some(Some(wire)) => {
                if let Some(known) = space.endpoints.get_mut(name)
                    && known.version > version(&wire.metadata)
                {
                    known.version = UNKNOWN_VERSION;
                }
                self.endpoints(wire);
            }
            Some(None) => self.endpoints_gone(namespace, name),
            None => {}
        }
        self.take_waiting_endpoints(namespace, name, waiting);
    }

    /// Takes in the addresses of an object of our own, which are wanted for mirroring. An object that
    /// came, went or was made anew since they were asked for is the watch's to tell.
    pub fn addresses_read(&mut self, namespace: &Text, name: &Text, found: Option<EndpointsWire>) {
        let Some(mut wire) = found else { return };
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let subsets = std::mem::take(&mut wire.subsets);
        let subsets: Vec<Subset> =
            subsets.into_iter().map(|s| Subset::read(s, namespace, &mut self.shared)).collect();
        let object = EndpointsObject {
            digest: digest(&subsets),
            subsets: Some(Arc::new(subsets)),
            ..read(wire, &mut self.shared)
        };
        if let Some(known) = space.endpoints.get_mut(name)
            && known.uid == object.uid
            && known.version <= object.version
        {
            *known = object;
        }
    }
}

fn deletion(
    namespace: &Text,
    name: &Text,
    known: &EndpointsObject,
    state: &mut EndpointsState,
) -> Step<EndpointsJob> {
    let Ok(body) = delete_body(&known.uid) else { return Step::Idle };
    state.open = true;
    let write = Write {
        verb: Verb::Delete,
        resource: Resource::Endpoints,
        namespace: Some(Arc::clone(namespace)),
        name: Some(Arc::clone(name)),
        status: false,
        body: body.into(),
    };
    Step::Send(EndpointsJob { namespace: Arc::clone(namespace), name: Arc::clone(name), write, after: None })
}

/// Reads an object; the addresses of those that the Endpoints controller wrote are not kept.
fn read(wire: EndpointsWire, shared: &mut crate::watch::cache::Shared) -> EndpointsObject {
    let namespace = wire.metadata.namespace;
    let ours = wire
        .metadata
        .labels
        .0
        .iter()
        .any(|(k, v)| k == keys::ENDPOINTS_MANAGED_BY && v == keys::ENDPOINTS_MANAGER);
    let subsets: Vec<Subset> =
        wire.subsets.into_iter().map(|s| Subset::read(s, &namespace, shared)).collect();
    EndpointsObject {
        uid: wire.metadata.uid.as_str().into(),
        version: wire.metadata.resource_version.parse().unwrap_or(0),
        labels: shared.texts.labels(&wire.metadata.labels.0),
        annotations: shared.texts.labels(&wire.metadata.annotations.0),
        owners: wire.metadata.owner_references.iter().map(|o| Owner::read(o, shared)).collect(),
        finalizers: wire.metadata.finalizers.iter().map(|f| shared.texts.text(f)).collect(),
        deleting: wire.metadata.deletion_timestamp.is_some(),
        digest: digest(&subsets),
        subsets: (!ours).then(|| Arc::new(subsets)),
    }
}

/// The write that makes the object what it should be, and the object after it; none if it is.
fn write(
    service: &Service,
    known: Option<&EndpointsObject>,
    desired: &Desired,
    trigger: Option<Seconds>,
) -> Option<(Write, Option<EndpointsObject>)> {
    let digest = digest(&desired.subsets);
    if let Some(known) = known {
        let headless = |key: &str| key == keys::HEADLESS;
        let mark = known.annotations.get(keys::OVER_CAPACITY).map(|value| &**value);
        if known.digest == digest
            && known.labels.equal_without(&desired.labels, headless)
            && mark == desired.truncated.then_some(TRUNCATED)
        {
            return None;
        }
    }
    let before = known.map(|k| k.annotations.clone()).unwrap_or_default();
    let mut annotations = before.without(|key| key == keys::TRIGGER_TIME || key == keys::OVER_CAPACITY);
    if let Some(time) = trigger {
        annotations = annotations.with(keys::TRIGGER_TIME, &rfc3339(time));
    }
    if desired.truncated {
        annotations = annotations.with(keys::OVER_CAPACITY, TRUNCATED);
    }
    let body = Body {
        api_version: "v1",
        kind: "Endpoints",
        metadata: Meta {
            name: &service.name,
            namespace: &service.namespace,
            uid: known.map(|k| &k.uid),
            resource_version: known.map(|k| k.version.to_string()),
            labels: &desired.labels,
            annotations: &annotations,
            owner_references: known.map_or(&[], |k| &k.owners),
            finalizers: known.map_or(&[], |k| &k.finalizers),
        },
        subsets: SubsetsBody { namespace: &service.namespace, subsets: &desired.subsets },
    };
    let addresses: usize = desired.subsets.iter().map(Subset::len).sum();
    let mut json = Vec::with_capacity(512 + addresses * 224);
    serde_json::to_writer(&mut json, &body).ok()?;
    let write = Write {
        verb: if known.is_some() { Verb::Update } else { Verb::Create },
        resource: Resource::Endpoints,
        namespace: Some(Arc::clone(&service.namespace)),
        name: known.map(|_| Arc::clone(&service.name)),
        status: false,
        body: json.into(),
    };
    let after = EndpointsObject {
        uid: Uid::Absent,
        version: 0,
        labels: desired.labels.clone(),
        annotations,
        owners: known.map(|k| Arc::clone(&k.owners)).unwrap_or_default(),
        finalizers: known.map(|k| Arc::clone(&k.finalizers)).unwrap_or_default(),
        deleting: false,
        digest,
        subsets: None,
    };
    Some((write, Some(after)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Meta<'a>,
    subsets: SubsetsBody<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a Uid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    annotations: &'a Labels,
    #[serde(skip_serializing_if = "<[Owner]>::is_empty")]
    owner_references: &'a [Owner],
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    finalizers: &'a [Text],
}
