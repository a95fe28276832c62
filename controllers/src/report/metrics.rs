//! Metrics of the controllers, under the names upstream gives them where it has them.
//!
//! Counts are kept as they happen; sizes are read from the caches when somebody scrapes.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::Verb;
use crate::cache::{Hinting, Traffic};
use crate::controller::Controller;
use crate::index::sizes::Sizes;
use crate::objects::ObjectKind;

/// Something whose sizes can be read.
pub trait Measured: Send + Sync {
    /// The sizes now.
    fn sizes(&self) -> Sizes;
    /// Keys that wait in a controller's queue, and how many were ever added.
    fn queue(&self, controller: Controller) -> (usize, u64);
}

/// The outcome of a look at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncResult {
    /// All is right.
    Success,
    /// A write was refused; the key is looked at again.
    Error,
    /// What is there had to be read first.
    Stale,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HintingLabels {
    topology: Word,
    traffic_distribution: Word,
}

impl HintingLabels {
    fn of(hinting: Hinting) -> Self {
        let (topology, traffic) = match hinting {
            Hinting::TopologyMode => ("Auto", ""),
            Hinting::Field(traffic) => ("Disabled", traffic.name()),
            Hinting::Off => ("Disabled", ""),
        };
        Self { topology: Word(topology), traffic_distribution: Word(traffic) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TrafficLabel {
    traffic_distribution: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabel {
    kind: Word,
}

/// A label value out of a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        EncodeLabelValue::encode(&self.0, encoder)
    }
}

/// How many objects syncs change.
#[derive(Clone, Debug)]
enum Changed {
    /// Of all Services together.
    All(Histogram),
    /// By what gives the hints.
    ByHinting(Family<HintingLabels, Histogram, fn() -> Histogram>),
}

/// The metrics of one controller that keeps slices.
#[derive(Clone, Debug)]
struct PerController {
    added: Histogram,
    removed: Histogram,
    changed: Changed,
    duration: Histogram,
    changes: Family<OperationLabel, Gauge>,
    syncs: Family<ResultLabel, Gauge>,
}

fn powers() -> Histogram {
    Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(2.0, 2.0, 15))
}

impl PerController {
    fn register(registry: &mut Registry, prefix: &str, changed: Changed) -> Self {
        let new = Self {
            added: powers(),
            removed: powers(),
            changed,
            duration: Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(
                0.0005, 2.0, 15,
            )),
            changes: Family::default(),
            syncs: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("endpoints_added_per_sync", "Endpoints added by a sync", new.added.clone());
        registry.register("endpoints_removed_per_sync", "Endpoints removed by a sync", new.removed.clone());
        let (name, help) = ("endpointslices_changed_per_sync", "Slices changed by a sync");
        match new.changed.clone() {
            Changed::All(changed) => registry.register(name, help, changed),
            Changed::ByHinting(changed) => registry.register(name, help, changed),
        }
        registry.register(
            "sync_duration_seconds",
            "From taking a key to the last answer",
            new.duration.clone(),
        );
        registry.register("changes", "Writes that succeeded", new.changes.clone());
        registry.register("syncs", "Looks at a Service", new.syncs.clone());
        new
    }
}

/// The metrics of the set.
#[derive(Clone, Debug)]
pub struct Metrics {
    slices: PerController,
    endpoints: PerController,
    mirrors: PerController,
    cidrs: PerController,
    resets: Family<WatchLabel, Counter>,
    watch_errors: Family<WatchLabel, Counter>,
    unreadable: Family<WatchLabel, Counter>,
    writes_per_change: Histogram,
    source: Source,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

impl Metrics {
    /// Registers all metrics.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let by_hinting = Changed::ByHinting(Family::new_with_constructor(powers));
        let mut plain = |prefix| PerController::register(registry, prefix, Changed::All(powers()));
        let metrics = Self {
            endpoints: plain("endpoints_controller"),
            mirrors: plain("endpoint_slice_mirroring_controller"),
            cidrs: plain("service_cidr_controller"),
            slices: PerController::register(registry, "endpoint_slice_controller", by_hinting),
            resets: Family::default(),
            watch_errors: Family::default(),
            unreadable: Family::default(),
            writes_per_change: Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(
                0.015_625, 2.0, 10,
            )),
            source: Source::default(),
        };
        registry.register("service_controller_watch_lists", "Lists begun, by kind", metrics.resets.clone());
        registry.register(
            "service_controller_watch_errors",
            "Watch errors, by kind",
            metrics.watch_errors.clone(),
        );
        registry.register(
            "service_controller_unreadable_objects",
            "Objects passed over because they cannot be read, by kind",
            metrics.unreadable.clone(),
        );
        registry.register(
            "service_controller_slice_writes_per_endpoint_change",
            "Writes of slices that a sync took for each endpoint that it changed",
            metrics.writes_per_change.clone(),
        );
        registry.register_collector(Box::new(metrics.source.clone()));
        metrics
    }

    /// Where sizes are read from.
    pub fn attach(&self, source: Weak<dyn Measured>) {
        let _ = self.source.0.set(source);
    }

    fn of(&self, controller: Controller) -> &PerController {
        match controller {
            Controller::Slices => &self.slices,
            Controller::Cidrs => &self.cidrs,
            Controller::Endpoints => &self.endpoints,
            Controller::Mirrors => &self.mirrors,
        }
    }

    /// A look at a key ended.
    pub fn synced(&self, controller: Controller, result: SyncResult, seconds: f64) {
        let word = match result {
            SyncResult::Success => "success",
            SyncResult::Error => "error",
            SyncResult::Stale => "stale",
        };
        let metrics = self.of(controller);
        metrics.syncs.get_or_create(&ResultLabel { result: Word(word) }).inc();
        metrics.duration.observe(seconds);
    }

    /// A plan was written: endpoints that came and went, how many writes it took, and what gives the
    /// Service's endpoints their hints.
    #[allow(clippy::cast_precision_loss)] // counts of endpoints
    pub fn planned(&self, controller: Controller, moved: (usize, usize), writes: usize, hinting: Hinting) {
        let metrics = self.of(controller);
        metrics.added.observe(moved.0 as f64);
        metrics.removed.observe(moved.1 as f64);
        match &metrics.changed {
            Changed::All(changed) => changed.observe(writes as f64),
            Changed::ByHinting(changed) => {
                changed.get_or_create(&HintingLabels::of(hinting)).observe(writes as f64);
            }
        }
    }

    /// So many changes of endpoints took so many writes of slices.
    #[allow(clippy::cast_precision_loss)] // counts of endpoints
    pub fn wrote_for(&self, changes: usize, writes: usize) {
        if changes > 0 {
            self.writes_per_change.observe(writes as f64 / changes as f64);
        }
    }

    /// A write succeeded.
    pub fn wrote(&self, controller: Controller, verb: Verb) {
        self.of(controller).changes.get_or_create(&OperationLabel { operation: Word(verb.name()) }).inc();
    }

    /// A list of a kind began.
    pub fn listed(&self, kind: ObjectKind) {
        self.resets.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }

    /// A watch of a kind failed.
    pub fn watch_failed(&self, kind: ObjectKind) {
        self.watch_errors.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }

    /// An object of a kind could not be read.
    pub fn unreadable(&self, kind: ObjectKind) {
        self.unreadable.get_or_create(&WatchLabel { kind: Word(kind.resource()) }).inc();
    }
}

#[derive(Clone, Default)]
struct Source(Arc<OnceLock<Weak<dyn Measured>>>);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    name: Word,
}

impl Collector for Source {
    #[allow(clippy::cast_possible_wrap)] // sizes of caches
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(source) = self.0.get().and_then(Weak::upgrade) else { return Ok(()) };
        let sizes = source.sizes();
        let gauges = [
            (
                "endpoint_slice_controller_endpoints_desired",
                "Endpoints in slices made from pods",
                sizes.endpoints,
            ),
            ("endpoint_slice_controller_num_endpoint_slices", "Slices made from pods", sizes.slices),
            (
                "endpoint_slice_controller_desired_endpoint_slices",
                "Slices that would do for these endpoints",
                sizes.desired_slices,
            ),
            ("service_controller_cache_pods", "Pods in the cache", sizes.pods),
            ("service_controller_cache_services", "Services in the cache", sizes.services),
            ("service_controller_cache_nodes", "Nodes in the cache", sizes.nodes),
            ("service_controller_cache_strings", "Distinct strings in the cache", sizes.strings),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let by_traffic: Family<TrafficLabel, Gauge> = Family::default();
        for (traffic, services) in Traffic::ALL.into_iter().zip(sizes.by_traffic) {
            let label = TrafficLabel { traffic_distribution: Word(traffic.name()) };
            by_traffic.get_or_create(&label).set(services as i64);
        }
        by_traffic.encode(encoder.encode_descriptor(
            "endpoint_slice_controller_services_count_by_traffic_distribution",
            "Services whose hints come from their field trafficDistribution, by its value",
            None,
            by_traffic.metric_type(),
        )?)?;
        let depth: Family<QueueLabel, Gauge> = Family::default();
        let adds: Family<QueueLabel, Gauge> = Family::default();
        for controller in Controller::ALL {
            let (waiting, added) = source.queue(controller);
            let label = QueueLabel { name: Word(controller.name()) };
            depth.get_or_create(&label).set(waiting as i64);
            adds.get_or_create(&label).set(added as i64);
        }
        depth.encode(encoder.encode_descriptor(
            "workqueue_depth",
            "Keys that wait",
            None,
            depth.metric_type(),
        )?)?;
        adds.encode(encoder.encode_descriptor(
            "workqueue_adds_total",
            "Keys added",
            None,
            adds.metric_type(),
        )?)
    }
}
