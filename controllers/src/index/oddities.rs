//! What of the endpoints is not as a person would expect it, counted when somebody asks.

use super::{Index, Namespace};
use crate::cache::{Service, SliceKeeper};
use crate::keys;
use crate::verdict::{self, LeftOut};

/// What is odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Pods that a Service selects and that are none of its endpoints, by the reasons of [`LeftOut::OF_SLICES`]; a pod counts
    /// for each Service.
    pub left_out: [usize; LeftOut::OF_SLICES.len()],
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
                let why = verdict::left_out(service, pod, node_exists);
                if let Some(at) = LeftOut::OF_SLICES.iter().position(|reason| Some(*reason) == why) {
                    all.left_out[at] += 1;
                }
            }
            all.disagreements += usize::from(disagree(space, service));
        }
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
