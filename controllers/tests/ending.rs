//! How a set of controllers ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use service_controllers::controller::Controller;
use service_controllers::lease::Candidate;
use service_controllers::runtime::{Settings, start};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// One Service without slices, and no answer to writes or watches.
fn answer(request: &Request<Body>) -> Option<String> {
    if request.method() != Method::GET || request.uri().query().is_some_and(|q| q.contains("watch=true")) {
        return None;
    }
    let items = if request.uri().path().ends_with("/services") {
        r#"{"metadata":{"name":"web","namespace":"n","uid":"u","resourceVersion":"3"},"spec":{"type":"ClusterIP","clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"selector":{"app":"web"},"ports":[{"port":80}]}}"#
    } else {
        ""
    };
    Some(format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_does_not_hold_up_the_end() {
    let (wrote, mut written) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        let wrote = wrote.clone();
        async move {
            if request.method() == Method::POST {
                wrote.send(()).unwrap();
            }
            match answer(&request) {
                Some(body) => Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))),
                None => std::future::pending().await,
            }
        }
    });
    let shutdown = CancellationToken::new();
    let settings = Settings { controllers: [Controller::Slices].into(), ..Settings::default() };
    let set = tokio::spawn(start(kube::Client::new(service, "default"), settings, shutdown.clone()));
    written.recv().await.unwrap();
    let asked = tokio::time::Instant::now();
    shutdown.cancel();
    set.await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "ended after {:?}", asked.elapsed());
}

fn elected() -> Settings {
    let candidate = Candidate {
        namespace: "kube-system".into(),
        name: "lease".into(),
        identity: "me".into(),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    Settings {
        controllers: [Controller::Slices].into(),
        leader_election: Some(candidate),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_election_without_answers_is_tried_again_and_ends_when_told_to() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let service = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let shutdown = CancellationToken::new();
    let set = tokio::spawn(start(kube::Client::new(service, "default"), elected(), shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(tries.load(Ordering::Relaxed) >= 3, "a try without an answer is not the last");
    let asked = tokio::time::Instant::now();
    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_mins(5), set).await;
    ended.expect("it never ends").unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "ended after {:?}", asked.elapsed());
}

/// A lease that "me" holds, as the server shows it.
const HELD: &str = r#"{"metadata":{"name":"lease","namespace":"kube-system","resourceVersion":"7"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}"#;
const CONFLICT: &str = r#"{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"the object has been modified"}"#;

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_touched_is_not_lost() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let (tried, mut writes) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        let (tried, counted) = (tried.clone(), Arc::clone(&counted));
        async move {
            let about_the_lease = request.uri().path().contains("/leases/");
            let (code, body) = if about_the_lease && request.method() != Method::GET {
                // The first write wins the lease; the next ones find it written in between.
                let before = counted.fetch_add(1, Ordering::Relaxed);
                let _ = tried.send(());
                if before == 0 { (200, HELD.to_owned()) } else { (409, CONFLICT.to_owned()) }
            } else if about_the_lease {
                (200, HELD.to_owned())
            } else if let Some(body) = answer(&request) {
                (200, body)
            } else {
                std::future::pending().await
            };
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let shutdown = CancellationToken::new();
    let set = tokio::spawn(start(kube::Client::new(service, "default"), elected(), shutdown.clone()));
    for _ in 0..3 {
        writes.recv().await.expect("it gives up after a conflict");
    }
    assert!(!set.is_finished(), "it gives up after a conflict");
    shutdown.cancel();
    set.await.unwrap().unwrap();
}
