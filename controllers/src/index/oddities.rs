//! What of the endpoints is not as a person would expect it, counted when somebody asks.

use super::{Index, Namespace};
use crate::cache::{Pod, Service, SliceKeeper};
use crate::keys;

/// Why a pod that a Service selects is none of its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutReason {
    /// Its phase is Succeeded or Failed.
    TerminalPhase,
    /// It has no address.
    NoAddress,
    /// It has addresses, and none of the Service's families.
    NoAddressOfFamily,
    /// It is bound to no node.
    NoNode,
    /// The node that it is bound to does not exist.
    NodeUnknown,
}

impl LeftOutReason {
    /// All that there are.
    pub const ALL: [Self; 5] =
        [Self::TerminalPhase, Self::NoAddress, Self::NoAddressOfFamily, Self::NoNode, Self::NodeUnknown];

    /// What it is called in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TerminalPhase => "TerminalPhase",
            Self::NoAddress => "NoAddress",
            Self::NoAddressOfFamily => "NoAddressOfFamily",
            Self::NoNode => "NoNode",
            Self::NodeUnknown => "NodeUnknown",
        }
    }
}

/// What is odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Pods that a Service selects and that are none of its endpoints, in the order of [`LeftOutReason::ALL`]; a pod counts for
    /// each Service.
    pub left_out: [usize; LeftOutReason::ALL.len()],
    /// Services whose `Endpoints` and slices do not have the same number of ready addresses.
    pub disagreements: usize,
}

impl Index {
    /// Counts what is odd in a namespace.
    pub fn count_oddities(&self, namespace: &str, all: &mut Oddities) {
        let Some(space) = self.namespace(namespace) else { return };
        for service in space.services.values().filter(|service| service.has_slices()) {
            for pod in space.pods.pods_of(&service.name) {
                let node_exists = pod.node.as_ref().is_some_and(|node| self.nodes.contains_key(node));
                if let Some(reason) = left_out(service, pod, node_exists) {
                    all.left_out[reason as usize] += 1;
                }
            }
            all.disagreements += usize::from(disagree(space, service));
        }
    }
}

/// Why a pod is no endpoint of a Service that selects it.
fn left_out(service: &Service, pod: &Pod, node_exists: bool) -> Option<LeftOutReason> {
    let of_family = |ip| service.families.iter().any(|family| family.holds(ip));
    match &pod.node {
        _ if pod.finished => Some(LeftOutReason::TerminalPhase),
        _ if pod.ips.is_empty() => Some(LeftOutReason::NoAddress),
        _ if !pod.ips.iter().any(of_family) => Some(LeftOutReason::NoAddressOfFamily),
        _ if service.publish_not_ready || node_exists => None,
        Some(_) => Some(LeftOutReason::NodeUnknown),
        None => Some(LeftOutReason::NoNode),
    }
}

/// Whether the `Endpoints` of a Service have another number of ready addresses than its slices. Only the first family is in
/// `Endpoints`, and no pod that has none of the ports; those that have more than they may hold say nothing.
fn disagree(space: &Namespace, service: &Service) -> bool {
    let Some(object) = space.endpoints.get(&service.name) else { return false };
    let known = object.is_made_here() && object.digest.is_some();
    if !known || object.annotations.get(keys::OVER_CAPACITY).is_some() {
        return false;
    }
    let family = service.families.first();
    let slices = space.slices_of(SliceKeeper::Slices, &service.name).iter();
    let served = slices.filter(|slice| Some(&slice.family) == family && !slice.deleting);
    let with_ports = served.filter(|slice| !slice.ports.is_empty() || service.ports.is_empty());
    let ready: usize = with_ports.map(|slice| slice.endpoints.iter().filter(|e| e.is_ready()).count()).sum();
    ready != object.ready
}
