//! What an operator reads: one line for each event, however often something is tried.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use service_allocators::PortSharing;
use service_controllers::allocation;
use service_controllers::controller::Controller;
use service_controllers::error::Error;
use service_controllers::lease::Candidate;
use service_controllers::runtime::{Settings, start};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::service_fn;
use tracing::subscriber::DefaultGuard;

/// What is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Answer = UnsyncBoxBody<Bytes, io::Error>;

/// An API server with one Service that has no slices. It can be away, and refuses creates at will.
#[derive(Default)]
struct Server {
    away: AtomicBool,
    refuses: AtomicBool,
    /// Whether it knows no credentials.
    unauthorized: AtomicBool,
    refuses_events: AtomicBool,
    /// Whether our kinds are not installed.
    lacks_ours: AtomicBool,
    /// Whether it refuses whatever is asked of leases.
    refuses_leases: AtomicBool,
    events: AtomicUsize,
    watches: AtomicUsize,
    cut: tokio::sync::Notify,
}

/// The kinds that are watched.
const KINDS: usize = 4;
const SERVICE: &str = r#"{"metadata":{"name":"web","namespace":"n","uid":"u","resourceVersion":"3"},"spec":{"type":"ClusterIP","clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"selector":{"app":"web"},"ports":[{"port":80}]}}"#;
const MADE: &str = r#"{"metadata":{"name":"web-1","uid":"s","resourceVersion":"7"}}"#;
const FORBIDDEN: &str = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"endpointslices.discovery.k8s.io is forbidden: User \"u\" cannot create resource \"endpointslices\" in API group \"discovery.k8s.io\" in the namespace \"n\""}"#;

const UNAUTHORIZED: &str =
    r#"{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}"#;
const NO_EVENTS: &str = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"events is forbidden: User \"u\" cannot create resource \"events\" in API group \"\" in the namespace \"n\""}"#;
const OURS: &str = "/apis/service-control-plane.io/";
const ABSENT: &str = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}"#;
const NO_LEASES: &str = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"leases.coordination.k8s.io \"lock\" is forbidden: User \"u\" cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"kube-system\""}"#;

impl Server {
    fn answer(self: &Arc<Self>, method: &Method, uri: &Uri) -> io::Result<Response<Answer>> {
        if self.away.load(Ordering::Relaxed) {
            return Err(io::Error::other("Connection refused"));
        }
        let query = uri.query().unwrap_or_default();
        let (code, body) = match *method {
            _ if self.lacks_ours.load(Ordering::Relaxed) && uri.path().contains(OURS) => {
                (404, ABSENT.to_owned())
            }
            _ if self.unauthorized.load(Ordering::Relaxed) => (401, UNAUTHORIZED.to_owned()),
            Method::POST
                if uri.path().ends_with("/events") && self.refuses_events.load(Ordering::Relaxed) =>
            {
                (403, NO_EVENTS.to_owned())
            }
            Method::POST if uri.path().ends_with("/events") => {
                self.events.fetch_add(1, Ordering::Relaxed);
                (201, MADE.to_owned())
            }
            Method::POST if self.refuses.load(Ordering::Relaxed) => (403, FORBIDDEN.to_owned()),
            Method::POST | Method::PUT => (201, MADE.to_owned()),
            _ if uri.path().contains("/leases") && self.refuses_leases.load(Ordering::Relaxed) => {
                (403, NO_LEASES.to_owned())
            }
            _ if uri.path().contains("/leases/") => (404, r#"{"code":404,"reason":"NotFound"}"#.to_owned()),
            _ if query.contains("watch=true") => {
                let server = Arc::clone(self);
                server.watches.fetch_add(1, Ordering::Relaxed);
                let cut = futures::stream::once(async move {
                    server.cut.notified().await;
                    Err::<Frame<Bytes>, _>(io::Error::other("reset"))
                });
                return Ok(Response::new(Answer::new(StreamBody::new(cut))));
            }
            _ => {
                let services = uri.path().ends_with("/services");
                let items = if services { SERVICE } else { "" };
                (200, format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#))
            }
        };
        Ok(Response::builder()
            .status(code)
            .body(Answer::new(Full::from(body).map_err(|never| match never {})))
            .unwrap())
    }
}

/// A set of controllers that follows such a server, and what it logs.
struct Running {
    server: Arc<Server>,
    lines: Lines,
    shutdown: CancellationToken,
    renewed: Arc<Notify>,
    ended: JoinHandle<Result<(), Error>>,
    _log: DefaultGuard,
}

impl Running {
    fn start(server: Server, leader_election: Option<Candidate>) -> Self {
        Self::start_with(server, leader_election, &[])
    }

    /// With these controllers of the ledger in the same process.
    fn start_with(server: Server, leader_election: Option<Candidate>, of_ledger: &[Controller]) -> Self {
        let (server, lines, shutdown) = (Arc::new(server), Lines::default(), CancellationToken::new());
        let written = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || written.clone())
            .finish();
        let log = tracing::subscriber::set_default(log);
        let asked = Arc::clone(&server);
        let service = service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&asked);
            let (method, uri) = (request.method().clone(), request.uri().clone());
            async move { server.answer(&method, &uri) }
        });
        let controllers = [Controller::Slices].into();
        let settings = Settings { controllers, leader_election, ..Settings::default() };
        let renewed = Arc::clone(&settings.renewed);
        let client = kube::Client::new(service, "default");
        if !of_ledger.is_empty() {
            let ledger = ledger_beside(&settings, of_ledger);
            tokio::spawn(allocation::start(client.clone(), ledger, shutdown.clone()));
        }
        let ended = tokio::spawn(start(client, settings, shutdown.clone()));
        Self { server, lines, shutdown, renewed, ended, _log: log }
    }

    /// The lines of so many seconds.
    async fn lines_of(&self, seconds: u64) -> Vec<String> {
        self.lines.0.lock().clear();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        String::from_utf8(self.lines.0.lock().clone()).unwrap().lines().map(ToOwned::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_a_line_when_it_begins_and_one_when_it_ends() {
    let run = Running::start(Server::default(), None);
    assert!(run.lines_of(5).await.iter().any(|line| line.contains("wrote slice")));
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    let lines = run.lines_of(200).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN the API server cannot be reached"), "{lines:?}");
    for part in ["Connection refused", "again=", "watch=\""] {
        assert!(lines[0].contains(part), "{part} is not in {lines:?}");
    }
    let lines = run.lines_of(200).await;
    assert_eq!(lines.len(), 1, "it is told again after five minutes: {lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("lasted=") && lines[0].contains("tries="));
    run.server.away.store(false, Ordering::Relaxed);
    let lines = run.lines_of(120).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("INFO the API server can be reached again lasted="), "{lines:?}");
}

fn ledger_beside(others: &Settings, controllers: &[Controller]) -> allocation::Settings {
    allocation::Settings {
        controllers: controllers.iter().copied().collect(),
        node_ports: "30000-32767".parse().unwrap(),
        sharing: PortSharing::WithinService,
        leadership: others.leadership.clone(),
        kube_api_qps: 0.0,
        kube_api_burst: 0,
        metrics: others.metrics.clone(),
        readiness: others.readiness.clone(),
        repair: allocation::Repair::Off,
        protect: false,
        gauges: allocation::Gauges::register(&mut Registry::default()),
        told: others.told.clone(),
        failures: Arc::clone(&others.failures),
    }
}

/// The controllers of endpoints and those of the ledger have watches of their own, and one outage.
#[tokio::test(start_paused = true)]
async fn an_outage_that_all_controllers_of_a_process_have_is_told_once() {
    let run = Running::start_with(Server::default(), None, &[Controller::Addresses, Controller::NodePorts]);
    run.lines_of(5).await;
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    let lines = run.lines_of(200).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN the API server cannot be reached"), "{lines:?}");
    run.server.away.store(false, Ordering::Relaxed);
    let lines = run.lines_of(120).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("INFO the API server can be reached again"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_not_installed_are_named_once_each_and_again_when_they_come() {
    let of_ledger = [Controller::Addresses, Controller::NodePorts];
    let run = Running::start_with(Server { lacks_ours: true.into(), ..Server::default() }, None, &of_ledger);
    let lines = run.lines_of(200).await;
    assert!(lines.iter().any(|line| line.contains("wrote slice")), "the others work: {lines:#?}");
    let told = |lines: &[String], level: &str, words: &str| {
        let of_kind = |kind: &&str| {
            let watch = format!("watch=\"{kind}\"");
            lines.iter().filter(|line| [level, words, &watch].iter().all(|part| line.contains(part))).count()
        };
        ["nodeports", "nodeportranges", "servicepools"].iter().map(of_kind).collect::<Vec<_>>()
    };
    assert_eq!(told(&lines, "WARN", "install it (manifests/crds)"), [1; 3], "{lines:#?}");
    run.server.lacks_ours.store(false, Ordering::Relaxed);
    let lines = run.lines_of(200).await;
    assert_eq!(told(&lines, "INFO", "the API server serves the kind now"), [1; 3], "{lines:#?}");
    assert_eq!(lines.len(), 3, "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_after_an_outage_ends_the_wait_of_all_watches() {
    let run = Running::start(Server::default(), None);
    run.lines_of(5).await;
    let watches = || run.server.watches.load(Ordering::Relaxed);
    let all = watches();
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    run.lines_of(400).await;
    run.server.away.store(false, Ordering::Relaxed);
    // Whether it is back is asked every two seconds.
    run.lines_of(3).await;
    // Four kinds, and slices once more as metadata when the controllers began to work.
    assert_eq!(
        (all, watches() - all),
        (5, 4),
        "each has begun again, though it had to wait for up to a minute"
    );
}

#[tokio::test(start_paused = true)]
async fn new_credentials_end_the_wait_of_all_watches() {
    let run = Running::start(Server::default(), None);
    run.lines_of(5).await;
    let watches = || run.server.watches.load(Ordering::Relaxed);
    let all = watches();
    run.server.unauthorized.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    let lines = run.lines_of(200).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("does not accept the credentials"), "{lines:?}");
    run.server.unauthorized.store(false, Ordering::Relaxed);
    run.renewed.notify_one();
    run.lines_of(1).await;
    assert_eq!(watches() - all, KINDS, "each has begun again");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_soon_after_an_outage_does_not_wait_for_as_long_again() {
    let run = Running::start(Server::default(), None);
    run.lines_of(5).await;
    let watches = || run.server.watches.load(Ordering::Relaxed);
    let all = watches();
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    run.lines_of(400).await;
    run.server.away.store(false, Ordering::Relaxed);
    while watches() < all + KINDS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Within a second of it the server is away again, for a moment.
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    run.lines_of(1).await;
    run.server.away.store(false, Ordering::Relaxed);
    run.lines_of(3).await;
    assert_eq!(watches(), all + 2 * KINDS, "they would have waited for up to a minute");
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_are_told_once() {
    let refuses = Server { refuses: true.into(), refuses_events: true.into(), ..Server::default() };
    let run = Running::start(refuses, None);
    let lines = run.lines_of(100).await;
    let of_events: Vec<&String> = lines.iter().filter(|line| line.contains("object=\"events\"")).collect();
    assert_eq!(of_events.len(), 1, "{lines:#?}");
    assert!(
        of_events[0].contains("WARN the role lacks a right")
            && of_events[0].contains("lacks=\"create events\"")
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_off_and_is_made_again_is_no_line() {
    let run = Running::start(Server::default(), None);
    run.lines_of(5).await;
    run.server.cut.notify_waiters();
    assert_eq!(run.lines_of(20).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_one_line_that_says_everything() {
    let run = Running::start(Server { refuses: true.into(), ..Server::default() }, None);
    let lines = run.lines_of(100).await;
    let lines: Vec<_> =
        lines.iter().filter(|line| line.contains("slice") && !line.contains("caches")).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in [
        "WARN the role lacks a right",
        "controller=\"endpointslice-controller\" namespace=\"n\" service=\"web\" trigger=\"start of the controller\"",
        "verb=\"create\" object=\"endpointslices\" lacks=\"create endpointslices.discovery.k8s.io\"",
        "why=rejected with code 403",
        "again=",
    ] {
        assert!(lines[0].contains(part), "{part} is not in {lines:?}");
    }
    assert_eq!(run.server.events.load(Ordering::Relaxed), 1, "the Service is told once");
    run.server.refuses.store(false, Ordering::Relaxed);
    let lines = run.lines_of(100).await;
    assert!(lines[0].contains("wrote slice") && lines[0].contains("slices=\"web-1\""), "{lines:#?}");
    assert!(lines[1].contains("the role has the right that it lacked"), "{lines:#?}");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

fn candidate() -> Candidate {
    Candidate {
        namespace: "kube-system".into(),
        name: "lock".into(),
        identity: "me".into(),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_taken_is_told_once() {
    let run = Running::start(Server { refuses_leases: true.into(), ..Server::default() }, Some(candidate()));
    let lines = run.lines_of(100).await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("caches are filled"), "{lines:?}");
    assert!(lines[1].contains("lease=\"lock\" verb=\"take\"") && lines[1].contains("again=2s"), "{lines:?}");
    run.server.refuses_leases.store(false, Ordering::Relaxed);
    let lines = run.lines_of(3).await;
    assert!(lines[0].contains("the role has the right") && lines[1].contains("leading"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_fill_its_caches_leaves_the_lease_to_others() {
    let run = Running::start(Server { away: true.into(), ..Server::default() }, Some(candidate()));
    let lines = run.lines_of(100).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("watch=\"services\""), "the lease is not asked for: {lines:?}");
    run.server.away.store(false, Ordering::Relaxed);
    let lines = run.lines_of(100).await;
    let parts = ["can be reached again", "caches are filled", "leading", "wrote slice"];
    for (line, part) in lines.iter().zip(parts) {
        assert!(line.contains(part), "{part}: {lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_says_why_it_ends() {
    let mut run = Running::start(Server::default(), Some(candidate()));
    run.lines_of(5).await;
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    let lines = run.lines_of(30).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("cannot be reached"), "{lines:?}");
    let error = (&mut run.ended).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("kube-system/lock was lost: it was not renewed within 10s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_an_hour_is_told_now_and_then_and_over_at_once_when_it_is() {
    let run = Running::start(Server::default(), None);
    run.lines_of(5).await;
    run.server.away.store(true, Ordering::Relaxed);
    run.server.cut.notify_waiters();
    let lines = run.lines_of(3600).await;
    assert!(lines[0].contains("the API server cannot be reached"), "{lines:?}");
    assert!(lines[1..].iter().all(|line| line.contains("lasted=")), "{lines:?}");
    assert!((8..=13).contains(&lines.len()), "one each five minutes: {lines:?}");
    let watches = run.server.watches.load(Ordering::Relaxed);
    run.server.away.store(false, Ordering::Relaxed);
    let lines = run.lines_of(5).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("can be reached again") && line.contains("lasted=360"), "{line}");
    let again = run.server.watches.load(Ordering::Relaxed) - watches;
    assert_eq!(again, KINDS, "all watches are open again");
}
