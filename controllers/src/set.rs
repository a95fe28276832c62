//! The set of controllers: one world, one watch per kind, one queue and some workers for each.
//!
//! Owns start, leadership and end; what a controller does is decided in its own module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::api::{Answer, ApiServer, Refusal, Reply};
use crate::client::KubeApi;
use crate::endpoints::state::EndpointsJob;
use crate::endpointslice::apply;
use crate::endpointslice::plan::Change;
use crate::endpointslice::state::{End, SliceJob, Step};
use crate::error::Error;
use crate::lease::{Candidate, Election, Outcome};
use crate::mirroring::state::MirrorStep;
use crate::queue::{Due, Queue};
use crate::report::events::Reporter;
use crate::report::metrics::{Measured, Metrics, SyncResult};
use crate::servicecidr::state::CidrStep;
use crate::watch::cache::SliceKeeper;
use crate::watch::relist::Kind;
use crate::watch::sizes::Sizes;
use crate::watch::source::{Happening, Taken, follow};
use crate::watch::world::{Controller, Key, Limits, Pace, World};

/// So many writes of one Service are sent at a time.
const WRITES_AT_ONCE: usize = 32;

/// While pods come and go in a Service with several slices, its slices are written when no further
/// pod has come or gone for this long.
const QUIET: Duration = Duration::from_millis(100);
/// But no later than this.
const LONGEST: Duration = Duration::from_secs(1);

/// Up to so many pods, the `Endpoints` of a Service are put right with each change.
const FEW: u32 = 100;
/// With more, they are left alone for so long per pod after each look.
const REST_PER_POD: Duration = Duration::from_micros(200);

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
    let Some(candidate) = settings.leader_election.clone() else {
        return run(client, settings, shutdown).await;
    };
    let (namespace, name) = (candidate.namespace.clone(), candidate.name.clone());
    let mut election = Election::new(client.clone(), candidate);
    if !election.win(&shutdown).await {
        return Ok(());
    }
    let (stop, done) = (shutdown.child_token(), CancellationToken::new());
    let working = async {
        let result = run(client, settings, stop.clone()).await;
        done.cancel();
        result
    };
    let leading = async {
        let outcome = election.hold(&done).await;
        stop.cancel();
        outcome
    };
    match tokio::join!(working, leading) {
        (_, Outcome::Lost) => Err(Error::LeaseLost { namespace, name }),
        (result, Outcome::Released) => result,
    }
}

async fn run(client: kube::Client, settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let api: Arc<dyn ApiServer> =
        Arc::new(KubeApi::new(client.clone(), settings.kube_api_qps, settings.kube_api_burst));
    let (reporter, events) = Reporter::new(Arc::clone(&api));
    let engine = Arc::new(Engine::new(api, reporter, settings));
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
    while let Some(ended) = workers.join_next().await {
        ended?;
    }
    tasks.shutdown().await;
    Ok(())
}

/// What the workers and watches of a set share.
struct Engine {
    api: Arc<dyn ApiServer>,
    world: Mutex<World>,
    queues: [Queue; 4],
    reporter: Reporter,
    settings: Settings,
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
    fn new(api: Arc<dyn ApiServer>, reporter: Reporter, settings: Settings) -> Self {
        let limits = Limits {
            max_per_slice: settings.max_endpoints_per_slice,
            max_mirrored: settings.mirroring_max_endpoints_per_subset,
            enabled: settings.controllers.clone(),
        };
        Self { api, world: Mutex::new(World::new(limits)), queues: Default::default(), reporter, settings }
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

    fn batch(&self, controller: Controller) -> Duration {
        match controller {
            Controller::Slices => self.settings.endpointslice_updates_batch_period,
            Controller::Endpoints => self.settings.endpoint_updates_batch_period,
            Controller::Mirrors => self.settings.mirroring_endpointslice_updates_batch_period,
            Controller::Cidrs => Duration::ZERO,
        }
    }

    /// Follows every kind that some controller needs; returns when all first lists are complete. Pods
    /// come last, when nodes and Services are known.
    async fn watch(self: &Arc<Self>, client: kube::Client, tasks: &mut JoinSet<()>) {
        let on = |controller| self.settings.controllers.contains(&controller);
        let (slices, endpoints, mirrors) =
            (on(Controller::Slices), on(Controller::Endpoints), on(Controller::Mirrors));
        let wanted = [
            (Kind::Services, slices || endpoints || mirrors),
            (Kind::Nodes, slices),
            (Kind::Slices, slices || mirrors),
            (Kind::Endpoints, endpoints || mirrors),
            (Kind::Addresses, on(Controller::Cidrs)),
            (Kind::Cidrs, on(Controller::Cidrs)),
        ];
        let first: Vec<CancellationToken> = wanted
            .into_iter()
            .filter(|(_, wanted)| *wanted)
            .map(|(kind, _)| self.follow(&client, kind, tasks))
            .collect();
        for listed in first {
            listed.cancelled().await;
        }
        if slices || endpoints {
            self.follow(&client, Kind::Pods, tasks).cancelled().await;
        }
    }

    /// Follows one kind; the token is cancelled when its first list is complete.
    fn follow(
        self: &Arc<Self>,
        client: &kube::Client,
        kind: Kind,
        tasks: &mut JoinSet<()>,
    ) -> CancellationToken {
        let listed = CancellationToken::new();
        let (engine, done) = (Arc::clone(self), listed.clone());
        let take = move |happening: Happening<'_>| engine.take(kind, happening, &done);
        tasks.spawn(follow(client.clone(), kind, take));
        listed
    }

    fn take(&self, kind: Kind, happening: Happening<'_>, listed: &CancellationToken) -> Taken {
        let mut world = self.world.lock();
        let mut taken = Ok(String::new());
        match happening {
            Happening::Seen(json) => {
                taken = world.seen(kind, json);
                self.complain(&mut world, kind, json, &taken);
            }
            Happening::Gone(json) => {
                taken = world.gone(kind, json);
                self.complain(&mut world, kind, json, &taken);
            }
            Happening::ListBegins => {
                self.settings.metrics.listed(kind);
                world.list_begins(kind);
            }
            Happening::ListEnds => {
                world.list_ends(kind);
                listed.cancel();
            }
            Happening::Failed(error) => {
                self.settings.metrics.watch_failed(kind);
                tracing::warn!(?kind, %error, "watch failed and is tried again");
            }
        }
        self.flush(&mut world);
        taken
    }

    /// Counts and names an object that cannot be read; the caches keep what they had of it.
    fn complain(&self, world: &mut World, kind: Kind, json: &[u8], taken: &Taken) {
        if let Err(error) = taken {
            self.settings.metrics.unreadable(kind);
            let object = world.unreadable(kind, json);
            tracing::error!(?kind, object, %error, "an object cannot be read and is passed over");
        }
    }

    /// Passes on what the world calls for.
    fn flush(&self, world: &mut World) {
        for (key, pace) in world.take_wakes() {
            self.enqueue(key, pace);
        }
        for note in world.take_notes() {
            self.reporter.tell(note);
        }
    }

    fn enqueue(&self, key: Key, pace: Pace) {
        let batch = self.batch(key.controller);
        let due = match pace {
            Pace::Now => Due::After(Duration::ZERO),
            Pace::Gather if batch < QUIET => Due::Quiet { quiet: QUIET, longest: LONGEST },
            Pace::Batch | Pace::Gather => Due::After(batch),
        };
        self.queues[key.controller as usize].add(key, due);
    }

    async fn work(self: Arc<Self>, controller: Controller, shutdown: CancellationToken) {
        let queue = &self.queues[controller as usize];
        loop {
            let key = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                key = queue.next() => key,
            };
            let again = self.reconcile(&key).await;
            if let Some(wait) = again {
                queue.add(key.clone(), Due::After(wait));
            }
            let rest = self.rest(&key);
            if rest.is_zero() {
                queue.done(&key);
            } else {
                let engine = Arc::clone(&self);
                tokio::spawn(async move {
                    tokio::time::sleep(rest).await;
                    engine.queues[controller as usize].done(&key);
                });
            }
        }
    }

    /// How long a key is left alone after a look. The `Endpoints` of a Service are one object, made
    /// anew from all of its pods: where these are many, changes are taken together.
    fn rest(&self, key: &Key) -> Duration {
        if key.controller != Controller::Endpoints {
            return Duration::ZERO;
        }
        let pods = self.world.lock().pods_of(&key.namespace, &key.name);
        if pods > FEW { (REST_PER_POD * pods).min(LONGEST) } else { Duration::ZERO }
    }

    /// Looks at a key; gives when to look again, if something went wrong.
    async fn reconcile(&self, key: &Key) -> Option<Duration> {
        let start = Instant::now();
        let (result, again) = match key.controller {
            Controller::Slices => self.slices(key).await,
            Controller::Endpoints => self.endpoints(key).await,
            Controller::Mirrors => self.mirror(key).await,
            Controller::Cidrs => self.cidr(key).await,
        };
        self.settings.metrics.synced(key.controller, result, start.elapsed().as_secs_f64());
        again
    }

    /// Changes the world, and passes on what it calls for.
    fn with_world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.lock();
        let out = change(&mut world);
        self.flush(&mut world);
        out
    }

    async fn slices(&self, key: &Key) -> (SyncResult, Option<Duration>) {
        let step = self.with_world(|world| world.plan_slices(&key.namespace, &key.name));
        self.slice_step(key, SliceKeeper::Slices, step).await
    }

    async fn mirror(&self, key: &Key) -> (SyncResult, Option<Duration>) {
        let plan = || self.with_world(|world| world.plan_mirror(&key.namespace, &key.name));
        let step = match plan() {
            MirrorStep::Slices(step) => step,
            MirrorStep::ReadEndpoints => match self.read_endpoints(key).await {
                Ok(()) => match plan() {
                    MirrorStep::Slices(step) => step,
                    MirrorStep::ReadEndpoints => return (SyncResult::Stale, Some(Duration::from_secs(1))),
                },
                Err(refusal) => return (SyncResult::Error, Some(wait_after(&refusal))),
            },
        };
        self.slice_step(key, SliceKeeper::Mirrors, step).await
    }

    async fn slice_step(
        &self,
        key: &Key,
        keeper: SliceKeeper,
        step: Step<SliceJob>,
    ) -> (SyncResult, Option<Duration>) {
        match step {
            Step::Idle | Step::Hold => (SyncResult::Success, None),
            Step::Read => match self.api.slices_of(&key.namespace, &key.name).await {
                Ok(found) => {
                    self.with_world(|world| world.slices_read(&key.namespace, keeper, &key.name, found));
                    (SyncResult::Stale, Some(Duration::ZERO))
                }
                Err(refusal) => (SyncResult::Error, Some(wait_after(&refusal))),
            },
            Step::Send(job) => {
                let span = reconcile(key, job.cause, job.changes.len());
                let write = async {
                    let answers = self.send(&job).await;
                    ended(key, self.with_world(|world| world.finish_slices(job, answers)))
                };
                write.instrument(span).await
            }
        }
    }

    /// Sends the writes of one Service together; the answers come in their order.
    async fn send(&self, job: &SliceJob) -> Vec<Answer<Reply>> {
        let answers = if let [change] = &job.changes[..] {
            vec![self.send_slice(job, change).await]
        } else {
            let sent: Vec<_> =
                job.changes.iter().map(|change| self.send_slice(job, change).boxed()).collect();
            futures::stream::iter(sent).buffered(WRITES_AT_ONCE).collect().await
        };
        self.settings.metrics.planned(job.controller, job.moved.0, job.moved.1, answers.len());
        answers
    }

    async fn send_slice(&self, job: &SliceJob, change: &Change) -> Answer<Reply> {
        let write = apply::request(&job.namespace, change)
            .map_err(|e| Refusal::Rejected { code: 0, message: e.to_string() })?;
        let answer = self.api.write(&write).await;
        if answer.is_ok() {
            self.settings.metrics.wrote(job.controller, write.verb);
        }
        // The server names what is made.
        let made = answer.as_ref().map_or("", |reply| &reply.metadata.name);
        tracing::info!(
            controller = job.controller.name(),
            namespace = &*job.namespace,
            service = &*job.service,
            trigger = job.cause,
            verb = write.verb.name(),
            slice = write.name.as_deref().unwrap_or(made),
            refused = answer.as_ref().err().map(tracing::field::display),
            "wrote slice"
        );
        answer
    }

    async fn endpoints(&self, key: &Key) -> (SyncResult, Option<Duration>) {
        match self.with_world(|world| world.plan_endpoints(&key.namespace, &key.name)) {
            Step::Idle | Step::Hold => (SyncResult::Success, None),
            Step::Read => match self.read_endpoints(key).await {
                Ok(()) => (SyncResult::Stale, Some(Duration::ZERO)),
                Err(refusal) => (SyncResult::Error, Some(wait_after(&refusal))),
            },
            Step::Send(job) => {
                let span = reconcile(key, "service or pods", 1);
                let write = async {
                    let answer = self.send_endpoints(&job).await;
                    ended(key, self.with_world(|world| world.finish_endpoints(job, answer)))
                };
                write.instrument(span).await
            }
        }
    }

    async fn send_endpoints(&self, job: &EndpointsJob) -> Answer<Reply> {
        let answer = self.api.write(&job.write).await;
        if answer.is_ok() {
            self.settings.metrics.wrote(Controller::Endpoints, job.write.verb);
        }
        tracing::info!(
            controller = Controller::Endpoints.name(),
            namespace = &*job.namespace,
            service = &*job.name,
            verb = job.write.verb.name(),
            refused = answer.as_ref().err().map(tracing::field::display),
            "wrote endpoints"
        );
        answer
    }

    async fn cidr(&self, key: &Key) -> (SyncResult, Option<Duration>) {
        match self.with_world(|world| world.plan_cidr(&key.name, jiff::Timestamp::now())) {
            CidrStep::Idle => (SyncResult::Success, None),
            CidrStep::Wait(wait) => (SyncResult::Success, Some(wait)),
            CidrStep::Send(job) => {
                let answer = self.api.write(&job.write).await;
                if answer.is_ok() {
                    self.settings.metrics.wrote(Controller::Cidrs, job.write.verb);
                }
                tracing::info!(
                    controller = Controller::Cidrs.name(),
                    name = %job.name,
                    status = job.write.status,
                    refused = answer.as_ref().err().map(tracing::field::display),
                    "wrote service CIDR"
                );
                ended(key, self.with_world(|world| world.finish_cidr(job, answer)))
            }
        }
    }

    async fn read_endpoints(&self, key: &Key) -> Result<(), Refusal> {
        let found = match self.api.endpoints(&key.namespace, &key.name).await {
            Ok(found) => Some(found),
            Err(Refusal::NotFound(_)) => None,
            Err(refusal) => return Err(refusal),
        };
        self.with_world(|world| world.endpoints_read(&key.namespace, &key.name, found));
        Ok(())
    }
}

/// The span of what a look at a key decided to write, and of what came of it. Each write says whose
/// it is in its own line: a span that is always there would be made for every change.
fn reconcile(key: &Key, trigger: &'static str, writes: usize) -> tracing::Span {
    tracing::debug_span!(
        "reconcile",
        controller = key.controller.name(),
        namespace = %key.namespace,
        name = %key.name,
        trigger,
        decision = "write",
        writes,
    )
}

fn ended(key: &Key, end: End) -> (SyncResult, Option<Duration>) {
    let Some(refusal) = end.failure else { return (SyncResult::Success, end.again) };
    match refusal {
        // Expected now and then, and put right by the next look.
        Refusal::Conflict(_) | Refusal::NotFound(_) => tracing::debug!(%key, %refusal, "looked at again"),
        _ => tracing::warn!(%key, %refusal, again = ?end.again, "a write failed"),
    }
    (SyncResult::Error, end.again)
}

fn wait_after(refusal: &Refusal) -> Duration {
    match refusal {
        Refusal::Busy { after: Some(after), .. } => *after,
        _ => Duration::from_secs(1),
    }
}
