//! Metrics under kube-proxy's names where it has them.

use std::sync::{Arc, atomic::AtomicU64};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

type Seconds = Gauge<f64, AtomicU64>;

/// Why something did not work; a closed list, so that series are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// The category of the error.
    pub reason: String,
}

/// All series.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// How long a sync took, in seconds.
    pub sync_duration: Histogram,
    /// From a change of a pod or Service to the rules, in seconds.
    pub programming: Histogram,
    /// When rules were last changed, in seconds since 1970.
    pub last_sync: Seconds,
    /// When a change was last waiting.
    pub last_queued: Seconds,
    /// Transactions that the kernel took.
    pub transactions: Counter,
    /// Steps in them.
    pub steps: Counter,
    /// Transactions that failed.
    pub failures: Family<Reason, Counter>,
    /// Services whose rules the kernel refuses.
    pub refused: Gauge,
    /// Things that a look at the table found different.
    pub put_right: Counter,
    /// Endpoints that are left out for their address.
    pub unusable_endpoints: Gauge,
    /// Health check ports that cannot be had.
    pub health_ports_failed: Gauge,
    /// Entries of connection tracking that were removed.
    pub conntrack_deleted: Counter,
    /// Watches that fail at the moment.
    pub watches_failing: Gauge,
}

impl Metrics {
    /// All series, registered.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets = || (0..15).map(|n| 0.001 * f64::from(1 << n));
        let metrics = Self {
            sync_duration: Histogram::new(buckets()),
            programming: Histogram::new(buckets()),
            last_sync: Seconds::default(),
            last_queued: Seconds::default(),
            transactions: Counter::default(),
            steps: Counter::default(),
            failures: Family::default(),
            refused: Gauge::default(),
            put_right: Counter::default(),
            unusable_endpoints: Gauge::default(),
            health_ports_failed: Gauge::default(),
            conntrack_deleted: Counter::default(),
            watches_failing: Gauge::default(),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kubeproxy");
        registry.register(
            "sync_proxy_rules_duration_seconds",
            "How long a sync took",
            self.sync_duration.clone(),
        );
        registry.register(
            "network_programming_duration_seconds",
            "From a change to the rules",
            self.programming.clone(),
        );
        registry.register(
            "sync_proxy_rules_last_timestamp_seconds",
            "When rules were last changed",
            self.last_sync.clone(),
        );
        registry.register(
            "sync_proxy_rules_last_queued_timestamp_seconds",
            "When a change was last waiting",
            self.last_queued.clone(),
        );
        registry.register(
            "sync_proxy_rules_nftables_sync_failures",
            "Transactions that failed",
            self.failures.clone(),
        );
        registry.register(
            "nftables_transactions",
            "Transactions that the kernel took",
            self.transactions.clone(),
        );
        registry.register("nftables_steps", "Steps in them", self.steps.clone());
        registry.register(
            "refused_services",
            "Services whose rules the kernel refuses",
            self.refused.clone(),
        );
        registry.register(
            "put_right",
            "Things that a look at the table found different",
            self.put_right.clone(),
        );
        registry.register(
            "unusable_endpoints",
            "Endpoints that are left out for their address",
            self.unusable_endpoints.clone(),
        );
        registry.register(
            "health_ports_failed",
            "Health check ports that cannot be had",
            self.health_ports_failed.clone(),
        );
        registry.register(
            "conntrack_reconciler_deleted_entries",
            "Entries of connection tracking that were removed",
            self.conntrack_deleted.clone(),
        );
        registry.register("watches_failing", "Watches that fail at the moment", self.watches_failing.clone());
    }

    /// Counts a failure.
    pub fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&Reason { reason: reason.to_owned() }).inc();
    }
}

/// A registry that the port and the proxy share.
pub type Shared = Arc<parking_lot::Mutex<Registry>>;
