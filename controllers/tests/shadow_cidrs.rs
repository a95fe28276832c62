//! service-cidr-controller beside upstream's: what that left behind in the recorded cases is what there is, ours plans on it, and
//! its writes are withheld.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use service_controllers::controller::Controller;
use service_controllers::differences::{Around, Difference, Named, name};
use service_controllers::runtime::{Settings, start};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// A server at rest, and what it was asked to write.
#[derive(Clone, Default)]
struct Server {
    objects: BTreeMap<&'static str, Vec<Value>>,
    withheld: Arc<Mutex<BTreeMap<(String, String), Value>>>,
}

impl Server {
    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let respond = |code: u16, body: &Value| {
            let response = Response::builder().status(code).header("retry-after", "1");
            Ok(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        };
        if parts.method != Method::GET {
            let body = body.collect().await.unwrap().to_bytes();
            if !path.ends_with("/events") {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                self.withheld.lock().insert((parts.method.to_string(), path.to_owned()), body);
            }
            return respond(
                429,
                &json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests"}),
            );
        }
        if query.contains("watch=true") {
            return std::future::pending().await;
        }
        let kind = path.rsplit('/').next().unwrap_or_default();
        let items = self.objects.get(kind).cloned().unwrap_or_default();
        respond(200, &json!({"metadata": {"resourceVersion": "100"}, "items": items}))
    }

    /// What the controller asks to write, by method and path, while nothing changes.
    async fn withheld(&self) -> BTreeMap<(String, String), Value> {
        let (server, shutdown) = (self.clone(), CancellationToken::new());
        let client = kube::Client::new(service_fn(move |request| server.clone().answer(request)), "default");
        let settings = Settings { controllers: [Controller::Cidrs].into(), ..Settings::default() };
        let running = tokio::spawn(start(client, settings, shutdown.clone()));
        tokio::time::sleep(Duration::from_mins(1)).await;
        shutdown.cancel();
        running.await.unwrap().unwrap();
        self.withheld.lock().clone()
    }
}

/// A recorded range as an object. One that is deleted and that addresses hold has been for long; any other is about to go,
/// which upstream leaves alone for ten seconds, too.
fn range(recorded: &Value) -> Value {
    let mut object = recorded.clone();
    let is_held = object.pointer("/status/conditions/0/reason").is_some_and(|reason| reason == "Terminating");
    let meta = object["metadata"].as_object_mut().unwrap();
    meta.insert("uid".to_owned(), json!(format!("uid-{}", recorded["metadata"]["name"])));
    meta.insert("resourceVersion".to_owned(), json!("7"));
    meta.insert("creationTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"));
    if meta.contains_key("deletionTimestamp") {
        let ago = SignedDuration::from_secs(if is_held { 60 } else { 0 });
        let at = Timestamp::from_second((Timestamp::now() - ago).as_second()).unwrap();
        meta.insert("deletionTimestamp".to_owned(), json!(at.to_string()));
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    }
    object
}

fn address(ip: &str, service: &str) -> Value {
    json!({"metadata": {"name": ip, "uid": ip, "resourceVersion": "5",
            "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": service}}})
}

/// The states of a case that were recorded: the ranges, and the addresses that Services and others had then.
fn states(case: &Value) -> Vec<Server> {
    let mut addresses = BTreeMap::from([("kubernetes".to_owned(), address("10.96.0.1", "kubernetes"))]);
    let mut states = Vec::new();
    for step in case["steps"].as_array().unwrap() {
        let path = step["path"].as_str().unwrap_or_default();
        let named = step["body"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match (step["method"].as_str(), path.rsplit('/').next().unwrap_or_default()) {
            (Some("POST"), "services") => {
                let ip = step["body"]["spec"]["clusterIP"].as_str().unwrap();
                addresses.insert(named.clone(), address(ip, &named));
            }
            (Some("POST"), "ipaddresses") => drop(addresses.insert(named, step["body"].clone())),
            (Some("DELETE"), service) if path.contains("/services/") => drop(addresses.remove(service)),
            _ => {}
        }
        let lists = step["expectObjects"].as_array().into_iter().flatten();
        states.extend(lists.filter(|list| list["path"] == RANGES).map(|list| {
            let ranges = list["items"].as_array().unwrap().iter().map(range).collect();
            let objects = [("servicecidrs", ranges), ("ipaddresses", addresses.values().cloned().collect())];
            Server { objects: objects.into(), ..Server::default() }
        }));
    }
    states
}

fn cases() -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/controllers");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path));
    named
        .filter(|(name, _)| name.starts_with("cidr-"))
        .map(|(name, path)| (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()))
        .collect()
}

/// The one difference there is: a range that addresses hold says whose they are.
#[tokio::test(start_paused = true)]
async fn beside_upstream_only_known_differences_of_ranges_are_found() {
    let (mut looked, mut failures) = (0, Vec::new());
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let cases = cases();
    assert_eq!(cases.len(), 10);
    for (case, recorded) in &cases {
        for (i, server) in states(recorded).iter().enumerate() {
            looked += 1;
            for ((method, path), body) in server.withheld().await {
                let of = path.strip_suffix("/status").unwrap_or(&path).rsplit('/').next().unwrap();
                let live =
                    server.objects["servicecidrs"].iter().find(|range| range["metadata"]["name"] == of);
                let difference = Difference { method: &method, path: &path, body: &body, live };
                match name(&difference, &Around::new()) {
                    Named::Known(row) => rows.entry(row).or_default().push(case.clone()),
                    named => failures.push(format!("{case}, state {i}: {method} {path} {body}: {named:?}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(looked >= 20, "{looked} states");
    let held = &rows["A ServiceCIDR is deleted that Services hold"];
    assert_eq!(rows.len(), 1);
    assert_eq!(*held, ["cidr-blocked-then-covered", "cidr-delete-in-use", "cidr-restart"]);
}
