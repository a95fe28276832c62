//! What became of the topology hints, told once for each new state.

use super::plan::SlicePlan;
use super::plan::hints::{Cause, Outcome};
use super::state::SliceState;
use crate::watch::cache::Service;
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
            if self.hints.iter().any(|(_, state)| *state == HintState::Given) {
                let message = "Topology hints are off: the annotation is gone".to_owned();
                notes.push(Note::on(service, Controller::Slices, "TopologyAwareHintsDisabled", message));
            }
            self.hints.clear();
            return notes;
        }
        for (family, outcome) in &plan.hints {
            let state = match outcome {
                Outcome::Given => HintState::Given,
                Outcome::Withheld(withheld) => HintState::Withheld(withheld.cause),
            };
            let before = self.hints.iter_mut().find(|(f, _)| f == family);
            if before.as_ref().is_some_and(|(_, before)| *before == state) {
                continue;
            }
            match before {
                Some(before) => before.1 = state,
                None => self.hints.push((*family, state)),
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
}
