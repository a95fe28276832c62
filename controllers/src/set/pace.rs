//! When a key is due, and how long it is left alone after a look.

use std::time::Duration;

use super::Engine;
use crate::queue::Due;
use crate::watch::world::{Controller, Key, Pace};

/// While pods come and go in a Service with several slices, its slices are written when no further
/// pod has come or gone for this long.
const QUIET: Duration = Duration::from_millis(100);
/// But no later than this.
const LONGEST: Duration = Duration::from_secs(1);

/// Up to so many pods, the `Endpoints` of a Service are put right with each change.
const FEW: u32 = 100;
/// With more, they are left alone for so long per pod after each look.
const REST_PER_POD: Duration = Duration::from_micros(200);

impl Engine {
    fn batch(&self, controller: Controller) -> Duration {
        match controller {
            Controller::Slices => self.settings.endpointslice_updates_batch_period,
            Controller::Endpoints => self.settings.endpoint_updates_batch_period,
            Controller::Mirrors => self.settings.mirroring_endpointslice_updates_batch_period,
            Controller::Cidrs => Duration::ZERO,
        }
    }

    pub(super) fn enqueue(&self, key: Key, pace: Pace) {
        let batch = self.batch(key.controller);
        let due = match pace {
            Pace::Now => Due::After(Duration::ZERO),
            Pace::Gather if batch < QUIET => Due::Quiet { quiet: QUIET, longest: LONGEST },
            Pace::Batch | Pace::Gather => Due::After(batch),
        };
        self.queues[key.controller as usize].add(key, due);
    }

    /// How long a key is left alone after a look. The `Endpoints` of a Service are one object, made
    /// anew from all of its pods: where these are many, changes are taken together.
    pub(super) fn rest(&self, key: &Key) -> Duration {
        if key.controller != Controller::Endpoints {
            return Duration::ZERO;
        }
        let pods = self.world.lock().pods_of(&key.namespace, &key.name);
        if pods > FEW { (REST_PER_POD * pods).min(LONGEST) } else { Duration::ZERO }
    }
}
