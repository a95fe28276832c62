//! A server of slices and Endpoints in memory, and controllers that follow it event by event.

use std::collections::{BTreeMap, BTreeSet};

use service_controllers::api::{Answer, Reply, RequestError, Verb, Write};
use service_controllers::controller::Key;
use service_controllers::index::events::{EndpointsEvent, SliceEvent};
use service_controllers::objects::ObjectKind;
use service_controllers::objects::{
    ConditionWire, ContainerPortWire, ContainerWire, EndpointsWire, IntOrText, IpWire, MetaWire, NodeWire,
    Pairs, PodMetaWire, PodSpecWire, PodStatusWire, PodWire, ServicePortWire, ServiceSpecWire, ServiceWire,
    SliceWire,
};
use service_controllers::reconcile::step::SliceRead;
use service_controllers::report::note::Note;

use crate::common::{Cluster, Limits};

#[path = "looks.rs"]
mod looks;

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done and answered.
    Done,
    /// It is done, and the answer is lost.
    Lost,
    /// It is not done, and nobody knows.
    Timeout,
    /// Somebody else was faster.
    Conflict,
    /// The server has no time.
    Busy,
}

#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) cluster: Cluster,
    pub(crate) pods: BTreeMap<String, PodWire>,
    pub(crate) nodes: BTreeMap<String, NodeWire>,
    pub(crate) services: BTreeMap<String, ServiceWire>,
    pub(crate) slices: BTreeMap<String, SliceWire>,
    pub(crate) endpoints: BTreeMap<String, EndpointsWire>,
    /// Events of slices and Endpoints that the watch has not shown yet.
    delayed: Vec<Shown>,
    /// Whether the watch shows writes only when told to.
    pub(crate) slow_watch: bool,
    /// A Service whose endpoints must be there after each write.
    pub(crate) merged: Option<String>,
    /// Whether the watch shows metadata alone.
    pub(crate) partial: bool,
    pub(crate) fates: Vec<Fate>,
    /// What was read of slices.
    pub(crate) reads: Vec<SliceRead>,
    /// Between a read and its answer somebody deletes what was read.
    pub(crate) vanish_during_read: bool,
    /// How many writes were refused.
    pub(crate) refused: usize,
    pub(crate) writes: BTreeMap<(&'static str, &'static str), usize>,
    pub(crate) notes: Vec<Note>,
    version: u64,
    limits: Limits,
}

pub(crate) type Saved = (BTreeMap<String, SliceWire>, BTreeMap<String, EndpointsWire>, u64);

#[derive(Clone, Debug)]
enum Shown {
    Slice(SliceWire),
    SliceGone(MetaWire),
    Endpoints(EndpointsWire),
    EndpointsGone(MetaWire),
}

pub(crate) fn limits(max_per_slice: usize) -> Limits {
    Limits { max_per_slice, ..Limits::default() }
}

/// A pod of the labels `app=NAME`, ready, on node n1.
pub(crate) fn pod(name: &str, app: &str, ip: &str) -> PodWire {
    PodWire {
        metadata: PodMetaWire {
            name: name.into(),
            namespace: "default".into(),
            uid: format!("uid-of-{name}-{ip}"),
            resource_version: "1".into(),
            labels: Pairs(vec![("app".into(), app.into())]),
            ..PodMetaWire::default()
        },
        spec: PodSpecWire {
            node_name: "n1".into(),
            containers: vec![ContainerWire::default()],
            ..PodSpecWire::default()
        },
        status: PodStatusWire {
            phase: "Running".into(),
            pod_ip: ip.into(),
            pod_ips: vec![IpWire { ip: ip.into() }],
            conditions: vec![ConditionWire {
                r#type: "Ready".into(),
                status: "True".into(),
                last_transition_time: Some("2031-01-01T00:00:00Z".into()),
            }],
        },
    }
}

/// Gives a pod a container with ports of these names, numbers and protocols.
pub(crate) fn with_ports(mut pod: PodWire, ports: &[(&str, i32, &str)]) -> PodWire {
    pod.spec.containers.push(ContainerWire {
        ports: ports
            .iter()
            .map(|(name, number, protocol)| ContainerPortWire {
                name: (*name).into(),
                container_port: *number,
                protocol: Some((*protocol).into()),
            })
            .collect(),
        ..ContainerWire::default()
    });
    pod
}

/// A Service that selects `app=APP` on port 80.
pub(crate) fn service(name: &str, app: &str) -> ServiceWire {
    ServiceWire {
        metadata: MetaWire {
            name: name.into(),
            namespace: "default".into(),
            uid: format!("uid-of-service-{name}"),
            creation_timestamp: Some("2030-01-01T00:00:00Z".into()),
            ..MetaWire::default()
        },
        spec: ServiceSpecWire {
            r#type: "ClusterIP".into(),
            cluster_ip: "10.96.0.7".into(),
            ip_families: vec!["IPv4".into()],
            selector: Some(Pairs(vec![("app".into(), app.into())])),
            ports: vec![ServicePortWire { port: 80, ..ServicePortWire::default() }],
            ..ServiceSpecWire::default()
        },
    }
}

/// A port with a target by name.
pub(crate) fn named_port(name: &str, port: i32, target: &str) -> ServicePortWire {
    ServicePortWire {
        name: name.into(),
        port,
        target_port: Some(IntOrText::Text(target.into())),
        ..ServicePortWire::default()
    }
}

/// A ready node of a zone with four CPUs.
pub(crate) fn node(name: &str, zone: Option<&str>) -> NodeWire {
    let mut node = NodeWire::default();
    node.metadata.name = name.into();
    if let Some(zone) = zone {
        node.metadata.labels = Pairs(vec![("topology.kubernetes.io/zone".into(), zone.into())]);
    }
    node.status.allocatable.cpu = Some("4".into());
    node.status.conditions =
        vec![ConditionWire { r#type: "Ready".into(), status: "True".into(), last_transition_time: None }];
    node
}

impl Sim {
    pub(crate) fn new(max_per_slice: usize) -> Self {
        let mut sim = Self {
            cluster: Cluster::new(&limits(max_per_slice)),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            delayed: Vec::new(),
            slow_watch: false,
            merged: None,
            partial: false,
            fates: Vec::new(),
            reads: Vec::new(),
            vanish_during_read: false,
            refused: 0,
            writes: BTreeMap::new(),
            notes: Vec::new(),
            version: 10,
            limits: limits(max_per_slice),
        };
        sim.cluster.start();
        sim.node(node("n1", Some("zone-a")));
        sim
    }

    pub(crate) fn node(&mut self, node: NodeWire) {
        self.cluster.feed.node(&node);
        self.nodes.insert(node.metadata.name.clone(), node);
    }

    pub(crate) fn pod(&mut self, pod: PodWire) {
        self.cluster.feed.pod(&pod);
        self.pods.insert(pod.metadata.name.clone(), pod);
    }

    pub(crate) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut PodWire)) {
        let mut pod = self.pods[name].clone();
        change(&mut pod);
        self.pod(pod);
    }

    pub(crate) fn set_ready(&mut self, name: &str, ready: bool) {
        self.change_pod(name, |pod| {
            pod.status.conditions[0].status = if ready { "True" } else { "False" }.into();
        });
    }

    pub(crate) fn remove_pod(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        self.cluster.feed.pod_deleted(&pod.metadata.namespace, &pod.metadata.name);
    }

    pub(crate) fn service(&mut self, service: ServiceWire) {
        self.cluster.feed.service(&service);
        self.services.insert(service.metadata.name.clone(), service);
    }

    pub(crate) fn change_service(&mut self, name: &str, change: impl FnOnce(&mut ServiceWire)) {
        let mut service = self.services[name].clone();
        change(&mut service);
        self.service(service);
    }

    /// Somebody else writes a slice.
    pub(crate) fn foreign_slice(&mut self, mut slice: SliceWire) {
        self.version += 1;
        slice.metadata.resource_version = self.version.to_string();
        self.slices.insert(slice.metadata.name.clone(), slice.clone());
        self.show(Shown::Slice(slice));
    }

    /// Somebody else writes an `Endpoints` object.
    pub(crate) fn foreign_endpoints(&mut self, mut endpoints: EndpointsWire) {
        self.version += 1;
        endpoints.metadata.resource_version = self.version.to_string();
        self.endpoints.insert(endpoints.metadata.name.clone(), endpoints.clone());
        self.show(Shown::Endpoints(endpoints));
    }

    /// Somebody else deletes a slice.
    pub(crate) fn foreign_delete(&mut self, name: &str) {
        let slice = self.slices.remove(name).unwrap();
        self.show(Shown::SliceGone(slice.metadata));
    }

    /// Somebody else deletes an `Endpoints` object.
    pub(crate) fn foreign_delete_endpoints(&mut self, name: &str) {
        let mut endpoints = self.endpoints.remove(name).unwrap();
        self.version += 1;
        endpoints.metadata.resource_version = self.version.to_string();
        self.show(Shown::EndpointsGone(endpoints.metadata));
    }

    /// The slices, the Endpoints and the version of the server.
    pub(crate) fn saved(&self) -> Saved {
        (self.slices.clone(), self.endpoints.clone(), self.version)
    }

    /// The server is put back to what was saved, and its watches start anew.
    pub(crate) fn put_back(&mut self, saved: &Saved) {
        (self.slices, self.endpoints, self.version) = saved.clone();
        self.cluster.feed.restored(ObjectKind::Slices);
        self.cluster.feed.restored(ObjectKind::Endpoints);
        self.cut_watch();
    }

    fn show(&mut self, shown: Shown) {
        self.delayed.push(shown);
        if !self.slow_watch {
            self.catch_up();
        }
    }

    /// The watch shows everything that it has not shown yet.
    pub(crate) fn catch_up(&mut self) {
        while self.show_next() {}
    }

    /// The watch shows one thing more, if there is one.
    pub(crate) fn show_next(&mut self) -> bool {
        if self.delayed.is_empty() {
            return false;
        }
        match self.delayed.remove(0) {
            Shown::Slice(slice) => self.cluster.feed.slice(self.slice_event(slice)),
            Shown::SliceGone(meta) => self.cluster.feed.slice(SliceEvent::Deleted(Box::new(meta))),
            Shown::Endpoints(endpoints) => self.cluster.feed.endpoints(self.endpoints_event(endpoints)),
            Shown::EndpointsGone(meta) => {
                self.cluster.feed.endpoints(EndpointsEvent::Deleted(Box::new(meta)));
            }
        }
        true
    }

    /// The watch of slices is cut: what it has not shown is lost, and a list follows.
    pub(crate) fn cut_watch(&mut self) {
        self.delayed.clear();
        self.cluster.feed.list_begins(ObjectKind::Slices);
        for slice in self.slices.values() {
            self.cluster.feed.slice(SliceEvent::Seen(Box::new(slice.clone())));
        }
        self.cluster.feed.list_ends(ObjectKind::Slices);
        self.cluster.feed.list_begins(ObjectKind::Endpoints);
        for endpoints in self.endpoints.values() {
            self.cluster.feed.endpoints(EndpointsEvent::Seen(Box::new(endpoints.clone())));
        }
        self.cluster.feed.list_ends(ObjectKind::Endpoints);
    }

    /// A process that starts now, on what the server has.
    pub(crate) fn restart(&mut self) {
        self.cluster = Cluster::new(&self.limits);
        self.delayed.clear();
        for service in self.services.values() {
            self.cluster.feed.service(service);
        }
        for node in self.nodes.values() {
            self.cluster.feed.node(node);
        }
        self.cut_watch();
        for pod in self.pods.values() {
            self.cluster.feed.pod(pod);
        }
        self.cluster.start();
    }

    /// Looks at everything that is called for, until nothing is left; gives how many writes were done.
    pub(crate) fn settle(&mut self) -> usize {
        let before: usize = self.writes.values().sum();
        let mut again: BTreeSet<Key> = BTreeSet::new();
        for round in 0.. {
            assert!(round < 500, "the controllers do not come to rest");
            self.notes.extend(self.cluster.take_notes());
            let mut keys: BTreeSet<Key> = self.cluster.take_asks().into_iter().map(|(key, _)| key).collect();
            keys.append(&mut again);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                if self.reconcile(&key) {
                    again.insert(key);
                }
            }
        }
        self.writes.values().sum::<usize>() - before
    }

    /// What the watch shows of a slice: all of it, or metadata alone.
    fn slice_event(&self, slice: SliceWire) -> SliceEvent {
        if self.partial {
            SliceEvent::Changed(Box::new(slice.metadata))
        } else {
            SliceEvent::Seen(Box::new(slice))
        }
    }

    fn endpoints_event(&self, endpoints: EndpointsWire) -> EndpointsEvent {
        if self.partial {
            EndpointsEvent::Changed(Box::new(endpoints.metadata))
        } else {
            EndpointsEvent::Seen(Box::new(endpoints))
        }
    }

    fn write(&mut self, write: &Write) -> Answer<Reply> {
        let fate = self.fates.pop().unwrap_or(Fate::Done);
        match fate {
            Fate::Done | Fate::Lost => {}
            Fate::Timeout => return Err(RequestError::Unknown("timed out".into())),
            Fate::Conflict => return Err(RequestError::Conflict("somebody was faster".into())),
            Fate::Busy => return Err(RequestError::Busy { message: "busy".into(), after: None }),
        }
        let reply = self.execute(write).inspect_err(|_| self.refused += 1)?;
        if fate == Fate::Lost { Err(RequestError::Unknown("connection reset".into())) } else { Ok(reply) }
    }

    fn execute(&mut self, write: &Write) -> Answer<Reply> {
        self.version += 1;
        let version = self.version.to_string();
        let slices = write.resource.path(None).ends_with("endpointslices");
        let plural = if slices { "endpointslices" } else { "endpoints" };
        let name = write.name.as_deref().unwrap_or_default().to_owned();
        let meta = if slices {
            self.execute_slice(write, &name, &version)?
        } else {
            self.execute_endpoints(write, &name, &version)?
        };
        *self.writes.entry((plural, write.verb.name())).or_default() += 1;
        let metadata = serde_json::json!({
            "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version, "generation": meta.generation,
        });
        Ok(serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap())
    }

    fn execute_slice(&mut self, write: &Write, name: &str, version: &str) -> Answer<MetaWire> {
        let old = self.slices.get(name).cloned();
        if write.verb == Verb::Delete {
            let old = self.slices.remove(name).ok_or_else(|| RequestError::NotFound(name.into()))?;
            self.show(Shown::SliceGone(old.metadata.clone()));
            return Ok(old.metadata);
        }
        let mut slice: SliceWire = serde_json::from_slice(&write.body).unwrap();
        if write.verb == Verb::Create {
            slice.metadata.name = format!("{}{version}", slice.metadata.generate_name.clone().unwrap());
            slice.metadata.uid = format!("uid-of-slice-{version}");
        } else {
            let old = old.ok_or_else(|| RequestError::NotFound(name.into()))?;
            if old.metadata.resource_version != slice.metadata.resource_version {
                return Err(RequestError::Conflict(name.into()));
            }
            slice.metadata.generation = old.metadata.generation + 1;
        }
        version.clone_into(&mut slice.metadata.resource_version);
        self.slices.insert(slice.metadata.name.clone(), slice.clone());
        self.show(Shown::Slice(slice.clone()));
        Ok(slice.metadata)
    }

    fn execute_endpoints(&mut self, write: &Write, name: &str, version: &str) -> Answer<MetaWire> {
        if write.verb == Verb::Delete {
            let old = self.endpoints.remove(name).ok_or_else(|| RequestError::NotFound(name.into()))?;
            self.show(Shown::EndpointsGone(old.metadata.clone()));
            return Ok(old.metadata);
        }
        let mut new: EndpointsWire = serde_json::from_slice(&write.body).unwrap();
        let old = self.endpoints.get(&new.metadata.name);
        match (write.verb, old) {
            (Verb::Create, Some(_)) => return Err(RequestError::Exists(name.into())),
            (Verb::Create, None) => new.metadata.uid = format!("uid-of-endpoints-{version}"),
            (_, None) => return Err(RequestError::NotFound(name.into())),
            (_, Some(old)) if old.metadata.resource_version != new.metadata.resource_version => {
                return Err(RequestError::Conflict(name.into()));
            }
            _ => {}
        }
        version.clone_into(&mut new.metadata.resource_version);
        self.endpoints.insert(new.metadata.name.clone(), new.clone());
        self.show(Shown::Endpoints(new.clone()));
        Ok(new.metadata)
    }

    /// The pods in the slices of a Service with their addresses and readiness, sorted.
    pub(crate) fn listed(&self, service: &str) -> Vec<(String, String, bool)> {
        let mut listed: Vec<_> = self
            .slices_of(service)
            .flat_map(|s| &s.endpoints)
            .map(|e| {
                let pod = e.target_ref.as_ref().and_then(|t| t.name.clone()).unwrap_or_default();
                (pod, e.addresses[0].clone(), e.conditions.ready != Some(false))
            })
            .collect();
        listed.sort();
        listed
    }

    /// The addresses in the slices of a Service, by name of the pod.
    pub(crate) fn in_slices(&self, service: &str) -> Vec<String> {
        self.listed(service).into_iter().map(|(_, ip, _)| ip).collect()
    }

    /// The addresses in the `Endpoints` of a Service, of each subset the ready ones first; none if
    /// there is no such object.
    pub(crate) fn in_endpoints(&self, service: &str) -> Vec<String> {
        let subsets = self.endpoints.get(service).into_iter().flat_map(|e| &e.subsets);
        let addresses = subsets.flat_map(|s| s.addresses.iter().chain(&s.not_ready_addresses));
        addresses.map(|a| a.ip.clone()).collect()
    }

    pub(crate) fn slices_of(&self, service: &str) -> impl Iterator<Item = &SliceWire> {
        let label = ("kubernetes.io/service-name".to_owned(), service.to_owned());
        self.slices.values().filter(move |s| s.metadata.labels.0.contains(&label))
    }

    /// What the pods of a Service should be listed as.
    pub(crate) fn wanted(&self, service: &str) -> Vec<(String, String, bool)> {
        let Some(service) = self.services.get(service) else { return Vec::new() };
        let Some(selector) = &service.spec.selector else { return Vec::new() };
        let mut wanted: Vec<_> = self
            .pods
            .values()
            .filter(|p| selector.0.iter().all(|pair| p.metadata.labels.0.contains(pair)))
            .filter(|p| {
                !matches!(p.status.phase.as_str(), "Succeeded" | "Failed") && !p.status.pod_ips.is_empty()
            })
            .map(|p| {
                let ready =
                    p.status.conditions[0].status == "True" && p.metadata.deletion_timestamp.is_none();
                (p.metadata.name.clone(), p.status.pod_ips[0].ip.clone(), ready)
            })
            .collect();
        wanted.sort();
        wanted
    }
}
