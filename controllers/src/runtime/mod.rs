//! The set of controllers: one index, one watch per kind, one queue for each controller.
//!
//! Owns start, leadership and end. The watches run and the index is filled whether or not this replica leads; controllers
//! are told of what happens, and write, only while it does. What a controller does is decided in its own module.

mod settings;
mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::settings::Settings;
use crate::api::ApiServer;
use crate::api::WatchError;
use crate::client::KubeApi;
use crate::controller::Controller;
use crate::error::Error;
use crate::feed::{Feed, States};
use crate::index::Index;
use crate::index::oddities::Oddities;
use crate::index::sizes::Sizes;
use crate::leadership::Leadership;
use crate::lease::{Election, TermEnd};
use crate::objects::ObjectKind;
use crate::reconcile::context::{Context, Delivery};
use crate::reconcile::outbox::Outbox;
use crate::reconcile::report::look;
use crate::reconcile::runner::{self, Queue, Requests};
use crate::report::cause::Cause;
use crate::report::events::Reporter;
use crate::report::failures::Subject;
use crate::report::log::{About, Failure, FailureLog};
use crate::report::metrics::Measured;
use crate::servicecidr;
use crate::servicecidr::state::Recheck;
use crate::text::Text;
use crate::watch::guard::{Guard, Observer};
use crate::watch::outage::Outage;
use crate::{endpoints, endpointslice, mirroring};

/// At the end, answers to writes under way are awaited for so long. The next leader reads what came
/// of them.
const GRACE: Duration = Duration::from_secs(3);

/// Runs the controllers until `shutdown`, as the leader if the settings ask for an election.
///
/// # Errors
/// If the lease was lost, or a part of the set ended for a fault of its own.
pub async fn start(
    client: kube::Client,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let (set, rest) = Set::new(&client, settings, shutdown.clone());
    let measured: Arc<dyn Measured> = set.clone();
    set.settings.metrics.attach(Arc::downgrade(&measured));
    let mut tasks = JoinSet::new();
    tasks.spawn(rest.events);
    tasks.spawn(Arc::clone(&set).probe(client.clone()));
    tasks.spawn(Arc::clone(&set).take_up_credentials());
    tokio::select! {
        () = set.watch(&client, rest.called, &mut tasks) => {}
        () = shutdown.cancelled() => return Ok(()),
    }
    tracing::info!(sizes = ?set.sizes(), "caches are filled");
    set.settings.ready.cancel();
    let ended = set.lead_or_follow(client, rest.requests, shutdown).await;
    tasks.shutdown().await;
    ended
}

/// What the watches and controllers of a set share.
struct Set {
    api: Arc<dyn ApiServer>,
    index: Arc<Mutex<Index>>,
    feed: Arc<Feed>,
    queues: [Arc<Queue>; 4],
    outage: Outage,
    recheck: Recheck,
    cidrs: Arc<Mutex<servicecidr::state::State>>,
    leads: Arc<AtomicBool>,
    /// The watches that bring mostly our own echoes.
    echoes: Mutex<Vec<Arc<Guard>>>,
    leadership: Leadership,
    reporter: Reporter,
    failures: Arc<FailureLog>,
    settings: Settings,
    shutdown: CancellationToken,
}

/// The other ends of what a set consists of.
struct Rest<E> {
    events: E,
    requests: [Requests; 4],
    called: mpsc::Receiver<()>,
}

impl Set {
    fn new(
        client: &kube::Client,
        settings: Settings,
        shutdown: CancellationToken,
    ) -> (Arc<Self>, Rest<impl Future<Output = ()> + Send + use<>>) {
        let leadership = match &settings.leader_election {
            Some(candidate) => {
                let leadership = settings.leadership.of_an_election();
                settings.metrics.elect(&candidate.name, leadership.clone());
                leadership
            }
            None => Leadership::without_election(),
        };
        let (qps, burst) = (settings.kube_api_qps, settings.kube_api_burst);
        let api = KubeApi::new(client.clone(), qps, burst, leadership.clone());
        let api: Arc<dyn ApiServer> = Arc::new(api.counted(settings.metrics.requests().clone()));
        let failures = Arc::clone(&settings.failures);
        let (reporter, events) = Reporter::new(Arc::clone(&api), Arc::clone(&failures));
        let index = Arc::new(Mutex::new(Index::default()));
        let (queues, requests) = queues(&settings);
        let (recheck, called) = Recheck::new();
        let feed = feed(&index, &queues, &reporter, &recheck, &settings);
        let leads = Arc::default();
        let set = Self {
            api,
            index,
            feed,
            queues,
            outage: Outage::default(),
            recheck,
            cidrs: Arc::default(),
            leads,
            echoes: Mutex::default(),
            leadership,
            reporter,
            failures,
            settings,
            shutdown,
        };
        (Arc::new(set), Rest { events, requests, called })
    }

    /// Works as the leader, at once or when the election is won; returns when it is lost or the end is asked for.
    async fn lead_or_follow(
        self: &Arc<Self>,
        client: kube::Client,
        requests: [Requests; 4],
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let Some(candidate) = self.settings.leader_election.clone() else {
            return self.lead(requests, shutdown).await;
        };
        let (namespace, name) = (candidate.namespace.clone(), candidate.name.clone());
        let (leadership, failures) = (self.leadership.clone(), Arc::clone(&self.failures));
        let mut election = Election::new(client, candidate, leadership, failures);
        if !election.win(&shutdown).await {
            return Ok(());
        }
        let (stop, done) = (shutdown.child_token(), CancellationToken::new());
        let working = async {
            let result = self.lead(requests, stop.clone()).await;
            done.cancel();
            result
        };
        let leading = async {
            let outcome = election.hold(&done).await;
            stop.cancel();
            outcome
        };
        match tokio::join!(working, leading) {
            (_, TermEnd::Taken) => {
                let why = "another replica has it".to_owned();
                Err(Error::LeaseLost { namespace, name, why })
            }
            (_, TermEnd::Overdue(why)) => Err(Error::LeaseLost { namespace, name, why }),
            (result, TermEnd::Released) => result,
        }
    }

    /// Lets the controllers work until `stop`. All that there is calls for a look; nothing has to be listed.
    async fn lead(self: &Arc<Self>, requests: [Requests; 4], stop: CancellationToken) -> Result<(), Error> {
        self.leads.store(true, Ordering::Relaxed);
        let mut runners = JoinSet::new();
        let states = self.start_controllers(requests, &stop, &mut runners);
        if runners.is_empty() {
            // Others lead by this election.
            let stop = stop.clone();
            runners.spawn(async move { stop.cancelled().await });
        }
        self.feed.lead(&states);
        // From now on their metadata will do.
        self.echoes.lock().iter().for_each(|guard| guard.reopen());
        self.recheck.all();
        let overdue = async {
            stop.cancelled().await;
            self.leads.store(false, Ordering::Relaxed);
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(overdue);
        loop {
            tokio::select! {
                ended = runners.join_next() => match ended {
                    Some(ended) => ended?,
                    None => return Ok(()),
                },
                () = &mut overdue => {
                    tracing::warn!("the server does not answer; what was sent to it is not waited for");
                    runners.shutdown().await;
                    return Ok(());
                }
            }
        }
    }

    fn start_controllers(
        self: &Arc<Self>,
        requests: [Requests; 4],
        stop: &CancellationToken,
        runners: &mut JoinSet<()>,
    ) -> States {
        let mut states = States::default();
        for (controller, requests) in Controller::ALL.into_iter().zip(requests) {
            if !self.settings.controllers.contains(&controller) {
                continue;
            }
            let queue = Arc::clone(&self.queues[controller as usize]);
            let (concurrency, stop) = (self.settings.concurrency(controller), stop.clone());
            match controller {
                Controller::Slices => {
                    let state = Arc::new(Mutex::new(endpointslice::state::State::new(
                        self.settings.max_endpoints_per_slice,
                    )));
                    let context = self.context(controller, &state);
                    states.slices = Some(state);
                    runners.spawn(runner::run(queue, requests, concurrency, stop, move |key| {
                        look(Arc::clone(&context), key, endpointslice::reconcile::reconcile).boxed()
                    }));
                }
                Controller::Endpoints => {
                    let state = Arc::new(Mutex::new(endpoints::state::State::default()));
                    let context = self.context(controller, &state);
                    states.endpoints = Some(state);
                    runners.spawn(runner::run(queue, requests, concurrency, stop, move |key| {
                        look(Arc::clone(&context), key, endpoints::reconcile::reconcile).boxed()
                    }));
                }
                Controller::Mirrors => {
                    let state = Arc::new(Mutex::new(mirroring::state::State::new(
                        self.settings.mirroring_max_endpoints_per_subset,
                    )));
                    let context = self.context(controller, &state);
                    states.mirrors = Some(state);
                    runners.spawn(runner::run(queue, requests, concurrency, stop, move |key| {
                        look(Arc::clone(&context), key, mirroring::reconcile::reconcile).boxed()
                    }));
                }
                // Runs since the start, for it has a watch of its own; the others are not of this set.
                _ => {
                    runners.spawn(async move { stop.cancelled().await });
                }
            }
        }
        states
    }

    fn server_answered(&self) {
        self.failures.answered();
        if self.outage.answered() {
            self.queues.iter().for_each(|queue| queue.answered());
        }
    }

    fn context<S>(self: &Arc<Self>, controller: Controller, state: &Arc<Mutex<S>>) -> Arc<Context<S>> {
        let delivery: Arc<dyn Delivery> = self.feed.clone();
        Arc::new(Context {
            controller,
            index: Arc::clone(&self.index),
            state: Arc::clone(state),
            api: Arc::clone(&self.api),
            queue: Arc::clone(&self.queues[controller as usize]),
            delivery,
            failures: Arc::clone(&self.failures),
            reporter: self.reporter.clone(),
            metrics: self.settings.metrics.clone(),
            told: self.settings.told.clone(),
        })
    }
}

fn queues(settings: &Settings) -> ([Arc<Queue>; 4], [Requests; 4]) {
    let [a, b, c, d] = Controller::ALL.map(|controller| Queue::new(settings.batch(controller)));
    ([a.0, b.0, c.0, d.0], [a.1, b.1, c.1, d.1])
}

/// The feed, whose outcomes go into the queues of the controllers that are enabled, and to people.
fn feed(
    index: &Arc<Mutex<Index>>,
    queues: &[Arc<Queue>; 4],
    reporter: &Reporter,
    recheck: &Recheck,
    settings: &Settings,
) -> Arc<Feed> {
    let (queues, reporter, enabled) = (queues.clone(), reporter.clone(), settings.controllers.clone());
    let pass_on = move |out: Outbox| {
        for (key, urgency) in out.asks {
            if enabled.contains(&key.controller) {
                queues[key.controller as usize].ask(key, urgency);
            }
        }
        out.notes.into_iter().for_each(|note| reporter.tell_of(note, out.look));
    };
    let recheck = recheck.clone();
    let on_address = move || recheck.address_changed();
    Arc::new(Feed::new(Arc::clone(index), Box::new(pass_on), Box::new(on_address)))
}

impl Measured for Set {
    fn sizes(&self) -> Sizes {
        let Settings { max_endpoints_per_slice, mirroring_max_endpoints_per_subset, .. } = &self.settings;
        self.index.lock().sizes(*max_endpoints_per_slice, *mirroring_max_endpoints_per_subset)
    }

    fn oddities(&self) -> Oddities {
        let namespaces: Vec<Text> = self.index.lock().namespaces.keys().cloned().collect();
        let mut found = Oddities::default();
        for namespace in namespaces {
            // One at a time: events come in between.
            self.index.lock().count_oddities(&namespace, &mut found);
        }
        found
    }

    fn queue(&self, controller: Controller) -> (usize, u64) {
        match controller {
            Controller::Cidrs => self.cidrs.lock().depth(),
            Controller::Slices | Controller::Endpoints | Controller::Mirrors => {
                self.queues[controller as usize].depth()
            }
            // Not of this set.
            _ => (0, 0),
        }
    }
}

impl Observer for Set {
    fn answered(&self, _kind: ObjectKind) {
        self.server_answered();
    }

    fn listed(&self, kind: ObjectKind) {
        self.settings.metrics.watches().listed(kind);
    }

    fn works(&self, kind: ObjectKind) {
        self.failures.works(&Subject::Watch(kind));
    }

    fn failed(&self, kind: ObjectKind, error: &WatchError, again: Duration) {
        self.settings.metrics.watches().failed(kind);
        let failure = Failure { about: About::default(), cause: &Cause::of_watch(error), why: error };
        self.failures.failed(&Subject::Watch(kind), &[failure], Some(again));
    }
}
