//! What each controller did: looks, writes, and what they changed. Upstream's names and buckets where upstream has them
//! (`endpointslice/metrics`, `endpointslicemirroring/metrics`); its other two controllers count nothing of their own.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::labels::{HintingLabels, OperationLabel, ResultLabel, Word};
use super::{Planned, SyncResult};
use crate::api::Verb;

/// Endpoints per sync: 2, 4, 8 and so on.
fn counts() -> Histogram {
    Histogram::new(exponential_buckets(2.0, 2.0, 15))
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// The buckets that a histogram of the Go client has if it names none.
fn unnamed() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// What all of them count.
#[derive(Clone, Debug)]
pub(super) struct ControllerMetrics {
    changes: Family<OperationLabel, Counter>,
    syncs: Family<ResultLabel, Counter>,
    duration: Histogram,
    moved: Option<Moved>,
    mirrored: Option<Mirrored>,
}

/// Of controllers that keep slices.
#[derive(Clone, Debug)]
struct Moved {
    added: Histogram,
    removed: Histogram,
}

/// What differs between the two.
#[derive(Clone, Debug)]
enum Mirrored {
    No(Family<HintingLabels, Histogram, fn() -> Histogram>),
    Yes { updated: Histogram, skipped: Histogram },
}

impl ControllerMetrics {
    /// Those of a controller that keeps no slices.
    pub(super) fn plain(registry: &mut Registry, prefix: &str) -> Self {
        Self::register(registry.sub_registry_with_prefix(prefix), "sync_duration_seconds")
    }

    pub(super) fn slices(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("endpoint_slice_controller");
        let changed: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(unnamed);
        registry.register(
            "endpointslices_changed_per_sync",
            "Slices changed by a sync, by what gives the hints",
            changed.clone(),
        );
        let moved = Some(Moved::register(registry));
        let rest = Self::register(registry, "sync_duration_seconds");
        Self { moved, mirrored: Some(Mirrored::No(changed)), ..rest }
    }

    pub(super) fn mirrors(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("endpoint_slice_mirroring_controller");
        let (updated, skipped) = (counts(), counts());
        registry.register("endpoints_updated_per_sync", "Endpoints changed by a sync", updated.clone());
        registry.register(
            "addresses_skipped_per_sync",
            "Addresses that are invalid or too many for a subset",
            skipped.clone(),
        );
        let moved = Some(Moved::register(registry));
        let rest = Self::register(registry, "endpoints_sync_duration");
        Self { moved, mirrored: Some(Mirrored::Yes { updated, skipped }), ..rest }
    }

    fn register(registry: &mut Registry, duration: &str) -> Self {
        let new = Self {
            changes: Family::default(),
            syncs: Family::default(),
            duration: seconds(),
            moved: None,
            mirrored: None,
        };
        registry.register("changes", "Writes that succeeded", new.changes.clone());
        registry.register("syncs", "Looks at a key, by what came of them", new.syncs.clone());
        registry.register(duration, "From taking a key to the last answer, in seconds", new.duration.clone());
        new
    }

    pub(super) fn synced(&self, result: SyncResult, seconds: f64) {
        self.syncs.get_or_create(&ResultLabel { result: Word(result.name()) }).inc();
        self.duration.observe(seconds);
    }

    pub(super) fn wrote(&self, verb: Verb) {
        self.changes.get_or_create(&OperationLabel { operation: Word(verb.name()) }).inc();
    }

    #[allow(clippy::cast_precision_loss)] // counts of endpoints
    pub(super) fn planned(&self, planned: &Planned, writes: usize) {
        if let Some(moved) = &self.moved {
            moved.added.observe(planned.added as f64);
            moved.removed.observe(planned.removed as f64);
        }
        match &self.mirrored {
            Some(Mirrored::No(changed)) => {
                changed.get_or_create(&HintingLabels::of(planned.hinting)).observe(writes as f64);
            }
            Some(Mirrored::Yes { updated, skipped }) => {
                updated.observe(planned.updated as f64);
                skipped.observe(planned.skipped as f64);
            }
            None => {}
        }
    }
}

impl Moved {
    fn register(registry: &mut Registry) -> Self {
        let new = Self { added: counts(), removed: counts() };
        registry.register("endpoints_added_per_sync", "Endpoints added by a sync", new.added.clone());
        registry.register("endpoints_removed_per_sync", "Endpoints removed by a sync", new.removed.clone());
        new
    }
}
