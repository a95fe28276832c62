//! What a person should know of a Service's slices, told once for each new state: what became of the topology hints, and
//! pods that are left out because their node does not exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::plan::SlicePlan;
use super::plan::hints::{Cause, Outcome};
use super::state::SliceState;
use crate::text::Text;
use crate::watch::cache::Service;
use crate::watch::index::Population;
use crate::watch::world::{Controller, Note};

/// What was last told of a family's hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintState {
    /// They are given.
    Given,
    /// They are withheld.
    Withheld(Cause),
}

impl SliceState {
    /// What became of the topology hints, as notes: one for each new state, not for each plan.
    pub(super) fn tell_hints(&mut self, service: &Service, plan: &SlicePlan) -> Vec<Note> {
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
                Outcome::Given => HintState::Given,
                Outcome::Withheld(withheld) => HintState::Withheld(withheld.cause),
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
                Outcome::Given => {
                    let message = format!("Topology Aware Hints has been enabled, addressType: {family}");
                    Note {
                        warning: false,
                        ..Note::on(service, Controller::Slices, "TopologyAwareHintsEnabled", message)
                    }
                }
                Outcome::Withheld(withheld) => {
                    let message =
                        format!("{}: {}, addressType: {family}", withheld.cause.name(), withheld.detail);
                    Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message)
                }
            });
        }
        notes
    }

    /// Pods that have an address and are no endpoints, as a note: not for each plan, but where one comes to those that were
    /// told of. Comes before the changed pods are forgotten.
    pub(super) fn tell_left_out(
        &mut self,
        service: &Service,
        population: &Population,
        plan: &SlicePlan,
    ) -> Option<Note> {
        let left_out: BTreeSet<&Text> = plan.without_node.iter().collect();
        if self.dirty.is_all() {
            self.left_out.retain(|pod| left_out.contains(pod));
        } else {
            for pod in self.dirty.pods().filter(|pod| !left_out.contains(pod)) {
                self.left_out.remove(pod);
            }
        }
        let fresh: Vec<&Text> = left_out.into_iter().filter(|pod| !self.left_out.contains(*pod)).collect();
        let first = fresh.first()?;
        let node = population.pod_of(&service.name, first).and_then(|pod| pod.node.as_ref());
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
