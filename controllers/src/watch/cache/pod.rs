//! A pod as it is kept.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Protocol, Seconds, Shared, seconds, share};
use crate::text::{Address, Labels, Text, Uid};
use crate::watch::objects::{ContainerWire, PodWire};

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
    /// Reads a pod; its labels are returned beside it, since they are kept per set of labels.
    pub fn read(wire: &PodWire, shared: &mut Shared) -> (Self, Labels) {
        let ready = wire.status.conditions.iter().find(|c| c.r#type == "Ready");
        let mut ips: SmallVec<[Address; 1]> = wire
            .status
            .pod_ips
            .iter()
            .filter(|ip| !ip.ip.is_empty())
            .map(|ip| Address::from(ip.ip.as_str()).canonical())
            .collect();
        if ips.is_empty() && !wire.status.pod_ip.is_empty() {
            ips.push(Address::from(wire.status.pod_ip.as_str()).canonical());
        }
        let sidecars =
            wire.spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let pod = Self {
            name: shared.texts.text(&wire.metadata.name),
            uid: wire.metadata.uid.as_str().into(),
            node: shared.optional(&wire.spec.node_name),
            ips,
            hostname: shared.optional(&wire.spec.hostname),
            subdomain: shared.optional(&wire.spec.subdomain),
            named_ports: named_ports(wire.spec.containers.iter().chain(sidecars), shared),
            ready_since: ready.and_then(|c| seconds(c.last_transition_time.as_ref())),
            ready: ready.is_some_and(|c| c.status == "True"),
            terminating: wire.metadata.deletion_timestamp.is_some(),
            finished: matches!(wire.status.phase.as_str(), "Succeeded" | "Failed"),
        };
        (pod, shared.texts.labels(&wire.metadata.labels.0))
    }

    /// Whether the pod can be an endpoint at all: it has an address and has not finished.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        !self.finished && !self.ips.is_empty()
    }
}

fn named_ports<'a>(
    containers: impl Iterator<Item = &'a ContainerWire>,
    shared: &mut Shared,
) -> Arc<[NamedPort]> {
    let mut ports = Vec::new();
    for port in containers.flat_map(|c| &c.ports).filter(|p| !p.name.is_empty()) {
        ports.push(NamedPort {
            name: shared.texts.text(&port.name),
            protocol: port.protocol.as_deref().into(),
            number: port.container_port,
        });
    }
    share(&mut shared.named_ports, ports.into())
}
