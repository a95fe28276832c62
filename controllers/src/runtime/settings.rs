//! The settings of a set of controllers, by the names of upstream's flags.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::leadership::Leadership;
use crate::lease::Candidate;
use crate::readiness::Readiness;
use crate::report::log::FailureLog;
use crate::report::metrics::Metrics;
use crate::report::reconcile::Told;

/// The settings, by the names of upstream's flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--controllers`, resolved.
    pub controllers: BTreeSet<Controller>,
    /// `--max-endpoints-per-slice`
    pub max_endpoints_per_slice: usize,
    /// `--mirroring-max-endpoints-per-subset`
    pub mirroring_max_endpoints_per_subset: usize,
    /// `--concurrent-service-endpoint-syncs`
    pub concurrent_service_endpoint_syncs: usize,
    /// `--concurrent-endpoint-syncs`
    pub concurrent_endpoint_syncs: usize,
    /// `--mirroring-concurrent-service-endpoint-syncs`
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// `--endpointslice-updates-batch-period`
    pub endpointslice_updates_batch_period: Duration,
    /// `--endpoint-updates-batch-period`
    pub endpoint_updates_batch_period: Duration,
    /// `--mirroring-endpointslice-updates-batch-period`
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// `--kube-api-qps`; not limited if not positive.
    pub kube_api_qps: f64,
    /// `--kube-api-burst`
    pub kube_api_burst: u32,
    /// `--leader-elect` and its companions; none to run at once.
    pub leader_election: Option<Candidate>,
    /// Whether this process leads, told by that election to whoever else writes.
    pub leadership: Leadership,
    /// Where counts go.
    pub metrics: Metrics,
    /// Whom it is told what was reconciled, beside the log.
    pub told: Told,
    /// What is told of failures; the process's other controllers tell theirs there too.
    pub failures: Arc<FailureLog>,
    /// Allocators have so long to notice that a ServiceCIDR is being removed.
    pub service_cidr_grace: Duration,
    /// Told when the first lists are complete.
    pub ready: CancellationToken,
    /// Told which first lists are complete.
    pub readiness: Readiness,
    /// Notified when there are new credentials: waits that began because the old ones were refused end then.
    pub renewed: Arc<Notify>,
}

impl Default for Settings {
    /// Upstream's defaults, but for the client's rate limits: an API server with priority and
    /// fairness says itself when it is too much.
    fn default() -> Self {
        Self {
            controllers: Controller::ALL.into_iter().collect(),
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
            concurrent_service_endpoint_syncs: 8,
            concurrent_endpoint_syncs: 8,
            mirroring_concurrent_service_endpoint_syncs: 5,
            endpointslice_updates_batch_period: Duration::ZERO,
            endpoint_updates_batch_period: Duration::ZERO,
            mirroring_endpointslice_updates_batch_period: Duration::ZERO,
            kube_api_qps: 1000.0,
            kube_api_burst: 2000,
            leader_election: None,
            leadership: Leadership::without_election(),
            metrics: Metrics::default(),
            told: Told::default(),
            failures: Arc::default(),
            service_cidr_grace: crate::servicecidr::plan::GRACE,
            ready: CancellationToken::new(),
            readiness: Readiness::default(),
            renewed: Arc::default(),
        }
    }
}

impl Settings {
    /// How many keys of a controller are looked at at a time.
    #[must_use]
    pub fn concurrency(&self, controller: Controller) -> usize {
        match controller {
            Controller::Slices => self.concurrent_service_endpoint_syncs,
            Controller::Endpoints => self.concurrent_endpoint_syncs,
            Controller::Mirrors => self.mirroring_concurrent_service_endpoint_syncs,
            _ => 5,
        }
        .max(1)
    }

    /// How long changes of pods wait.
    #[must_use]
    pub fn batch(&self, controller: Controller) -> Duration {
        match controller {
            Controller::Slices => self.endpointslice_updates_batch_period,
            Controller::Endpoints => self.endpoint_updates_batch_period,
            Controller::Mirrors => self.mirroring_endpointslice_updates_batch_period,
            _ => Duration::ZERO,
        }
    }
}
