//! The mirroring controller's state of each `Endpoints` object: what is out of date, plans out.

use std::sync::Arc;

use super::plan;
use crate::endpointslice::plan::Change;
use crate::endpointslice::state::{SliceJob, Step, Traffic};
use crate::text::Text;
use crate::watch::cache::Hinting;
use crate::watch::world::{Controller, Note, World};

/// What the controller remembers of one `Endpoints` object.
#[derive(Debug, Default)]
pub struct MirrorState {
    pub(crate) traffic: Traffic,
    /// A slice of the mirror was changed by somebody else.
    pub(crate) stale: bool,
    told: (usize, usize),
}

/// What has to be done for a mirror.
#[derive(Debug)]
pub enum MirrorStep {
    /// As for any slices.
    Slices(Step<SliceJob>),
    /// The addresses have to be read first: they are not kept of objects that pods are written to.
    ReadEndpoints,
}

impl World {
    /// What to do for the mirror of the `Endpoints` of this name.
    pub fn plan_mirror(&mut self, namespace: &Text, name: &Text) -> MirrorStep {
        let Some(space) = self.spaces.get_mut(namespace) else { return MirrorStep::Slices(Step::Idle) };
        let slices = space.mirrors.get(name).map_or(&[][..], |shelf| shelf.slices());
        let service = space.services.get(name);
        let object = space.endpoints.get(name);
        if object.is_none() && slices.is_empty() {
            space.mirror_states.remove(name);
            space.mirrors.remove(name);
            return MirrorStep::Slices(Step::Idle);
        }
        let state = space.mirror_states.entry(Arc::clone(name)).or_default();
        if state.traffic.open {
            return MirrorStep::Slices(Step::Idle);
        }
        if state.traffic.uncertain {
            state.traffic.open = true;
            return MirrorStep::Slices(Step::Read);
        }
        state.stale = false;
        let wanted = object.filter(|o| plan::is_mirrored(o) && service.is_some_and(|s| s.selector.is_none()));
        let Some(object) = wanted else {
            let removed = slices.iter().map(|s| s.endpoints.len()).sum();
            let changes = plan::remove(slices);
            return MirrorStep::Slices(send(namespace, name, changes, (0, removed), &mut state.traffic));
        };
        let Some(subsets) = object.subsets.clone() else { return MirrorStep::ReadEndpoints };
        let plan = plan::plan(name, object, &subsets, slices, self.limits.max_mirrored);
        let step = send(namespace, name, plan.changes, (plan.added, plan.removed), &mut state.traffic);
        let told = (plan.skipped, plan.invalid);
        let uid = object.uid.clone();
        if std::mem::replace(&mut state.told, told) != told {
            let note = |reason, message| Note {
                kind: "Endpoints",
                api_version: "v1",
                namespace: Arc::clone(namespace),
                name: Arc::clone(name),
                uid: uid.clone(),
                warning: true,
                reason,
                message,
                controller: Controller::Mirrors,
            };
            let (skipped, invalid) = told;
            let max = self.limits.max_mirrored;
            if invalid > 0 {
                let text = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
                self.note(note("InvalidIPAddress", text));
            }
            if skipped > 0 {
                let text = format!(
                    "A max of {max} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
                );
                self.note(note("TooManyAddressesToMirror", text));
            }
        }
        MirrorStep::Slices(step)
    }
}

fn send(
    namespace: &Text,
    name: &Text,
    changes: Vec<Change>,
    moved: (usize, usize),
    traffic: &mut Traffic,
) -> Step<SliceJob> {
    if changes.is_empty() {
        return Step::Idle;
    }
    traffic.open = true;
    Step::Send(SliceJob {
        controller: Controller::Mirrors,
        cause: "endpoints",
        namespace: Arc::clone(namespace),
        service: Arc::clone(name),
        changes,
        moved,
        hinting: Hinting::Off,
    })
}
