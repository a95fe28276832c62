//! Metrics of the controllers, under the names upstream gives them where it has them.
//!
//! Counts are kept as they happen; sizes are read from the caches when somebody scrapes.

mod controller;
mod labels;
mod latency;
mod queue;
mod requests;
mod sizes;
mod text;
mod watches;

use std::sync::Weak;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::Verb;
use crate::cache::Hinting;
use crate::controller::Controller;
use crate::index::oddities::Oddities;
use crate::index::sizes::Sizes;
use crate::leadership::Leadership;

use controller::ControllerMetrics;
use latency::Latency;
use queue::QueueMetrics;
use sizes::Source;

pub use queue::Working;
pub use requests::RequestMetrics;
pub use text::{CONTENT_TYPE, exposition};
pub use watches::WatchMetrics;

/// Something whose sizes can be read.
pub trait Measured: Send + Sync {
    /// The sizes now.
    fn sizes(&self) -> Sizes;
    /// What of the endpoints is not as a person would expect it.
    fn oddities(&self) -> Oddities;
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

impl SyncResult {
    const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Stale => "stale",
        }
    }
}

/// What a plan changes, in endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Endpoints that are new in their slices.
    pub added: usize,
    /// Endpoints that stay, and change.
    pub updated: usize,
    /// Of these, how many are ready now and were not.
    pub readied: usize,
    /// Of these, how many are not ready any more.
    pub unready: usize,
    /// Endpoints that leave their slices.
    pub removed: usize,
    /// Addresses that are left out, being invalid or too many.
    pub skipped: usize,
    /// What gives them their hints.
    pub hinting: Hinting,
}

impl Planned {
    /// How many endpoints are not as before.
    #[must_use]
    pub const fn changes(&self) -> usize {
        self.added + self.updated + self.removed
    }
}

/// The metrics of the set.
#[derive(Clone, Debug)]
pub struct Metrics {
    slices: ControllerMetrics,
    endpoints: ControllerMetrics,
    mirrors: ControllerMetrics,
    cidrs: ControllerMetrics,
    of_the_ledger: [ControllerMetrics; 5],
    queues: QueueMetrics,
    requests: RequestMetrics,
    watches: WatchMetrics,
    writes_per_change: Histogram,
    latency: Latency,
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
        let metrics = Self {
            slices: ControllerMetrics::slices(registry),
            mirrors: ControllerMetrics::mirrors(registry),
            endpoints: ControllerMetrics::plain(registry, "endpoints_controller"),
            cidrs: ControllerMetrics::plain(registry, "service_cidr_controller"),
            of_the_ledger: Controller::OF_THE_LEDGER
                .map(|controller| ControllerMetrics::plain(registry, controller.names().metrics)),
            queues: QueueMetrics::register(registry),
            requests: RequestMetrics::register(registry),
            watches: WatchMetrics::register(registry),
            writes_per_change: Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(
                0.015_625, 2.0, 10,
            )),
            latency: Latency::register(registry),
            source: Source::default(),
        };
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
        self.source.attach(source);
    }

    /// Whose lease is held, or waited for.
    pub fn elect(&self, lease: &str, leadership: Leadership) {
        self.source.elect(lease, leadership);
    }

    /// Those of requests to the API server.
    #[must_use]
    pub fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Those of watches.
    #[must_use]
    pub fn watches(&self) -> &WatchMetrics {
        &self.watches
    }

    fn of(&self, controller: Controller) -> &ControllerMetrics {
        match controller {
            Controller::Slices => &self.slices,
            Controller::Cidrs => &self.cidrs,
            Controller::Endpoints => &self.endpoints,
            Controller::Mirrors => &self.mirrors,
            Controller::Allocation => &self.of_the_ledger[0],
            Controller::Addresses => &self.of_the_ledger[1],
            Controller::NodePorts => &self.of_the_ledger[2],
            Controller::PortRanges => &self.of_the_ledger[3],
            Controller::Pools => &self.of_the_ledger[4],
        }
    }

    /// A look at a key begins, which was due for so long, if that is known. It lasts until what this gives is dropped.
    pub fn begin(&self, controller: Controller, waited: Option<Duration>) -> Working {
        self.queues.begin(controller, waited)
    }

    /// A look at a key failed and is taken again.
    pub fn retried(&self, controller: Controller) {
        self.queues.retried(controller);
    }

    /// A look at a key ended.
    pub fn synced(&self, controller: Controller, result: SyncResult, seconds: f64) {
        self.of(controller).synced(result, seconds);
    }

    /// A plan was sent, in so many writes.
    pub fn planned(&self, controller: Controller, planned: &Planned, writes: usize) {
        self.of(controller).planned(planned, writes);
    }

    /// So many changes of endpoints took so many writes of slices.
    #[allow(clippy::cast_precision_loss)] // counts of endpoints
    pub fn wrote_for(&self, changes: usize, writes: usize) {
        if changes > 0 {
            self.writes_per_change.observe(writes as f64 / changes as f64);
        }
    }

    /// Changes of endpoints are in their slices, so long after the first event, and after the change of a pod if it was one.
    pub fn in_slices(&self, since_event: Duration, since_change: Option<Duration>) {
        self.latency.observe(since_event, since_change);
    }

    /// A write succeeded.
    pub fn wrote(&self, controller: Controller, verb: Verb) {
        self.of(controller).wrote(verb);
    }
}
