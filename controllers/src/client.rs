//! The API server behind a `kube::Client`: requests out, answers and their meaning back.
//!
//! Owns status codes, `Retry-After`, the rate limit, and that nothing is written without the lease; never decides what to
//! write.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::api::{Answer, ApiServer, Reply, ReplyMeta, RequestError, Resource, Verb, Write};
use crate::concurrency::ConcurrencyLimit;
use crate::deadline::Deadlines;
use crate::error::{in_a_line, with_causes};
use crate::keys;
use crate::leadership::{Leadership, NotLeading};
use crate::objects::partial;
use crate::objects::{EndpointsWire, SliceWire};
use crate::report::look;
use crate::report::metrics::RequestMetrics;

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Of an answer to a write only the metadata is read, and a large object is not worth sending back
/// (API concepts, "alternate representations of resources").
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Which trace and span a request belongs to (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// A server that asks for a longer wait is not believed: nobody would look at what it was about for as long.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// An API server reached through kube's client.
pub(crate) struct KubeApi {
    client: kube::Client,
    limit: Option<RateLimit>,
    concurrency: ConcurrencyLimit,
    deadlines: Deadlines,
    leadership: Leadership,
    metrics: RequestMetrics,
}

impl std::fmt::Debug for KubeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeApi").finish_non_exhaustive()
    }
}

impl KubeApi {
    /// An API server asked at most `qps` times a second, with bursts of `burst`; without limit if
    /// `qps` is not positive. Writes are sent only while `leadership` permits them.
    #[must_use]
    pub(crate) fn new(client: kube::Client, qps: f64, burst: u32, leadership: Leadership) -> Self {
        let limit = (qps > 0.0).then(|| RateLimit::new(qps, burst));
        let (concurrency, metrics) = (ConcurrencyLimit::new(), RequestMetrics::default());
        Self { client, limit, concurrency, deadlines: Deadlines::default(), leadership, metrics }
    }

    /// The same, counted.
    #[must_use]
    pub(crate) fn counted(self, metrics: RequestMetrics) -> Self {
        Self { metrics, ..self }
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Bytes) -> Answer<Bytes> {
        if let Some(limit) = &self.limit {
            self.metrics.limited(&method, limit.wait().await);
        }
        let accept =
            if method == Method::POST || method == Method::PUT { METADATA } else { "application/json" };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, keys::USER_AGENT);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(parent) = look::traceparent() {
            request = request.header(TRACEPARENT, parent);
        }
        let request = request
            .body(Body::from(body))
            .map_err(|e| RequestError::Rejected { code: 0, message: e.to_string() })?;
        let mut permit = self.concurrency.acquire().await;
        let answer = if request.method() == Method::GET {
            self.deadlines.within(TIMEOUT, self.exchange(request)).await
        } else {
            // The last moment before it goes: what it waited for until here may have taken long.
            self.leadership.check()?;
            tokio::select! {
                biased;
                () = self.leadership.lost() => return Err(NotLeading.into()),
                answer = self.deadlines.within(TIMEOUT, self.exchange(request)) => answer,
            }
        };
        let (status, after, body) =
            answer.ok_or_else(|| RequestError::Unreachable(format!("none within {TIMEOUT:?}")))??;
        if status == StatusCode::TOO_MANY_REQUESTS {
            permit.refused();
        } else {
            permit.taken();
        }
        if status.is_success() { Ok(body) } else { Err(request_error(status, after, &body)) }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        let body = self.send(Method::GET, path, "", Bytes::new()).await?;
        serde_json::from_slice(&body).map_err(unreadable)
    }

    async fn slices(&self, namespace: &str, selector: &str) -> Answer<Vec<SliceWire>> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct List {
            items: Vec<SliceWire>,
        }
        let path = Resource::Slices.path(Some(namespace));
        let list: List = self.read(&format!("{path}?{selector}")).await?;
        Ok(list.items)
    }

    async fn exchange(&self, request: Request<Body>) -> Answer<(StatusCode, Option<Duration>, Bytes)> {
        let response =
            self.client.send(request).await.map_err(|e| RequestError::Unreachable(with_causes(&e)))?;
        let status = response.status();
        let after = retry_after(response.headers());
        let body =
            response.into_body().collect().await.map_err(|e| RequestError::Unreachable(with_causes(&e)))?;
        Ok((status, after, body.to_bytes()))
    }
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn unreadable(error: serde_json::Error) -> RequestError {
    RequestError::Unknown(format!("unreadable answer: {error}"))
}

/// The part of a `Status` that says what went wrong.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    causes: Vec<StatusCause>,
    retry_after_seconds: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: String,
}

/// When the server wants to be asked again, if it says so in seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// What an answer that is no success means.
pub(crate) fn request_error(code: StatusCode, after: Option<Duration>, body: &[u8]) -> RequestError {
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: String::from_utf8_lossy(body).into_owned(),
        ..Status::default()
    });
    let details = status.details.unwrap_or_default();
    let message = in_a_line(&status.message);
    let after = after.or(details.retry_after_seconds.map(Duration::from_secs));
    let after = after.map(|after| after.min(LONGEST_WAIT));
    match code {
        StatusCode::CONFLICT if status.reason == "AlreadyExists" => RequestError::Exists(message),
        StatusCode::CONFLICT | StatusCode::GONE => RequestError::Conflict(message),
        StatusCode::NOT_FOUND => RequestError::NotFound(message),
        StatusCode::FORBIDDEN if details.causes.iter().any(|c| c.reason == "NamespaceTerminating") => {
            RequestError::NamespaceTerminating
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            RequestError::Busy { message, after }
        }
        code if code.is_server_error() => RequestError::Unknown(format!("{code}: {message}")),
        code => RequestError::Rejected { code: code.as_u16(), message },
    }
}

/// What an error of kube's own calls means.
pub(crate) fn request_error_of(error: &kube::Error) -> RequestError {
    match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            request_error(code, None, &serde_json::to_vec(status).unwrap_or_default())
        }
        kube::Error::Service(error) if error.is::<NotLeading>() => RequestError::NotLeading(NotLeading),
        kube::Error::SerdeError(error) => RequestError::Unknown(format!("unreadable answer: {error}")),
        error => RequestError::Unreachable(with_causes(error)),
    }
}

impl ApiServer for KubeApi {
    fn write<'a>(&'a self, write: &'a Write) -> BoxFuture<'a, Answer<Reply>> {
        async move {
            let mut path = write.resource.path(write.namespace.as_deref());
            if let Some(name) = &write.name {
                path = format!("{path}/{name}");
            }
            if write.status {
                path += "/status";
            }
            let (method, kind) = match write.verb {
                Verb::Create => (Method::POST, "application/json"),
                Verb::Update => (Method::PUT, "application/json"),
                Verb::Merge => (Method::PATCH, "application/merge-patch+json"),
                Verb::Delete => (Method::DELETE, "application/json"),
            };
            let answer = self.send(method, &path, kind, write.body.clone()).await?;
            // What else it says is what was sent, or what the watch will show.
            let metadata: ReplyMeta = partial::metadata(&answer).map_err(unreadable)?;
            let stored = matches!(write.verb, Verb::Create | Verb::Update);
            if stored && (metadata.uid.is_empty() || metadata.resource_version.is_empty()) {
                return Err(RequestError::Unknown("the answer does not say what was stored".to_owned()));
            }
            Ok(Reply { metadata })
        }
        .boxed()
    }

    fn slices_of<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> BoxFuture<'a, Answer<Vec<SliceWire>>> {
        let selector = format!("labelSelector=kubernetes.io%2Fservice-name%3D{service}");
        async move { self.slices(namespace, &selector).await }.boxed()
    }

    fn slice<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Answer<Option<SliceWire>>> {
        // The right to list slices is there anyhow, that to get one is not.
        let selector = format!("fieldSelector=metadata.name%3D{name}");
        async move { Ok(self.slices(namespace, &selector).await?.into_iter().next()) }.boxed()
    }

    fn endpoints<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Answer<EndpointsWire>> {
        async move {
            let path = format!("{}/{name}", Resource::Endpoints.path(Some(namespace)));
            self.read(&path).await
        }
        .boxed()
    }
}

/// A token bucket: bursts are let through, the average is kept.
#[derive(Debug)]
struct RateLimit {
    qps: f64,
    burst: f64,
    state: Mutex<(f64, Instant)>,
}

impl RateLimit {
    fn new(qps: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { qps, burst, state: Mutex::new((burst, Instant::now())) }
    }

    /// Waits for a token; gives for how long.
    async fn wait(&self) -> Duration {
        let wait = self.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        wait
    }

    /// Takes a token, in advance if there is none; gives how long to wait for it.
    fn take(&self, now: Instant) -> Duration {
        let mut state = self.state.lock();
        let (tokens, last) = *state;
        let tokens =
            (tokens + now.saturating_duration_since(last).as_secs_f64() * self.qps).min(self.burst) - 1.0;
        *state = (tokens, now);
        if tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-tokens / self.qps) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::leadership::Moment;

    fn update() -> Write {
        Write {
            verb: Verb::Update,
            resource: Resource::Slices,
            namespace: Some("n".into()),
            name: Some("s".into()),
            status: false,
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn bursts_pass_and_the_rest_waits_its_turn() {
        let limit = RateLimit::new(10.0, 3);
        let now = Instant::now();
        let waits: Vec<u128> = (0..5).map(|_| limit.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(limit.take(now + Duration::from_secs(9)), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_request_of_a_look_that_is_traced_names_its_span() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let service = {
            let seen = Arc::clone(&seen);
            tower::service_fn(move |request: Request<Body>| {
                let parent = request.headers().get(TRACEPARENT).map(|v| v.to_str().unwrap().to_owned());
                seen.lock().push(parent);
                let answer = br#"{"metadata":{"name":"s","uid":"u","resourceVersion":"7"}}"#;
                async move { Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(answer.to_vec()))) }
            })
        };
        let client = kube::Client::new(service, "default");
        let api = KubeApi::new(client, 0.0, 0, Leadership::without_election());
        let ids = look::LookIds::default();
        let look =
            |traced| look::Look { id: ids.next(), traced, begun: Instant::now(), planning: Duration::ZERO };
        let (kept, other, write) = (look(true), look(false), update());
        kept.trace(look::WRITES, api.write(&write)).await.unwrap();
        other.trace(0, api.write(&write)).await.unwrap();
        let parent = |place| Some(format!("00-{:032x}-{:016x}-01", kept.id.number(), kept.id.span(place)));
        assert_eq!(*seen.lock(), [parent(look::WRITES), None]);
    }

    #[tokio::test]
    async fn an_answer_that_does_not_say_what_was_stored_is_none() {
        let answer = |body: &'static str| {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(body.as_bytes().to_vec())))
            });
            KubeApi::new(kube::Client::new(service, "default"), 0.0, 0, Leadership::without_election())
        };
        let write = |verb| Write { verb, ..update() };
        let stored = r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"7"}}"#;
        for verb in [Verb::Create, Verb::Update] {
            let said = answer("{}").write(&write(verb)).await;
            assert!(matches!(said, Err(RequestError::Unknown(_))), "{said:?}");
            assert_eq!(answer(stored).write(&write(verb)).await.unwrap().metadata.resource_version, "7");
        }
        assert!(answer(r#"{"kind":"Status","metadata":{}}"#).write(&write(Verb::Delete)).await.is_ok());
    }

    fn counting(taken: &Arc<AtomicUsize>, answers: bool) -> kube::Client {
        let taken = Arc::clone(taken);
        let service = tower::service_fn(move |_: Request<Body>| {
            taken.fetch_add(1, Ordering::Relaxed);
            async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                let body = Bytes::from_static(br#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#);
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(body)))
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test]
    async fn one_slice_is_asked_for_by_its_name() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            noted.lock().push(format!("{} {}", request.method(), request.uri()));
            let found = if request.uri().to_string().ends_with("%3Dweb-1") {
                r#"{"metadata":{"name":"web-1"}}"#
            } else {
                ""
            };
            let body = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{found}]}}"#);
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(body.into_bytes()))) }
        });
        let client = kube::Client::new(service, "default");
        let api = KubeApi::new(client, 0.0, 0, Leadership::without_election());
        assert_eq!(api.slice("n", "web-1").await.unwrap().unwrap().metadata.name, "web-1");
        assert!(api.slice("n", "web-2").await.unwrap().is_none());
        let path = "GET /apis/discovery.k8s.io/v1/namespaces/n/endpointslices?fieldSelector=metadata.name%3D";
        assert_eq!(*asked.lock(), [format!("{path}web-1"), format!("{path}web-2")]);
    }

    const NOT_LEADING: RequestError = RequestError::NotLeading(NotLeading);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waited_past_the_end_of_the_term_is_not_sent() {
        let (leadership, sent) = (Leadership::follower(), Arc::new(AtomicUsize::new(0)));
        let api = KubeApi::new(counting(&sent, true), 1.0, 1, leadership.clone());
        assert_eq!(api.write(&update()).await, Err(NOT_LEADING), "it does not lead yet");
        tokio::time::advance(Duration::from_secs(1)).await;
        leadership.begin(Moment::now(), Duration::from_millis(9_500));
        let update = update();
        let answers = futures::future::join_all((0..20).map(|_| api.write(&update))).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10, "one each second");
        assert!(answers[10..].iter().all(|answer| *answer == Err(NOT_LEADING)), "{answers:?}");
        assert_eq!(sent.load(Ordering::Relaxed), 10);
        assert!(api.endpoints("n", "s").await.is_ok(), "whoever stands by reads");
        leadership.begin(Moment::now(), Duration::from_secs(10));
        assert!(api.write(&update).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_is_given_up_with_the_term() {
        let (leadership, sent) = (Leadership::follower(), Arc::new(AtomicUsize::new(0)));
        let (api, begun) = (KubeApi::new(counting(&sent, false), 0.0, 0, leadership.clone()), Instant::now());
        leadership.begin(Moment::now(), Duration::from_secs(10));
        let answer = api.write(&update()).await;
        assert_eq!((answer.clone(), sent.load(Ordering::Relaxed)), (Err(NOT_LEADING), 1));
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        assert!(answer.is_err_and(|error| error.is_uncertain()), "it may have been done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_few_seats_has_little_to_refuse() {
        const SEATS: usize = 3;
        let (seated, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&refused);
        let service = tower::service_fn(move |_: Request<Body>| {
            let (seated, refused) = (Arc::clone(&seated), Arc::clone(&counted));
            async move {
                let full = seated.fetch_add(1, Ordering::Relaxed) >= SEATS;
                let wait = if full { Duration::from_micros(100) } else { Duration::from_millis(3) };
                tokio::time::sleep(wait).await;
                seated.fetch_sub(1, Ordering::Relaxed);
                let (code, body) = if full {
                    refused.fetch_add(1, Ordering::Relaxed);
                    (429, "Too many requests, please try again later.\n")
                } else {
                    (200, r#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#)
                };
                Ok::<_, std::convert::Infallible>(
                    http::Response::builder()
                        .status(code)
                        .body(Body::from(body.as_bytes().to_vec()))
                        .unwrap(),
                )
            }
        });
        let api = Arc::new(KubeApi::new(
            kube::Client::new(service, "default"),
            0.0,
            0,
            Leadership::without_election(),
        ));
        let writes = Arc::new(AtomicUsize::new(0));
        // As the workers do: whoever is refused leaves its key for later and takes the next.
        let workers = (0..16).map(|_| {
            let (api, writes) = (Arc::clone(&api), Arc::clone(&writes));
            tokio::spawn(async move {
                while writes.load(Ordering::Relaxed) < 500 {
                    if api.write(&update()).await.is_ok() {
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        futures::future::join_all(workers).await;
        let refused = refused.load(Ordering::Relaxed);
        assert!(refused < 50, "{refused} requests were refused for 500 that were taken");
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        let body = br#"{"message":"too many","details":{"retryAfterSeconds":3}}"#;
        let refused = request_error(StatusCode::TOO_MANY_REQUESTS, None, body);
        assert_eq!(
            refused,
            RequestError::Busy { message: "too many".into(), after: Some(Duration::from_secs(3)) }
        );
        let refused = request_error(
            StatusCode::TOO_MANY_REQUESTS,
            None,
            b"Too many requests, please try again later.\n",
        );
        assert_eq!(
            refused.to_string(),
            "server unavailable: Too many requests, please try again later.",
            "a line of the log is one line"
        );
        let refused = request_error(StatusCode::BAD_GATEWAY, None, b"<html>\n<p>\nBad gateway\x1b[31m");
        assert_eq!(refused.to_string(), "unclear answer: 502 Bad Gateway: <html> <p> Bad gateway [31m");
        let body = br#"{"reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        assert_eq!(request_error(StatusCode::FORBIDDEN, None, body), RequestError::NamespaceTerminating);
        let never = Some(Duration::from_secs(u64::MAX));
        let body = br#"{"details":{"retryAfterSeconds":18446744073709551615}}"#;
        for refused in [
            request_error(StatusCode::TOO_MANY_REQUESTS, never, b""),
            request_error(StatusCode::SERVICE_UNAVAILABLE, None, body),
        ] {
            assert!(
                crate::backoff::Backoff::default().after(&refused) < Duration::from_mins(7),
                "{refused:?}"
            );
        }
        assert!(matches!(request_error(StatusCode::BAD_GATEWAY, None, b"<html>"), RequestError::Unknown(_)));
    }
}
