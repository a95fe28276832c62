//! What a person should know of a Service's slices, told once for each new state: what became of the hints, and pods
//! that are left out because their node does not exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::plan::SlicePlan;
use super::plan::hints::{HintOutcome, WithheldCause};
use smallvec::SmallVec;

use crate::cache::{AddressType, Hinting, Pod, Service, Traffic};
use crate::controller::Controller;
use crate::index::Index;
use crate::index::pods::PodIndex;
use crate::reconcile::dirty::Dirty;
use crate::report::note::Note;
use crate::text::Text;

/// What was last told of a family's hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintState {
    /// They are given.
    Given,
    /// They are withheld.
    Withheld(WithheldCause),
}

/// What a person was told of one Service.
#[derive(Debug, Default)]
pub(super) struct ServiceEvents {
    hints: SmallVec<[(AddressType, HintState); 2]>,
    /// Pods that were told to be left out.
    left_out: BTreeSet<Text>,
    /// Whether it was told that some endpoints alone are in a zone.
    zones_incomplete: bool,
}

impl ServiceEvents {
    /// What became of the topology hints, as notes: one for each new state, not for each plan.
    pub(super) fn hints(&mut self, service: &Service, plan: &SlicePlan) -> Vec<Note> {
        let mut notes = Vec::new();
        if !service.topology_auto {
            if let Some((family, _)) = self.hints.iter().find(|(_, state)| *state == HintState::Given) {
                let message =
                    format!("Topology Aware Hints has been disabled, addressType: {}", family.name());
                notes.push(Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message));
            }
            self.hints.clear();
            return notes;
        }
        self.hints.retain(|(family, _)| plan.hints.iter().any(|(planned, _)| planned == family));
        for (family, outcome) in &plan.hints {
            let state = match outcome {
                HintOutcome::Given => HintState::Given,
                HintOutcome::Withheld(withheld) => HintState::Withheld(withheld.cause),
            };
            let before = self.hints.iter_mut().find(|(f, _)| f == family);
            if before.as_ref().is_some_and(|(_, before)| *before == state) {
                continue;
            }
            let goes_along = before.is_none() && state == HintState::Given;
            match before {
                Some(before) => before.1 = state,
                None => self.hints.push((*family, state)),
            }
            // One says that the Service has hints now; another family has to say no more than that it lacks them.
            let others = self.hints.iter().filter(|(other, _)| other != family);
            if goes_along && others.into_iter().any(|(_, told)| *told == HintState::Given) {
                continue;
            }
            let family = family.name();
            notes.push(match outcome {
                HintOutcome::Given => {
                    let message = format!("Topology Aware Hints has been enabled, addressType: {family}");
                    Note {
                        warning: false,
                        ..Note::on(service, Controller::Slices, "TopologyAwareHintsEnabled", message)
                    }
                }
                HintOutcome::Withheld(withheld) => {
                    let message =
                        format!("{}: {}, addressType: {family}", withheld.cause.name(), withheld.detail);
                    Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message)
                }
            });
        }
        notes
    }

    /// Hints by zone that only a part of the ready endpoints can have, as a note, once until that is over: readers ignore
    /// the hints of all of them then (KEP-3015).
    pub(super) fn incomplete_zones(
        &mut self,
        service: &Service,
        pods: &PodIndex,
        index: &Index,
    ) -> Option<Note> {
        let by_zone = matches!(service.hinting(), Hinting::Field(Traffic::Close | Traffic::SameZone));
        let (mut ready, mut without) = (0, Vec::new());
        if by_zone && !index.all_nodes_have_zones() {
            let used = |pod: &&Arc<Pod>| {
                pod.is_listed() && (service.publish_not_ready || (pod.ready && !pod.terminating))
            };
            for pod in pods.pods_of(&service.name).filter(used) {
                let node = pod.node.as_ref().and_then(|name| Some((name, index.nodes.get(name)?)));
                let Some((name, node)) = node else { continue };
                ready += 1;
                if node.zone.is_none() {
                    without.push((&pod.name, name));
                }
            }
        }
        let incomplete = !without.is_empty() && without.len() < ready;
        if std::mem::replace(&mut self.zones_incomplete, incomplete) || !incomplete {
            return None;
        }
        let (count, (pod, node)) = (without.len(), without.first()?);
        let asked = service.traffic.map_or("", Traffic::name);
        let message = format!(
            "trafficDistribution {asked} has no effect: {count} of {ready} ready endpoints are in no zone, for instance \
             Pod {pod} on Node {node}, and readers then ignore the hints of all; give the Node the label {}",
            crate::keys::ZONE
        );
        Some(Note::on(service, Controller::Slices, "TrafficDistributionIncomplete", message))
    }

    /// Pods that have an address and are no endpoints, as a note: not for each plan, but where one comes to those that were
    /// told of. `looked_at` says which pods the plan looked at.
    pub(super) fn left_out(
        &mut self,
        service: &Service,
        pods: &PodIndex,
        plan: &SlicePlan,
        looked_at: &Dirty,
    ) -> Option<Note> {
        let left_out: BTreeSet<&Text> = plan.without_node.iter().collect();
        if looked_at.is_all() {
            self.left_out.retain(|pod| left_out.contains(pod));
        } else {
            for pod in looked_at.pods().filter(|pod| !left_out.contains(pod)) {
                self.left_out.remove(pod);
            }
        }
        let fresh: Vec<&Text> = left_out.into_iter().filter(|pod| !self.left_out.contains(*pod)).collect();
        let first = fresh.first()?;
        let node = pods.pod_of(&service.name, first).and_then(|pod| pod.node.as_ref());
        let why = node.map_or("it is bound to no Node".to_owned(), |node| format!("Node {node} Not Found"));
        let (namespace, name) = (&service.namespace, &service.name);
        let more = match fresh.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more such Pods"),
        };
        let message = format!(
            "Error updating Endpoint Slices for Service {namespace}/{name}: skipping Pod {first} for Service \
             {namespace}/{name}: {why}{more}"
        );
        self.left_out.extend(fresh.into_iter().map(Arc::clone));
        Some(Note::on(service, Controller::Slices, "FailedToUpdateEndpointSlices", message))
    }
}
