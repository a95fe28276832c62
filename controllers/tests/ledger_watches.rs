//! What the ledger believes when its watches do not go as they should: a scripted API server answers for each kind.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use service_allocators::{PortSharing, ServiceKey};
use service_controllers::ledger::{Changes, EntryKind, Known, Ledger, Wanted, feed};
use service_controllers::report::metrics::{WatchMetrics, exposition};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// Status codes and bodies, in their order.
type Answers = VecDeque<(u16, String)>;

/// Answers for each kind in their order. After the last one a list is empty, and a watch brings nothing.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<BTreeMap<&'static str, Answers>>>,
    /// The versions that the server is at when it is asked; then it is far ahead.
    at: Arc<Mutex<VecDeque<u32>>>,
}

impl Script {
    fn of(kind: &'static str, answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        Self::default().and(kind, answers)
    }

    fn and(self, kind: &'static str, answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        self.answers.lock().insert(kind, answers.into_iter().collect());
        self
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let kind = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let query = request.uri().query().unwrap_or_default();
        let respond = |code: u16, body: String| {
            Ok(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        };
        if query == "limit=1" {
            let at = self.at.lock().pop_front().unwrap_or(u32::MAX);
            return respond(200, list(at, &[]).1);
        }
        let next = self.answers.lock().get_mut(kind.as_str()).and_then(Answers::pop_front);
        match next {
            Some((code, body)) => respond(code, body),
            None if query.contains("watch=true") => std::future::pending().await,
            None => respond(200, list(1, &[]).1),
        }
    }

    fn client(&self) -> kube::Client {
        let script = self.clone();
        kube::Client::new(service_fn(move |request| script.clone().answer(request)), "default")
    }
}

fn list(version: u32, items: &[Value]) -> (u16, String) {
    (200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}).to_string())
}

fn events(events: &[(&str, &Value)]) -> (u16, String) {
    let line = |(ty, object): &(&str, &Value)| format!("{{\"type\":\"{ty}\",\"object\":{object}}}\n");
    (200, events.iter().map(line).collect())
}

fn expired() -> (u16, String) {
    let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    (410, status.to_string())
}

fn service(name: &str, version: u32, ip: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string()},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip]}})
}

fn address(ip: &str, version: u32, of: &str) -> Value {
    json!({"metadata": {"name": ip, "uid": format!("uid-{ip}"), "resourceVersion": version.to_string()},
        "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": of}}})
}

fn node_port(port: u16, version: u32, of: &str) -> Value {
    json!({"metadata": {"name": port.to_string(), "uid": format!("uid-{port}"), "resourceVersion": version.to_string()},
        "spec": {"protocols": ["TCP"], "parentRef": {"resource": "services", "namespace": "shop", "name": of}}})
}

/// A ledger that follows a script.
struct Followed {
    ledger: Ledger,
    registry: Registry,
    complete: CancellationToken,
    end: CancellationToken,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Followed {
    fn new(script: &Script) -> Self {
        let (mut registry, end) = (Registry::default(), CancellationToken::new());
        let ledger = Ledger::new("30000-30009".parse().unwrap(), PortSharing::WithinService, |_: Changes| {});
        let metrics = WatchMetrics::register(&mut registry);
        let wanted = Wanted { pools: true };
        let (fed, work) = feed(&script.client(), &ledger, wanted, metrics, Arc::default(), end.clone());
        tokio::spawn(work);
        Self { ledger, registry, complete: fed.complete, end }
    }

    /// Waits until it holds; the clock goes on only while nothing else does.
    async fn until(&self, what: &str, holds: impl Fn(&Known) -> bool) {
        for _ in 0..1200 {
            if self.ledger.with(|known| holds(known)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("after two minutes: {what} does not hold");
    }

    fn series(&self, name: &str, kind: &str) -> Option<u64> {
        let text = exposition(&self.registry).unwrap();
        let series = format!("service_controller_{name}_total{{kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)).map(|count| count.parse().unwrap())
    }
}

fn of(name: &str) -> ServiceKey {
    ServiceKey::new("shop", name)
}

/// The version and the address of a Service.
fn known(known: &Known, name: &str) -> Option<(u64, String)> {
    known
        .service(&of(name))
        .map(|facts| (facts.version, facts.addresses().first().map(ToString::to_string).unwrap_or_default()))
}

#[tokio::test(start_paused = true)]
async fn what_a_later_list_does_not_have_is_gone() {
    let (a, b) = (service("a", 7, "None"), service("b", 7, "None"));
    let script = Script::of("services", [list(9, &[a, b.clone()]), expired(), list(12, &[b])])
        .and("ipaddresses", [list(9, &[address("10.96.0.5", 8, "b")]), expired()])
        .and("nodeports", [list(9, &[node_port(30005, 8, "b")])]);
    let followed = Followed::new(&script);
    followed.complete.cancelled().await;
    followed.until("only b is left", |k| known(k, "a").is_none() && known(k, "b").is_some()).await;
    followed.until("no address", |k| k.entry(EntryKind::Address, "10.96.0.5").is_none()).await;
    assert!(followed.ledger.with(|known| known.entry(EntryKind::Port, "30005").is_some()));
}

/// A version that has expired when the watch is opened: kube's watcher alone asks for it again and again.
#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_opened_for_its_version_begins_with_a_list() {
    let script = Script::of(
        "services",
        [
            list(9, &[service("a", 7, "10.96.0.7")]),
            expired(),
            list(20, &[service("a", 15, "10.96.0.8"), service("b", 16, "None")]),
        ],
    );
    let followed = Followed::new(&script);
    followed.until("b is known", |k| known(k, "b").is_some()).await;
    assert_eq!(followed.ledger.with(|k| known(k, "a")), Some((15, "10.96.0.8".to_owned())));
}

/// etcd was restored from a backup: versions start again from there, and what is younger never was.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_put_back_is_believed() {
    let (young, made_since) = (service("a", 101, "10.96.0.8"), service("b", 95, "10.96.0.9"));
    let script = Script::of(
        "services",
        [
            list(100, &[service("a", 90, "10.96.0.7"), made_since]),
            events(&[("MODIFIED", &young)]),
            list(50, &[service("a", 40, "10.96.0.6")]),
            events(&[("MODIFIED", &service("a", 51, "10.96.0.5"))]),
        ],
    )
    .and(
        "ipaddresses",
        [
            list(100, &[address("10.96.0.8", 99, "a"), address("10.96.0.9", 94, "b")]),
            events(&[("MODIFIED", &address("10.96.0.8", 101, "a"))]),
            list(50, &[address("10.96.0.8", 30, "c")]),
        ],
    )
    .and(
        "nodeports",
        [
            list(100, &[node_port(30005, 99, "a")]),
            events(&[("MODIFIED", &node_port(30005, 101, "a"))]),
            list(50, &[node_port(30005, 30, "c")]),
        ],
    );
    // All three are asked after their watches ended; then the server goes on.
    *script.at.lock() = [50, 50, 50].into();
    let followed = Followed::new(&script);
    followed.until("the watch goes on", |k| known(k, "a") == Some((51, "10.96.0.5".to_owned()))).await;
    for (kind, name) in [(EntryKind::Address, "10.96.0.8"), (EntryKind::Port, "30005")] {
        followed
            .until("the entry is that of then", |k| {
                let entry = k.entry(kind, name);
                entry.is_some_and(|entry| entry.version == 30 && entry.parent == Some(of("c")))
            })
            .await;
    }
    followed.until("b never was", |k| known(k, "b").is_none()).await;
    followed.until("its address neither", |k| k.entry(EntryKind::Address, "10.96.0.9").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_no_harm_to_others() {
    let mut broken = service("broken", 8, "10.96.0.6");
    broken["spec"]["ports"] = json!("eighty");
    let mut spoilt = service("a", 21, "10.96.0.9");
    spoilt["spec"]["clusterIPs"] = json!(7);
    let script = Script::of(
        "services",
        [
            // Read again as texts.
            list(9, &[broken.clone(), service("a", 7, "10.96.0.7")]),
            list(9, &[broken, service("a", 7, "10.96.0.7")]),
            events(&[("MODIFIED", &spoilt), ("ADDED", &service("b", 22, "10.96.0.8"))]),
        ],
    );
    let followed = Followed::new(&script);
    followed.complete.cancelled().await;
    followed.until("b is known", |k| known(k, "b").is_some()).await;
    followed.ledger.with(|k| {
        assert_eq!(known(k, "a"), Some((7, "10.96.0.7".to_owned())), "what was known of it stays");
        assert_eq!(known(k, "broken"), None);
    });
    assert_eq!(followed.series("unreadable_objects", "services"), Some(2));
}

/// The same in a watch whose list was read as it came: the line counts once objects come as texts.
#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_does_no_harm_to_those_after_it() {
    let mut spoilt = service("a", 21, "10.96.0.9");
    spoilt["spec"] = json!([]);
    let of_watch = [("MODIFIED", &spoilt), ("ADDED", &service("b", 22, "10.96.0.8"))];
    let script = Script::of(
        "services",
        [list(20, &[service("a", 7, "10.96.0.7")]), events(&of_watch), events(&of_watch)],
    );
    let followed = Followed::new(&script);
    followed.until("b is known", |k| known(k, "b").is_some()).await;
    assert_eq!(followed.ledger.with(|k| known(k, "a")), Some((7, "10.96.0.7".to_owned())));
    assert_eq!(followed.series("unreadable_objects", "services"), Some(1));
}

/// A proxy between that gives an empty page: it is not a list in which nothing is.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_none() {
    let script = Script::of(
        "services",
        [
            list(9, &[service("a", 7, "10.96.0.7")]),
            expired(),
            (200, json!({"items": []}).to_string()),
            list(20, &[service("a", 7, "10.96.0.7"), service("b", 16, "None")]),
        ],
    );
    let followed = Followed::new(&script);
    followed.until("a is known", |k| known(k, "a").is_some()).await;
    let lost = || followed.ledger.with(|k| known(k, "a").is_none());
    while followed.ledger.with(|k| known(k, "b").is_none()) {
        assert!(!lost(), "a did not go");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!lost());
    assert!(followed.series("watch_errors", "services").is_some_and(|errors| errors >= 2));
}

/// A watch that ends as soon as it began is not opened again at once, and a server that names a time is not asked before.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_is_not_asked_all_the_time() {
    let nothing = || (200, String::new());
    let answers = [list(9, &[])].into_iter().chain(std::iter::repeat_with(nothing).take(10_000));
    let script = Script::of("services", answers);
    let followed = Followed::new(&script);
    followed.complete.cancelled().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let left = script.answers.lock()["services"].len();
    assert!(left > 9_950, "{} watches in a minute", 10_000 - left);
}
