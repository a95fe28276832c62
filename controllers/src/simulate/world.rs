//! A cluster that is only simulated: its objects, what the controllers would write of them, and the objects after that.
//!
//! Owns the order in which Services are planned and how a write is carried out here. Pure: the plans are the controllers'
//! own, and nothing is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::report::{Step, Totals, Write};
use super::{lines, values};
use crate::api::{Verb, Write as Request};
use crate::cache::{Service, Slice, SliceKeeper};
use crate::endpoints::plan as endpoints_plan;
use crate::endpointslice::plan;
use crate::explain::kind::Kind;
use crate::explain::planned::{Pair, Planned, pairs};
use crate::explain::{Snapshot, Subject};
use crate::index::endpoints::EndpointsObject;
use crate::mirroring::plan as mirroring_plan;
use crate::objects::SliceWire;
use crate::requests::endpoints as endpoints_request;
use crate::requests::slices::{SliceWrite, request};
use crate::text::{Text, Uid};

/// At most so many addresses of a subset are mirrored, unless the controller is told otherwise.
const MIRRORED: usize = 1000;

/// A simulated cluster.
#[derive(Debug)]
pub(super) struct World {
    pub(super) snapshot: Snapshot,
    pub(super) max_per_slice: usize,
    /// Counts objects that are made and versions that are given.
    made: u64,
}

/// Something that changes in it beside the controllers' writes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// An object comes or changes.
    Put(Kind, Value),
    /// A pod ends.
    PodGone {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node is gone.
    NodeGone(String),
    /// The controllers are set otherwise.
    MaxPerSlice(usize),
}

impl World {
    pub(super) fn new(max_per_slice: usize) -> Self {
        Self { snapshot: Snapshot::new(Subject::All), max_per_slice, made: 0 }
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        // Later than any version of a real object: what is simulated comes after what was read.
        (1 << 62) + self.made
    }

    /// Makes changes, plans, and carries the writes out.
    /// `planned` is called after each Service.
    pub(super) fn step(&mut self, name: String, changes: Vec<Change>, planned: &dyn Fn()) -> Step {
        let mut notes: Vec<String> =
            changes.into_iter().filter_map(|change| self.change(change).err()).collect();
        let mut writes = values::give(&mut self.snapshot, &mut notes);
        for (namespace, service) in self.services() {
            self.slices(&namespace, &service, &mut writes);
            self.endpoints(&namespace, &service, &mut writes);
            self.mirrors(&namespace, &service, &mut writes);
            planned();
        }
        notes.extend(values::notes(&self.snapshot));
        Step { name, totals: Totals::of(&writes), writes, notes }
    }

    /// Takes in objects as `kubectl apply` would have them, plans, and carries the writes out.
    pub(super) fn step_with(
        &mut self,
        name: String,
        objects: Vec<(Kind, Value)>,
        planned: &dyn Fn(),
    ) -> Step {
        let mut refused = Vec::new();
        let mut changes = Vec::new();
        for (kind, object) in objects {
            match self.applied(kind, object) {
                Ok(object) => changes.push(Change::Put(kind, object)),
                Err(why) => refused.push(why),
            }
        }
        let mut step = self.step(name, changes, planned);
        step.notes.splice(0..0, refused);
        step
    }

    /// An object as it is after it was applied: of a Service that is there, its values stay.
    fn applied(&self, kind: Kind, object: Value) -> Result<Value, String> {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let known = self.snapshot.services.get(&(text("namespace"), text("name")));
        let Some(old) = known.filter(|_| kind == Kind::Service) else { return Ok(object) };
        let mut new: k8s_openapi::api::core::v1::Service =
            serde_json::from_value(object).map_err(|error| error.to_string())?;
        new.metadata.uid.clone_from(&old.metadata.uid);
        new.metadata.resource_version.clone_from(&old.metadata.resource_version);
        let new = values::edited(&self.snapshot, old, new)?;
        serde_json::to_value(new).map_err(|error| error.to_string())
    }

    fn change(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Put(kind, object) => {
                let json = serde_json::to_vec(&object).map_err(|error| error.to_string())?;
                if kind == Kind::ServiceCidr {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    self.snapshot.cidrs.retain(|cidr| cidr.metadata.name.as_deref() != Some(&*name));
                }
                self.snapshot.add(kind, &json).map_err(|error| format!("{}: {error}", kind.name()))?;
            }
            Change::PodGone { namespace, name } => {
                self.snapshot.index.delete_pod(&namespace, &name);
            }
            Change::NodeGone(name) => {
                self.snapshot.index.delete_node(&name);
            }
            Change::MaxPerSlice(max) => self.max_per_slice = max,
        }
        Ok(())
    }

    /// All Services, and the names of Endpoints that have slices without one, in the order of their names.
    pub(super) fn services(&self) -> BTreeSet<(Text, Text)> {
        let spaces = self.snapshot.index.namespaces.iter();
        spaces
            .flat_map(|(namespace, space)| {
                let names = space.services.keys().chain(space.mirrors.keys());
                names.map(move |name| (Arc::clone(namespace), Arc::clone(name)))
            })
            .collect()
    }

    fn nodes(&self) -> usize {
        self.snapshot.index.nodes.len()
    }

    fn slices(&mut self, namespace: &Text, name: &Text, out: &mut Vec<Write>) {
        let Some(service) = self.snapshot.index.service(namespace, name).cloned() else { return };
        let pods_known = self.snapshot.knows(Kind::Pod);
        let planned = Planned::of_pods(&self.snapshot.index, &service, self.max_per_slice, pods_known);
        self.write_slices(namespace, name, planned.pairs, out);
    }

    fn mirrors(&mut self, namespace: &Text, name: &Text, out: &mut Vec<Write>) {
        let Some(space) = self.snapshot.index.namespace(namespace) else { return };
        let slices = space.slices_of(SliceKeeper::Mirrors, name);
        let service: Option<&Arc<Service>> = space.services.get(name);
        let object = space.endpoints.get(name).filter(|object| {
            mirroring_plan::is_mirrored(object) && service.is_some_and(|service| service.selector.is_none())
        });
        let subsets = object.and_then(|object| object.subsets.clone());
        let writes = match (object, subsets) {
            (Some(object), Some(subsets)) => {
                mirroring_plan::plan(name, object, &subsets, slices, MIRRORED).writes
            }
            (Some(_), None) => return,
            (None, _) => mirroring_plan::remove(slices),
        };
        let pairs = pairs(slices, &writes);
        self.write_slices(namespace, name, pairs, out);
    }

    fn write_slices(&mut self, namespace: &Text, service: &Text, pairs: Vec<Pair>, out: &mut Vec<Write>) {
        for pair in pairs {
            let Some(message) = pair.change() else { continue };
            let write = match (&pair.old, &pair.new) {
                (Some(old), Some(new)) => SliceWrite::Update { old: Arc::clone(old), new: Slice::clone(new) },
                (Some(old), None) => SliceWrite::Delete(Arc::clone(old)),
                (None, Some(new)) => SliceWrite::Create(Slice::clone(new)),
                (None, None) => continue,
            };
            let Ok(sent) = request(namespace, &write) else { continue };
            let name = self.carry_out(namespace, &write, &sent);
            let event_bytes = match &write {
                SliceWrite::Delete(old) => size(namespace, old),
                _ => sent.body.len(),
            };
            out.push(Write {
                verb: verb(sent.verb),
                kind: Kind::EndpointSlice.name(),
                namespace: namespace.to_string(),
                name,
                service: format!("{namespace}/{service}"),
                message,
                lines: lines::of(&pair),
                bytes: sent.body.len(),
                event_bytes,
                nodes: self.nodes(),
            });
        }
    }

    /// Does to the objects what the server would do; gives the object's name.
    fn carry_out(&mut self, namespace: &Text, write: &SliceWrite, sent: &Request) -> String {
        if let SliceWrite::Delete(old) = write {
            self.snapshot.index.slice_gone(namespace, &old.name);
            return old.name.to_string();
        }
        let version = self.next();
        let mut object: Value = serde_json::from_slice(&sent.body).unwrap_or_default();
        if let SliceWrite::Create(new) = write {
            let prefix = new.generate_name.as_deref().unwrap_or_default();
            object["metadata"]["name"] = format!("{prefix}sim{}", self.made).into();
            object["metadata"]["uid"] = format!("sim-{}", self.made).into();
        }
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Ok(wire) = serde_json::from_value::<SliceWire>(object) {
            self.snapshot.index.apply_slice(wire);
        }
        name
    }

    fn endpoints(&mut self, namespace: &Text, name: &Text, out: &mut Vec<Write>) {
        let index = &self.snapshot.index;
        let Some(service) = index.service(namespace, name).cloned() else { return };
        let known = index.endpoints(namespace, name).cloned();
        if !service.has_slices() {
            let left = known.filter(|known| service.selector.is_some() && known.is_made_here());
            let Some(known) = left else { return };
            let Ok(sent) = endpoints_request::delete(namespace, name, &known) else { return };
            self.snapshot.index.endpoints_gone(namespace, name);
            out.push(of_endpoints(namespace, name, &sent, "delete it: it was made from pods".to_owned()));
            return;
        }
        let Some(space) = index.namespace(namespace).filter(|_| self.snapshot.knows(Kind::Pod)) else {
            return;
        };
        let pods = space.pods.pods_of(name).map(|pod| &**pod);
        let desired = endpoints_plan::desired(&service, pods, |node| index.nodes.contains_key(node));
        let Some(after) = endpoints_plan::after(known.as_ref(), &desired, None) else { return };
        let known_ref = known.as_ref();
        let Ok(sent) = endpoints_request::put(
            namespace,
            name,
            known_ref,
            &after.labels,
            &after.annotations,
            &desired.subsets,
        ) else {
            return;
        };
        let (ready, others) = desired.subsets.iter().fold((0, 0), |(ready, others), subset| {
            (ready + subset.ready.len(), others + subset.not_ready.len())
        });
        let version = self.next();
        let uid = known.map_or(Uid::from(format!("sim-{version}").as_str()), |known| known.uid);
        let object = EndpointsObject { uid, version, ..after };
        self.snapshot.index.endpoints_written(namespace, name, object);
        let cut = if desired.truncated { ", cut to what it may have" } else { "" };
        let message = format!("{ready} ready addresses, {others} that are not{cut}");
        out.push(of_endpoints(namespace, name, &sent, message));
    }
}

fn of_endpoints(namespace: &Text, name: &Text, sent: &Request, message: String) -> Write {
    Write {
        verb: verb(sent.verb),
        kind: Kind::Endpoints.name(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        service: format!("{namespace}/{name}"),
        message,
        lines: Vec::new(),
        bytes: sent.body.len(),
        event_bytes: sent.body.len(),
        // Proxies watch slices alone.
        nodes: 0,
    }
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "Create",
        Verb::Delete => "Delete",
        _ => "Update",
    }
}

/// The size of a slice as it is.
fn size(namespace: &Text, slice: &Arc<Slice>) -> usize {
    let same = SliceWrite::Update { old: Arc::clone(slice), new: Slice::clone(slice) };
    request(namespace, &same).map_or(0, |sent| sent.body.len())
}

/// Whether slices could be packed into fewer, which the controller does when nothing else happens.
pub(super) fn could_be_packed(world: &World) -> usize {
    let spaces = world.snapshot.index.namespaces.values();
    let services = spaces.flat_map(|space| space.services.values().map(move |service| (space, service)));
    services
        .filter(|(space, service)| {
            let slices = space.slices_of(SliceKeeper::Slices, &service.name);
            service.has_slices() && plan::repack::repack(service, slices, world.max_per_slice).is_some()
        })
        .count()
}
