//! The set of controllers: one world, one watch per kind, one queue and some workers for each.
//!
//! Owns settings, start, leadership and end; what a controller does is decided in its own module.

mod pace;
mod refused;
mod watches;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::ApiServer;
use crate::client::KubeApi;
use crate::error::Error;
use crate::lease::{Candidate, Election, Outcome};
use crate::queue::Queue;
use crate::report::events::Reporter;
use crate::report::log::FailureLog;
use crate::report::metrics::{Measured, Metrics};
use crate::watch::reach::Reach;
use crate::watch::sizes::Sizes;
use crate::watch::world::{Controller, Limits, World};

/// At the end, answers to writes under way are awaited for so long. Whoever comes next reads what came
/// of them.
const GRACE: Duration = Duration::from_secs(3);

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
    /// Where counts go.
    pub metrics: Metrics,
    /// Told when the first lists are complete.
    pub ready: CancellationToken,
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
            metrics: Metrics::default(),
            ready: CancellationToken::new(),
        }
    }
}

/// Runs the controllers until `shutdown`, as the leader if the settings ask for an election.
///
/// # Errors
/// If the lease was lost, or a part of the set ended for a fault of its own.
pub async fn start(
    client: kube::Client,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let failures = Arc::new(FailureLog::default());
    let Some(candidate) = settings.leader_election.clone() else {
        return run(client, settings, failures, shutdown).await;
    };
    let (namespace, name) = (candidate.namespace.clone(), candidate.name.clone());
    let deadline = candidate.renew_deadline;
    let mut election = Election::new(client.clone(), candidate, Arc::clone(&failures));
    if !election.win(&shutdown).await {
        return Ok(());
    }
    let (stop, done) = (shutdown.child_token(), CancellationToken::new());
    let working = async {
        let result = run(client, settings, failures, stop.clone()).await;
        done.cancel();
        result
    };
    let leading = async {
        let outcome = election.hold(&done).await;
        stop.cancel();
        outcome
    };
    match tokio::join!(working, leading) {
        (_, Outcome::Taken) => {
            let why = "another replica has it".to_owned();
            Err(Error::LeaseLost { namespace, name, why })
        }
        (_, Outcome::Overdue) => {
            let why = format!("it was not renewed within {deadline:?}, the log says why");
            Err(Error::LeaseLost { namespace, name, why })
        }
        (result, Outcome::Released) => result,
    }
}

async fn run(
    client: kube::Client,
    settings: Settings,
    failures: Arc<FailureLog>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let api: Arc<dyn ApiServer> =
        Arc::new(KubeApi::new(client.clone(), settings.kube_api_qps, settings.kube_api_burst));
    let (reporter, events) = Reporter::new(Arc::clone(&api));
    let engine = Arc::new(Engine::new(api, reporter, failures, settings, shutdown.clone()));
    let measured: Arc<dyn Measured> = engine.clone();
    engine.settings.metrics.attach(Arc::downgrade(&measured));
    let mut tasks = JoinSet::new();
    tasks.spawn(events);
    tokio::select! {
        () = engine.watch(client, &mut tasks) => {}
        () = shutdown.cancelled() => return Ok(()),
    }
    engine.world.lock().started();
    tracing::info!(sizes = ?engine.world.lock().sizes(), "caches are filled");
    engine.settings.ready.cancel();
    let mut workers = JoinSet::new();
    for controller in engine.settings.controllers.clone() {
        for _ in 0..engine.workers(controller) {
            workers.spawn(Arc::clone(&engine).work(controller, shutdown.clone()));
        }
    }
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(overdue);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                Some(ended) => ended?,
                None => break,
            },
            () = &mut overdue => {
                tracing::warn!("the server does not answer; what was sent to it is not waited for");
                workers.shutdown().await;
                break;
            }
        }
    }
    tasks.shutdown().await;
    Ok(())
}

/// What the workers and watches of a set share.
struct Engine {
    api: Arc<dyn ApiServer>,
    world: Mutex<World>,
    queues: [Queue; 4],
    reach: Reach,
    reporter: Reporter,
    failures: Arc<FailureLog>,
    settings: Settings,
    shutdown: CancellationToken,
}

impl Measured for Engine {
    fn sizes(&self) -> Sizes {
        self.world.lock().sizes()
    }

    fn queue(&self, controller: Controller) -> (usize, u64) {
        self.queues[controller as usize].depth()
    }
}

impl Engine {
    fn new(
        api: Arc<dyn ApiServer>,
        reporter: Reporter,
        failures: Arc<FailureLog>,
        settings: Settings,
        shutdown: CancellationToken,
    ) -> Self {
        let limits = Limits {
            max_per_slice: settings.max_endpoints_per_slice,
            max_mirrored: settings.mirroring_max_endpoints_per_subset,
            enabled: settings.controllers.clone(),
        };
        Self {
            api,
            world: Mutex::new(World::new(limits)),
            queues: Default::default(),
            reach: Reach::default(),
            reporter,
            failures,
            settings,
            shutdown,
        }
    }

    fn workers(&self, controller: Controller) -> usize {
        match controller {
            Controller::Slices => self.settings.concurrent_service_endpoint_syncs,
            Controller::Endpoints => self.settings.concurrent_endpoint_syncs,
            Controller::Mirrors => self.settings.mirroring_concurrent_service_endpoint_syncs,
            Controller::Cidrs => 5,
        }
        .max(1)
    }
}
