//! A standby keeps its caches warm: it takes over without a list and without a write when all is right.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use service_controllers::controller::Controller;
use service_controllers::lease::Candidate;
use service_controllers::runtime::{Settings, start};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

const SERVICE: &str = r#"{"metadata":{"name":"web","namespace":"n","uid":"u","resourceVersion":"3"},"spec":{"type":"ClusterIP","clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"selector":{"app":"web"},"ports":[{"port":80}]}}"#;
/// What the Service's slices should be while it has no pods.
const SLICE: &str = r#"{"metadata":{"name":"web-1","namespace":"n","uid":"s","resourceVersion":"4","generation":1,"labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"web"},"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"web","uid":"u","controller":true,"blockOwnerDeletion":true}]},"addressType":"IPv4","endpoints":[],"ports":[]}"#;

/// A server whose lease another replica holds until it lets go of it.
#[derive(Default)]
struct Server {
    slices: &'static str,
    released: Mutex<bool>,
    taken: Notify,
    lists: Mutex<usize>,
    writes: Mutex<Vec<String>>,
    /// Of each watch of slices, whether metadata will do.
    partial: Mutex<Vec<bool>>,
}

impl Server {
    fn answer(&self, request: &Request<Body>) -> Option<String> {
        let path = request.uri().path().to_owned();
        if path.contains("/leases") {
            let holder = if *self.released.lock() { "" } else { "other" };
            if request.method() != Method::GET {
                self.taken.notify_one();
            }
            return Some(format!(
                r#"{{"metadata":{{"name":"lock","namespace":"k","resourceVersion":"7"}},"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":3600}}}}"#
            ));
        }
        if request.method() != Method::GET {
            self.writes.lock().push(format!("{} {path}", request.method()));
            return Some(SLICE.to_owned());
        }
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            if path.ends_with("/endpointslices") {
                let accept = request.headers()["accept"].to_str().unwrap();
                self.partial.lock().push(accept.contains("as=PartialObjectMetadata"));
            }
            return None;
        }
        *self.lists.lock() += 1;
        let items = match path.rsplit('/').next() {
            Some("services") => SERVICE,
            Some("endpointslices") => self.slices,
            _ => "",
        };
        Some(format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#))
    }
}

/// What a standby writes and lists when it takes over from another replica.
async fn take_over(slices: &'static str) -> (Vec<String>, usize) {
    let server = Arc::new(Server { slices, ..Server::default() });
    let asked = Arc::clone(&server);
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&asked);
        async move {
            match server.answer(&request) {
                Some(body) => Ok::<_, Infallible>(Response::new(UnsyncBoxBody::<Bytes, Infallible>::new(
                    Full::from(body),
                ))),
                None => Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(futures::stream::pending())))),
            }
        }
    });
    let candidate = Candidate {
        namespace: "k".into(),
        name: "lock".into(),
        identity: "me".into(),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let settings = Settings {
        controllers: [Controller::Slices].into(),
        leader_election: Some(candidate),
        ..Settings::default()
    };
    let (filled, shutdown) = (settings.ready.clone(), CancellationToken::new());
    let set = tokio::spawn(start(kube::Client::new(service, "default"), settings, shutdown.clone()));
    filled.cancelled().await;
    // As long as the other one leads, nothing is written.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(*server.writes.lock(), Vec::<String>::new());
    let lists = *server.lists.lock();
    *server.released.lock() = true;
    server.taken.notified().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*server.partial.lock(), [false, true], "a leader knows its echoes by their metadata");
    shutdown.cancel();
    set.await.unwrap().unwrap();
    let (writes, more) = (server.writes.lock().clone(), *server.lists.lock() - lists);
    (writes, more)
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_without_a_list() {
    assert_eq!(take_over(SLICE).await, (Vec::new(), 0), "all is right");
    let (writes, lists) = take_over("").await;
    assert_eq!(
        (writes.as_slice(), lists),
        (["POST /apis/discovery.k8s.io/v1/namespaces/n/endpointslices".to_owned()].as_slice(), 0)
    );
}
