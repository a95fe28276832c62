//! Controllers that plan and do not write: what they would write is answered with "not now" and remembered.
//!
//! ```text
//!   controllers --> client --reads--> API server
//!                     |
//!                     +--writes--> Differences: what they are about, since when, how often
//! ```
//!
//! Owns which differences there are and when one has lasted. A controller that is told "not now" plans again a second
//! later, from what is there by then: a difference that is asked for no more is over. It never sends a write.

mod describe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use service_controllers::api::WITHHELD;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

pub(crate) use describe::describe;

/// A difference that nobody asked to write for so long is over: each is asked for again after a second or a little more.
const OVER: Duration = Duration::from_secs(5);

/// A write that was not sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Withheld {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub(crate) method: Method,
    /// The path of the object, or of the collection for a create.
    pub(crate) path: String,
    /// What would have been written.
    pub(crate) body: Value,
}

impl Withheld {
    /// Whether it is about an object in this namespace.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        let mut parts = self.path.split('/').skip_while(|part| *part != "namespaces").skip(1);
        parts.next() == Some(namespace)
    }
}

#[derive(Debug)]
struct Difference {
    write: Withheld,
    first: Instant,
    last: Instant,
    told: bool,
}

/// What the controllers would write, and do not.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    all: Mutex<BTreeMap<String, Difference>>,
    now: Gauge,
    seen: Counter,
}

impl Differences {
    /// None yet; how many there are is shown in `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Arc<Self> {
        let differences = Self::default();
        let help = "Differences between plan and cluster that outlived the grace period, now";
        registry.register("service_controller_shadow_differences", help, differences.now.clone());
        let help = "Differences between plan and cluster that outlived the grace period, ever";
        registry.register("service_controller_shadow_differences_seen", help, differences.seen.clone());
        Arc::new(differences)
    }

    fn note(&self, write: Withheld, now: Instant) {
        let mut all = self.all.lock();
        match all.get_mut(&subject(&write)) {
            Some(known) => (known.write, known.last) = (write, now),
            None => {
                all.insert(subject(&write), Difference { write, first: now, last: now, told: false });
            }
        }
    }

    /// How many there are now, whether they have lasted or not.
    pub(crate) fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Differences that have lasted for `grace` and were not given before.
    pub(crate) fn lasting(&self, grace: Duration, now: Instant) -> Vec<Withheld> {
        let mut all = self.all.lock();
        all.retain(|_, difference| now.duration_since(difference.last) < OVER);
        let has_lasted = |difference: &&mut Difference| now.duration_since(difference.first) >= grace;
        let mut lasting = Vec::new();
        let mut count = 0;
        for difference in all.values_mut().filter(has_lasted) {
            count += 1;
            if !std::mem::replace(&mut difference.told, true) {
                self.seen.inc();
                lasting.push(difference.write.clone());
            }
        }
        self.now.set(count);
        lasting
    }

    /// A client that reads through `client` and withholds what writes. Events are dropped: they are about what is done.
    #[must_use]
    pub(crate) fn withhold(self: &Arc<Self>, client: &Client) -> Client {
        let (differences, inner) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (differences, inner) = (Arc::clone(&differences), inner.clone());
            async move {
                if request.method() == Method::GET {
                    return inner.send(request).await.map_err(BoxError::from);
                }
                let (parts, body) = request.into_parts();
                let body: Bytes = body.collect().await?.to_bytes();
                let path = parts.uri.path().to_owned();
                if !path.ends_with("/events") {
                    let body = serde_json::from_slice(&body).unwrap_or_default();
                    differences.note(Withheld { method: parts.method, path, body }, Instant::now());
                }
                not_now()
            }
        });
        Client::new(service, client.default_namespace())
    }
}

/// What a difference is about: the object; for a create without a name, whose slice it would be.
fn subject(write: &Withheld) -> String {
    let of = |pointer: &str| write.body.pointer(pointer).and_then(Value::as_str);
    let owner = of("/metadata/name")
        .or_else(|| of("/metadata/labels/kubernetes.io~1service-name"))
        .or_else(|| of("/metadata/generateName"));
    match owner.filter(|_| write.method == Method::POST) {
        Some(owner) => format!("{} {}/{owner}", write.method, write.path),
        None => format!("{} {}", write.method, write.path),
    }
}

fn not_now() -> Result<Response<Body>, BoxError> {
    let status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429,
        "message": WITHHELD, "details": {"retryAfterSeconds": 1},
    });
    let response = Response::builder().status(429).header(header::RETRY_AFTER, "1");
    Ok(response
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(status.to_string().into_bytes()))?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(path: &str) -> Withheld {
        Withheld { method: Method::PUT, path: path.to_owned(), body: json!({}) }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_lasts_is_a_difference_and_each_is_one() {
        let differences = Differences::default();
        let grace = Duration::from_secs(10);
        for second in 0..30 {
            differences.note(write("/lasts"), Instant::now());
            if second < 3 {
                differences.note(write("/passes"), Instant::now());
            }
            let lasting = differences.lasting(grace, Instant::now());
            let paths: Vec<&str> = lasting.iter().map(|write| write.path.as_str()).collect();
            assert_eq!(paths, if second == 10 { &["/lasts"][..] } else { &[] }, "{second}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!((differences.now.get(), differences.seen.get()), (1, 1));
        tokio::time::advance(OVER).await;
        assert_eq!(differences.lasting(grace, Instant::now()), []);
        assert_eq!(differences.now.get(), 0);
    }

    #[test]
    fn the_namespace_is_that_of_the_object() {
        assert!(write("/api/v1/namespaces/demo/endpoints/hello").is_in("demo"));
        for path in [
            "/api/v1/namespaces/other/endpoints/demo",
            "/apis/networking.k8s.io/v1/servicecidrs/demo",
            "/api/v1/namespaces/demo2/endpoints",
        ] {
            assert!(!write(path).is_in("demo"), "{path}");
        }
    }

    #[tokio::test]
    async fn nothing_that_writes_is_sent() {
        let sent = service_fn(|request: Request<Body>| async move {
            assert_eq!(request.method(), Method::GET);
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        let differences = Arc::new(Differences::default());
        let client = differences.withhold(&Client::new(sent, "default"));
        for (method, path) in [
            ("GET", "/a"),
            ("POST", "/b"),
            ("PUT", "/b/c"),
            ("PATCH", "/b/c"),
            ("DELETE", "/b/d"),
            ("POST", "/x/events"),
        ] {
            let request =
                Request::builder().method(method).uri(path).body(Body::from(b"{}".to_vec())).unwrap();
            let code = client.send(request).await.unwrap().status().as_u16();
            assert_eq!(code, if method == "GET" { 200 } else { 429 }, "{method} {path}");
        }
        let all = differences.all.lock();
        assert_eq!(
            all.keys().map(String::as_str).collect::<Vec<_>>(),
            ["DELETE /b/d", "PATCH /b/c", "POST /b", "PUT /b/c"]
        );
    }
}
