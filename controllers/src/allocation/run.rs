//! Starts the controllers of the ledger, and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use parking_lot::Mutex;
use service_allocators::{NodePortRange, PortSharing, ServiceKey};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::audit::reconcile::{Audit, Repair};
use super::gauges::Gauges;
use super::ranges::reconcile::Ranges;
use super::sent::Sent;
use super::service::plan::{Problem, decide};
use super::service::reconcile::{Looked, reconcile};
use super::triggers::Triggers;
use super::writes::{Server, now};
use crate::api::{ApiServer, RequestError};
use crate::backoff::Backoff;
use crate::bounded::bounded;
use crate::client::KubeApi;
use crate::controller::{Controller, Key};
use crate::leadership::Leadership;
use crate::ledger::{Changes, Known, Ledger, Wanted, feed};
use crate::readiness::Readiness;
use crate::reconcile::pacing::Urgency;
use crate::reconcile::pending::Next;
use crate::reconcile::runner::{self, Queue};
use crate::report::cause::Cause;
use crate::report::events::Reporter;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};
use crate::report::look::LookId;
use crate::report::metrics::{Metrics, SyncResult};
use crate::report::note::Note;
use crate::report::reconcile::Told;
use crate::report::trigger::{Event, Trigger};
use crate::text::Text;

/// So many Services are looked at at a time.
const CONCURRENCY: usize = 32;
/// So many Services are gone through before others may use the ledger.
const AT_ONCE: usize = 512;
/// A Service that cannot have its values is looked at again after so long; sooner when something comes free.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How the controllers of the ledger run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Those that run.
    pub controllers: BTreeSet<Controller>,
    /// The node ports of a cluster without NodePortRanges.
    pub node_ports: NodePortRange,
    /// Who may share a node port.
    pub sharing: PortSharing,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// `--kube-api-qps`, for Events.
    pub kube_api_qps: f64,
    /// `--kube-api-burst`, for Events.
    pub kube_api_burst: u32,
    /// Where counts go.
    pub metrics: Metrics,
    /// Told which first lists are complete.
    pub readiness: Readiness,
    /// What the audits do about what they find.
    pub repair: Repair,
    /// Whether IPAddresses get a finalizer while a Service has them, so that nobody else can take one that is deleted.
    pub protect: bool,
    /// Where sizes are shown.
    pub gauges: Gauges,
    /// Whom it is told what was reconciled, beside the log.
    pub told: Told,
    /// What is told of failures; the process's other controllers tell theirs there too.
    pub failures: Arc<FailureLog>,
}

/// Runs the controllers of the ledger until `shutdown`.
pub async fn start(client: Client, settings: Settings, shutdown: CancellationToken) {
    let (queue, requests) = Queue::new(Duration::ZERO);
    let triggers = Arc::new(Triggers::default());
    let listener = listener(&settings, &queue, &triggers);
    // What was there before this process works is looked at when it begins.
    let ledger = Ledger::new(settings.node_ports, settings.sharing, listener).silent();
    let watches = settings.metrics.watches().clone();
    let failures = Arc::clone(&settings.failures);
    let wanted = Wanted { pools: true };
    let (fed, feeding) = feed(&client, &ledger, wanted, watches, Arc::clone(&failures), shutdown.clone());
    let pending = settings.readiness.wait_for("ledger");
    let mut tasks = JoinSet::new();
    tasks.spawn(feeding);
    tokio::select! {
        () = fed.complete.cancelled() => drop(pending),
        () = shutdown.cancelled() => return,
    }
    tokio::select! {
        () = settings.leadership.gained() => {}
        () = shutdown.cancelled() => return,
    }
    let (qps, burst) = (settings.kube_api_qps, settings.kube_api_burst);
    let api: Arc<dyn ApiServer> =
        Arc::new(KubeApi::new(client.clone(), qps, burst, settings.leadership.clone()));
    let (reporter, events) = Reporter::new(api, Arc::clone(&failures));
    tasks.spawn(events);
    let fenced = settings.leadership.fence(&bounded(&client));
    let context = Arc::new(Context::new(&settings, (fenced, ledger, reporter, failures), &queue, triggers));
    let counted = Arc::clone(&context);
    settings.gauges.attach(context.ledger.clone(), Box::new(move || counted.findings()));
    context.ledger.tell();
    context.ask_for_all();
    let look = move |key: Key| -> BoxFuture<'static, Next> {
        let context = Arc::clone(&context);
        apart(async move { context.look(key).await }).boxed()
    };
    runner::run(queue, requests, CONCURRENCY, shutdown, look).await;
    tasks.shutdown().await;
}

/// A look in a task of its own, which ends with whoever waits for it: with a client that goes straight into a server (the
/// lab's) the server's part of a request is done where its answer is awaited, and that would be one place for all looks.
async fn apart(look: impl Future<Output = Next> + Send + 'static) -> Next {
    let mut task = JoinSet::new();
    task.spawn(look);
    match task.join_next().await.transpose() {
        Ok(next) => next.unwrap_or_default(),
        Err(error) => {
            error.try_into_panic().map_or_else(|_| Next::Idle, |panic| std::panic::resume_unwind(panic))
        }
    }
}

/// Asks for looks at what changes.
fn listener(
    settings: &Settings,
    queue: &Arc<Queue>,
    triggers: &Arc<Triggers>,
) -> impl Fn(Changes) + Send + Sync + 'static {
    let (queue, triggers) = (Arc::clone(queue), Arc::clone(triggers));
    let (of_services, of_ranges): (Vec<Controller>, Vec<Controller>) =
        settings.controllers.iter().partition(|controller| looks_at_services(**controller));
    move |changes: Changes| {
        for (service, (event, name)) in changes.services {
            let (namespace, service) = (service.namespace().into(), service.name().into());
            for controller in &of_services {
                let key = Key::new(*controller, &namespace, &service);
                triggers.note(&key, event, name.as_ref());
                queue.ask(key, Urgency::Now);
            }
        }
        let event = if changes.ranges { Event::RangesOrPools } else { Event::Fill };
        let of_services =
            of_services.iter().filter(|_| changes.ranges).map(|controller| (controller, Urgency::Settle));
        // A range that is new can be deleted before its finalizer is there.
        let soon = if changes.ranges { Urgency::Now } else { Urgency::Settle };
        let of_ranges = of_ranges.iter().filter(|_| changes.ranges || changes.fill);
        for (controller, urgency) in of_services.chain(of_ranges.map(|controller| (controller, soon))) {
            let key = everything(*controller);
            triggers.note(&key, event, None);
            queue.ask(key, urgency);
        }
    }
}

/// Whether a controller's keys are Services; the others look at ranges or pools.
fn looks_at_services(controller: Controller) -> bool {
    matches!(controller, Controller::Allocation | Controller::Addresses | Controller::NodePorts)
}

fn texts<'a>(names: impl Iterator<Item = &'a String>) -> Vec<Text> {
    names.map(|name| name.as_str().into()).collect()
}

fn key_of(controller: Controller, key: &ServiceKey) -> Key {
    Key::new(controller, &key.namespace().into(), &key.name().into())
}

/// The key that stands for all ranges or pools, or for all Services about which something is known.
fn everything(controller: Controller) -> Key {
    Key::new(controller, &"".into(), &"".into())
}

/// What the looks share.
struct Context {
    controllers: BTreeSet<Controller>,
    server: Server,
    ledger: Ledger,
    audits: [Audit; 2],
    ranges: Ranges,
    failures: Arc<FailureLog>,
    reporter: Reporter,
    metrics: Metrics,
    queue: Arc<Queue>,
    triggers: Arc<Triggers>,
    told: Told,
    remembered: Mutex<HashMap<Key, Remembered>>,
}

/// What is remembered of an object that is not as it should be.
#[derive(Debug, Default)]
struct Remembered {
    backoff: Backoff,
    told: Vec<Problem>,
}

impl Context {
    fn new(
        settings: &Settings,
        (client, ledger, reporter, failures): (Client, Ledger, Reporter, Arc<FailureLog>),
        queue: &Arc<Queue>,
        triggers: Arc<Triggers>,
    ) -> Self {
        let server = Server::new(client.clone());
        let audit = |controller| Audit {
            controller,
            server: server.clone(),
            ledger: ledger.clone(),
            reporter: reporter.clone(),
            repair: settings.repair,
            protect: settings.protect,
            found: Mutex::default(),
        };
        Self {
            controllers: settings.controllers.clone(),
            audits: [audit(Controller::Addresses), audit(Controller::NodePorts)],
            ranges: Ranges { client, ledger: ledger.clone(), reporter: reporter.clone() },
            server,
            ledger,
            failures,
            reporter,
            metrics: settings.metrics.clone(),
            queue: Arc::clone(queue),
            triggers,
            told: settings.told.clone(),
            remembered: Mutex::default(),
        }
    }

    fn findings(&self) -> BTreeMap<&'static str, usize> {
        let [addresses, ports] = &self.audits;
        let mut counts = addresses.counts();
        counts.extend(ports.counts());
        counts
    }

    /// Asks for a look for such a reason.
    fn ask(&self, key: Key, event: Event) {
        self.triggers.note(&key, event, None);
        self.queue.ask(key, Urgency::Now);
    }

    /// Every Service, and every one that entries name, of which there is anything to do; every range and pool.
    fn ask_for_all(&self) {
        let keys = self.all_services();
        for controller in &self.controllers {
            if looks_at_services(*controller) {
                self.ask_wanting(*controller, &keys, Event::Start);
            } else {
                self.ask(everything(*controller), Event::Start);
            }
        }
    }

    /// Every Service, and every one that entries name.
    fn all_services(&self) -> Vec<ServiceKey> {
        self.ledger.with(|known| {
            let unknown = |parent: &&ServiceKey| known.service(parent).is_none();
            let orphans: HashSet<&ServiceKey> =
                known.entries().filter_map(|entry| entry.parent.as_ref()).filter(unknown).collect();
            known.services().map(|(key, _)| key).chain(orphans).cloned().collect()
        })
    }

    /// Those of these Services of which a controller has anything to do.
    fn ask_wanting(&self, controller: Controller, keys: &[ServiceKey], event: Event) {
        for part in keys.chunks(AT_ONCE) {
            let wanted: Vec<&ServiceKey> = self
                .ledger
                .with(|known| part.iter().filter(|key| self.wants(known, controller, key)).collect());
            for key in wanted {
                self.ask(key_of(controller, key), event);
            }
        }
    }

    /// Whether a controller has anything to do about a Service. Most it has not, and a queue of all would be larger than
    /// what is known of them.
    fn wants(&self, known: &Known, controller: Controller, key: &ServiceKey) -> bool {
        match controller {
            Controller::Addresses => self.audits[0].wants(known, key),
            Controller::NodePorts => self.audits[1].wants(known, key),
            _ => !decide(known, key, now(), &mut rand::rng()).is_done(),
        }
    }

    /// Asks for each object that a key of everything stands for, which was called for by such an event. Another range may
    /// put what is in order in the wrong, and what is not in the right.
    fn ask_each(&self, controller: Controller, event: Event) {
        let names = match controller {
            Controller::PortRanges => self.ledger.with(|known| texts(known.port_ranges().keys())),
            Controller::Pools => self.ledger.with(|known| texts(known.pools().keys())),
            _ => {
                let audits = self.audits.iter().filter(|audit| audit.controller == controller);
                let found: Vec<ServiceKey> =
                    audits.flat_map(|audit| audit.found.lock().keys().cloned().collect::<Vec<_>>()).collect();
                for key in &found {
                    self.ask(key_of(controller, key), event);
                }
                return self.ask_wanting(controller, &self.all_services(), event);
            }
        };
        for name in names {
            self.ask(Key::new(controller, &"".into(), &name), event);
        }
    }

    async fn look(&self, key: Key) -> Next {
        let (controller, trigger) = (key.controller, self.triggers.take(&key));
        if key.name.is_empty() {
            self.ask_each(controller, trigger.event().unwrap_or(Event::Time));
            return Next::Idle;
        }
        let (start, waited) = (Instant::now(), self.queue.waited(&key));
        let service = ServiceKey::new(&*key.namespace, &*key.name);
        let working = self.metrics.begin(controller, Some(waited.queued));
        let sent = Sent::begin(controller, &self.metrics, &self.told);
        let looked = match controller {
            Controller::Allocation => {
                let looked = reconcile(&self.server, &self.ledger, &service, &sent).await;
                looked.map(|looked| self.settle(&key, &service, looked, sent.id()))
            }
            Controller::Addresses => self.audits[0].look(&service, &sent).await,
            Controller::NodePorts => self.audits[1].look(&service, &sent).await,
            _ => self.ranges.look(controller, &key.name, &sent).await.map(|()| None),
        };
        drop(working);
        sent.tell(&key, &trigger, waited);
        let result = if looked.is_ok() { SyncResult::Success } else { SyncResult::Error };
        self.metrics.synced(controller, result, start.elapsed().as_secs_f64());
        match looked {
            Ok(later) => {
                if controller != Controller::Allocation {
                    self.remembered.lock().remove(&key);
                }
                self.failures.works(&Subject::Key(key));
                later.map_or(Next::Idle, Next::After)
            }
            Err(error) => {
                self.triggers.again(&key, trigger.clone());
                self.again(key, &trigger, &error)
            }
        }
    }

    /// Tells what a Service cannot have; gives when to look again.
    fn settle(&self, key: &Key, service: &ServiceKey, looked: Looked, id: LookId) -> Option<Duration> {
        if looked.contended {
            return Some(Duration::from_millis(50));
        }
        if looked.problems.is_empty() {
            self.remembered.lock().remove(key);
            return None;
        }
        let news: Vec<Problem> = {
            let mut remembered = self.remembered.lock();
            let known = remembered.entry(key.clone()).or_default();
            known.backoff.reset();
            let reasons: BTreeSet<&str> = known.told.iter().map(|problem| problem.reason).collect();
            let news = looked.problems.iter().filter(|problem| !reasons.contains(problem.reason)).cloned();
            let news = news.collect();
            known.told = looked.problems;
            news
        };
        let uid = self.ledger.with(|known| known.service(service).map(|facts| facts.uid.clone()));
        for problem in news {
            let Some(uid) = &uid else { break };
            if self.is_told_by_an_audit(problem.reason) {
                continue;
            }
            let note = Note {
                kind: "Service",
                api_version: "v1",
                namespace: service.namespace().into(),
                name: service.name().into(),
                uid: uid.clone(),
                warning: true,
                reason: problem.reason,
                message: problem.message,
                controller: Controller::Allocation,
            };
            self.reporter.tell_of(note, Some(id));
        }
        Some(TRY_AGAIN)
    }

    /// Whether an audit of this process tells of such a problem, which it reads anew before.
    fn is_told_by_an_audit(&self, reason: &str) -> bool {
        let controller = match reason {
            "ClusterIPOutOfRange" | "ClusterIPAlreadyAllocated" => Controller::Addresses,
            "PortAlreadyAllocated" => Controller::NodePorts,
            _ => return false,
        };
        let tells = |audit: &Audit| audit.controller == controller && audit.repair != Repair::Off;
        self.controllers.contains(&controller) && self.audits.iter().any(tells)
    }

    fn again(&self, key: Key, trigger: &Trigger, error: &RequestError) -> Next {
        let again = self.remembered.lock().entry(key.clone()).or_default().backoff.after(error);
        let controller = key.controller;
        let trigger = trigger.to_string();
        let about = About { trigger: Some(&trigger), ..About::default() };
        let failure = Failure { about, cause: &Cause::of(error), why: error };
        self.failures.failed(&Subject::Key(key), &[failure], Some(again));
        self.metrics.retried(controller);
        Next::After(again)
    }
}
