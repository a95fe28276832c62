//! A pod as it is kept.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Interners, Protocol, Seconds, seconds, share};
use crate::objects::{ContainerWire, PodWire};
use crate::text::{Address, Labels, Text, Uid};

/// A container port that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPort {
    /// The name.
    pub name: Text,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: i32,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: Text,
    /// Uid.
    pub uid: Uid,
    /// Node it is bound to.
    pub node: Option<Text>,
    /// Addresses in the order of its status, in canonical spelling.
    pub ips: SmallVec<[Address; 1]>,
    /// Host name asked for.
    pub hostname: Option<Text>,
    /// Subdomain asked for.
    pub subdomain: Option<Text>,
    /// Ports with names, containers first, then sidecars.
    pub named_ports: Arc<[NamedPort]>,
    /// When the Ready condition last changed.
    pub ready_since: Option<Seconds>,
    /// Whether the Ready condition is True.
    pub ready: bool,
    /// Whether deletion has been asked for.
    pub terminating: bool,
    /// Whether its phase is Succeeded or Failed.
    pub finished: bool,
}

impl Pod {
    /// Whether reading `wire` would give this pod again, but for what [`Pod::is_bound_as_before`] looks
    /// at. Looks nothing up and keeps nothing.
    #[must_use]
    pub fn is_as_before(&self, wire: &PodWire) -> bool {
        let (ready, ready_since) = readiness(wire);
        self.ready == ready
            && self.ready_since == ready_since
            && self.terminating == wire.metadata.deletion_timestamp.is_some()
            && self.finished == is_finished(&wire.status.phase)
            && addresses(wire).eq(self.ips.iter().cloned())
    }

    /// Whether `wire` is this pod, bound and made as before: what does not change while a pod runs.
    #[must_use]
    pub fn is_bound_as_before(&self, wire: &PodWire) -> bool {
        let spec = &wire.spec;
        let is = |known: &Option<Text>, text: &str| known.as_deref().unwrap_or_default() == text;
        self.uid == Uid::from(wire.metadata.uid.as_str())
            && is(&self.node, &spec.node_name)
            && is(&self.hostname, &spec.hostname)
            && is(&self.subdomain, &spec.subdomain)
            && ports_with_names(wire).eq(self.named_ports.iter().map(|p| (&*p.name, p.protocol, p.number)))
    }

    /// This pod as `wire` has it, if it is bound as before.
    #[must_use]
    pub fn moved_on(&self, wire: &PodWire) -> Self {
        let (ready, ready_since) = readiness(wire);
        Self {
            ips: addresses(wire).collect(),
            ready_since,
            ready,
            terminating: wire.metadata.deletion_timestamp.is_some(),
            finished: is_finished(&wire.status.phase),
            ..self.clone()
        }
    }

    /// Reads a pod; its labels are returned beside it, since they are kept per set of labels.
    pub fn read(wire: &PodWire, shared: &mut Interners) -> (Self, Labels) {
        let (ready, ready_since) = readiness(wire);
        let pod = Self {
            name: shared.texts.text(&wire.metadata.name),
            uid: wire.metadata.uid.as_str().into(),
            node: shared.optional(&wire.spec.node_name),
            ips: addresses(wire).collect(),
            hostname: shared.optional(&wire.spec.hostname),
            subdomain: shared.optional(&wire.spec.subdomain),
            named_ports: named_ports(wire, shared),
            ready_since,
            ready,
            terminating: wire.metadata.deletion_timestamp.is_some(),
            finished: is_finished(&wire.status.phase),
        };
        (pod, shared.texts.labels(&wire.metadata.labels.0))
    }

    /// Whether the pod can be an endpoint at all: it has an address and has not finished.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        !self.finished && !self.ips.is_empty()
    }
}

/// Whether the Ready condition is True, and when it last changed.
fn readiness(wire: &PodWire) -> (bool, Option<Seconds>) {
    let ready = wire.status.conditions.iter().find(|c| c.r#type == "Ready");
    (ready.is_some_and(|c| c.status == "True"), ready.and_then(|c| seconds(c.last_transition_time.as_ref())))
}

fn is_finished(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// The addresses of its status in canonical spelling; the older field counts where the list has none.
fn addresses(wire: &PodWire) -> impl Iterator<Item = Address> {
    let listed = wire.status.pod_ips.iter().map(|ip| ip.ip.as_str()).filter(|ip| !ip.is_empty());
    let first =
        Some(wire.status.pod_ip.as_str()).filter(|ip| !ip.is_empty() && listed.clone().next().is_none());
    listed.chain(first).map(|ip| Address::from(ip).canonical())
}

/// The ports with names, of containers and then of sidecars.
fn ports_with_names(wire: &PodWire) -> impl Iterator<Item = (&str, Protocol, i32)> {
    let sidecars = wire.spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = wire.spec.containers.iter().chain(sidecars).flat_map(|c: &ContainerWire| &c.ports);
    ports
        .filter(|p| !p.name.is_empty())
        .map(|p| (p.name.as_str(), p.protocol.as_deref().into(), p.container_port))
}

fn named_ports(wire: &PodWire, shared: &mut Interners) -> Arc<[NamedPort]> {
    let ports: Vec<NamedPort> = ports_with_names(wire)
        .map(|(name, protocol, number)| NamedPort { name: shared.texts.text(name), protocol, number })
        .collect();
    share(&mut shared.named_ports, ports.into())
}
