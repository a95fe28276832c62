//! A look at a ServiceCIDR, as kube's `Controller` calls for it: the finalizer first, then the condition, and at its end
//! whether it may go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use futures::channel::mpsc;
use futures::{Stream, StreamExt};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{self, Action};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::reflector::Store;
use kube::runtime::{Controller as KubeController, watcher};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::object::{Ready, ServiceCidr};
use super::plan::{self, Hold, Range};
use crate::api::{RequestError, Resource, Verb};
use crate::backoff::Backoff;
use crate::client::request_error_of;
use crate::controller::{Controller, Key};
use crate::index::Index;
use crate::keys;
use crate::report::cause::Cause;
use crate::report::events::Reporter;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};
use crate::report::metrics::{Metrics, SyncResult};
use crate::report::note::Note;
use crate::report::reconcile::ReconcileLine;
use crate::text::{Text, Uid};
use crate::watch::guard::{Guard, WATCH};
use crate::watch::stream;

/// So many ranges are looked at at a time.
const CONCURRENCY: u16 = 5;
const SAID_EVERY: Duration = Duration::from_secs(1);
const TRIGGER: &str = "service CIDRs or addresses";

/// What a look at a ServiceCIDR works with.
pub struct Context {
    /// ServiceCIDRs on the server.
    pub api: Api<ServiceCidr>,
    /// Where allocated addresses are known.
    pub index: Arc<Mutex<Index>>,
    /// Whether this replica writes.
    pub leads: Arc<AtomicBool>,
    /// What is told of failures.
    pub failures: Arc<FailureLog>,
    /// What is told on objects.
    pub reporter: Reporter,
    /// What is counted.
    pub metrics: Metrics,
    /// Allocators have so long to notice that a range goes.
    pub grace: Duration,
    /// Calls for a look at all ranges.
    pub recheck: Recheck,
    /// What is remembered of the ranges.
    pub known: Memory,
}

/// What is remembered of the ranges, by name.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<Text, Known>>);

/// What is remembered of one range.
#[derive(Debug, Default)]
struct Known {
    version: String,
    /// When it was last said who holds it.
    said: Option<Instant>,
    backoff: Backoff,
}

/// Calls for a look at all ranges: they depend on each other, and there are few.
#[derive(Clone, Debug)]
pub struct Recheck {
    calls: Arc<Mutex<mpsc::Sender<()>>>,
    /// Whether some range waits for addresses to go.
    waits: Arc<AtomicBool>,
}

impl Recheck {
    /// A way to call, and the calls; those that come together are one.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<()>) {
        let (calls, called) = mpsc::channel(0);
        (Self { calls: Arc::new(Mutex::new(calls)), waits: Arc::default() }, called)
    }

    /// All ranges are looked at.
    pub fn all(&self) {
        // One that waits already is as good.
        let _ = self.calls.lock().try_send(());
    }

    /// An address came or went: that matters to ranges that are being removed.
    pub fn address_changed(&self) {
        if self.waits.load(Ordering::Relaxed) {
            self.all();
        }
    }
}

/// Why a range is not as it should be, by the step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Addresses hold it; it is looked at again when one goes.
    #[error("addresses are in no other range")]
    Blocked,
    /// Allocators may not have noticed its end yet.
    #[error("allocators have {0:?} to notice that the range goes")]
    Notice(Duration),
    /// The condition could not be written.
    #[error("the condition Ready was not written: {0}")]
    Condition(RequestError),
    /// The finalizer could not be put on or taken off.
    #[error("the finalizer was not written: {0}")]
    Finalizer(RequestError),
}

/// Runs the controller until `shutdown`. It watches whether or not this replica leads, and writes only if it does.
pub async fn run(
    context: Arc<Context>,
    client: &kube::Client,
    guard: &Arc<Guard>,
    called: impl Stream<Item = ()> + Send + 'static,
    listed: CancellationToken,
    shutdown: CancellationToken,
) {
    let watched: Api<ServiceCidr> = Api::all(guard.around(client));
    #[allow(clippy::cast_possible_truncation)] // 290
    let config =
        watcher::Config::default().page_size(guard.kind().page_size()).timeout(WATCH.as_secs() as u32);
    let controller = KubeController::new(watched, config)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .trigger_backoff(WatchWaits::default())
        .reconcile_all_on(called)
        .graceful_shutdown_on(async move { shutdown.cancelled().await });
    let store = controller.store();
    // A store wakes only one of those who wait for it, and the controller does too: both have to be one task.
    let ready = store.clone();
    let filled = async move {
        if ready.wait_until_ready().await.is_ok() {
            listed.cancel();
        }
    };
    let look = move |cidr: Arc<ServiceCidr>, context: Arc<Context>| {
        let store = store.clone();
        async move { reconcile(cidr, &context, &store).await }
    };
    let looks = controller.run(look, again, context);
    let worked = looks.for_each(|looked| {
        if let Err(controller::Error::QueueError(error)) = looked {
            let error = stream::reason(guard, error);
            guard.observer().failed(guard.kind(), &error, LONGEST_WAIT);
        }
        std::future::ready(())
    });
    futures::join!(worked, filled);
}

/// The longest wait before the watch of ranges is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The waits between tries to watch ranges: doubling up to [`LONGEST_WAIT`].
#[derive(Debug, Default)]
struct WatchWaits {
    tries: u32,
}

impl Iterator for WatchWaits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.tries += 1;
        Some((Duration::from_millis(25) * 2_u32.pow(self.tries.min(10))).min(LONGEST_WAIT))
    }
}

impl kube::runtime::utils::Backoff for WatchWaits {
    fn reset(&mut self) {
        self.tries = 0;
    }
}

/// Puts a range right.
async fn reconcile(
    cidr: Arc<ServiceCidr>,
    context: &Context,
    store: &Store<ServiceCidr>,
) -> Result<Action, Error> {
    if !context.leads.load(Ordering::Relaxed) {
        return Ok(Action::await_change());
    }
    let start = Instant::now();
    let _working = context.metrics.begin(Controller::Cidrs, None);
    context.observe(&cidr);
    let looked = finalizer(&context.api, keys::SERVICE_CIDR_FINALIZER, Arc::clone(&cidr), |event| async {
        match event {
            Event::Apply(cidr) => say(&cidr, context, &plan::usable(&cidr.prefixes())).await,
            Event::Cleanup(cidr) => release(&cidr, context, store).await,
        }
    })
    .await;
    let looked = looked.map_err(step);
    if looked.is_ok() {
        context.tell_finalizer(&cidr);
    }
    context.tell_outcome(&cidr, &looked, start.elapsed());
    looked
}

fn step(error: finalizer::Error<Error>) -> Error {
    match error {
        finalizer::Error::ApplyFailed(error) | finalizer::Error::CleanupFailed(error) => error,
        finalizer::Error::AddFinalizer(error) | finalizer::Error::RemoveFinalizer(error) => {
            Error::Finalizer(request_error_of(&error))
        }
        error @ (finalizer::Error::UnnamedObject | finalizer::Error::InvalidFinalizer) => {
            Error::Finalizer(RequestError::Unknown(error.to_string()))
        }
    }
}

/// Whether a range may go; says why if not.
async fn release(cidr: &ServiceCidr, context: &Context, store: &Store<ServiceCidr>) -> Result<Action, Error> {
    context.recheck.waits.store(true, Ordering::Relaxed);
    let ranges: Vec<Range> = store.state().iter().map(Range::of).collect();
    let name = cidr.name();
    let Some(range) = ranges.iter().find(|range| *range.name == *name) else {
        return Ok(Action::await_change());
    };
    let now = jiff::Timestamp::now().as_duration().as_secs_f64();
    let held = plan::hold(range, &ranges, &context.index.lock().addresses, context.grace, now);
    match held {
        Hold::Free => Ok(Action::await_change()),
        Hold::Notice(wait) => Err(Error::Notice(wait)),
        Hold::Addresses { count, parents } => {
            let said = plan::blocked(count, &parents);
            if !cidr.says(&said) {
                context.wait_to_say(&cidr.name())?;
                if !cidr.is_terminating() {
                    context.reporter.tell(in_use(cidr, &plan::holders(count, &parents)));
                }
                say(cidr, context, &said).await?;
            }
            Err(Error::Blocked)
        }
    }
}

fn in_use(cidr: &ServiceCidr, holders: &str) -> Note {
    Note {
        kind: "ServiceCIDR",
        api_version: "networking.k8s.io/v1",
        namespace: "".into(),
        name: cidr.name(),
        uid: Uid::from(cidr.metadata.uid.as_deref().unwrap_or_default()),
        warning: true,
        reason: "ServiceCIDRInUse",
        message: format!(
            "The ServiceCIDR is removed when no address is left that is in no other: it has {holders}"
        ),
        controller: Controller::Cidrs,
    }
}

/// Puts the condition Ready right.
async fn say(cidr: &ServiceCidr, context: &Context, said: &Ready) -> Result<Action, Error> {
    if !cidr.says(said) {
        let patch = Patch::Merge(cidr.saying(said, jiff::Timestamp::now()));
        let name = cidr.name();
        let written = context.api.patch_status(&name, &PatchParams::default(), &patch).await;
        written.map_err(|error| Error::Condition(request_error_of(&error)))?;
        context.tell_write(
            &name,
            if said.ready { "say that it is ready" } else { "say that addresses hold it" },
        );
    }
    Ok(Action::await_change())
}

/// When a range that is not as it should be is looked at again.
#[allow(clippy::needless_pass_by_value)] // as kube gives them
fn again(cidr: Arc<ServiceCidr>, error: &Error, context: Arc<Context>) -> Action {
    match error {
        Error::Blocked
        | Error::Condition(RequestError::NotFound(_))
        | Error::Finalizer(RequestError::NotFound(_)) => Action::await_change(),
        Error::Notice(wait) => Action::requeue(*wait),
        Error::Condition(error) | Error::Finalizer(error) => {
            let again = context.known.0.lock().entry(cidr.name()).or_default().backoff.after(error);
            let about = About { trigger: Some(TRIGGER), verb: Some(Verb::Merge.name()), ..About::default() };
            let object = format!("servicecidrs/{}", cidr.name());
            let about = About { object: Some(&object), ..about };
            let failure = Failure { about, cause: &Cause::of(error), why: error };
            context.failures.failed(&subject(&cidr.name()), &[failure], Some(again));
            context.metrics.retried(Controller::Cidrs);
            Action::requeue(again)
        }
    }
}

fn subject(name: &Text) -> Subject {
    Subject::Key(Key::new(Controller::Cidrs, &"".into(), name))
}

impl Context {
    /// Takes note of a range's version: a new one may matter to all others.
    fn observe(&self, cidr: &ServiceCidr) {
        let version = cidr.metadata.resource_version.clone().unwrap_or_default();
        let mut known = self.known.0.lock();
        let known = known.entry(cidr.name()).or_default();
        if std::mem::replace(&mut known.version, version.clone()) != version {
            self.recheck.all();
        }
    }

    /// Who holds a range is said once a second at most: it may have many Services that go one after the other.
    fn wait_to_say(&self, name: &Text) -> Result<(), Error> {
        let mut known = self.known.0.lock();
        let known = known.entry(name.clone()).or_default();
        let left = known.said.map(|said| (said + SAID_EVERY).saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Err(Error::Notice(left));
        }
        known.said = Some(Instant::now());
        Ok(())
    }

    fn tell_write(&self, name: &Text, decision: &str) {
        self.metrics.wrote(Controller::Cidrs, Verb::Merge);
        let key = Key::new(Controller::Cidrs, &"".into(), name);
        ReconcileLine::of_one(&key, TRIGGER, Some(decision), Resource::ServiceCidrs, Verb::Merge).tell();
    }

    /// The finalizer was put on, or taken off, if that was what the range lacked.
    fn tell_finalizer(&self, cidr: &ServiceCidr) {
        match (cidr.has_finalizer(), cidr.deleted().is_some()) {
            (false, false) => self.tell_write(&cidr.name(), "add the finalizer"),
            (true, true) => {
                self.tell_write(&cidr.name(), "take the finalizer off");
                self.known.0.lock().remove(&cidr.name());
                self.recheck.all();
            }
            (true, false) | (false, true) => {}
        }
    }

    fn tell_outcome(&self, cidr: &ServiceCidr, looked: &Result<Action, Error>, took: Duration) {
        let failed = matches!(looked, Err(Error::Condition(_) | Error::Finalizer(_)));
        let result = if failed { SyncResult::Error } else { SyncResult::Success };
        self.metrics.synced(Controller::Cidrs, result, took.as_secs_f64());
        if !failed {
            self.failures.works(&subject(&cidr.name()));
            if let Some(known) = self.known.0.lock().get_mut(&cidr.name()) {
                known.backoff.reset();
            }
        }
    }
}
