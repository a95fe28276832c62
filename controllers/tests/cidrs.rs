//! The ServiceCIDR controller against a scripted API server: what is counted of its queue, and what is told of its watch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use service_controllers::controller::Controller;
use service_controllers::report::metrics::{Metrics, exposition};
use service_controllers::runtime::{Settings, start};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// What an API server says to a JSON patch whose test fails.
const TEST_FAILED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#;

fn text(code: u16, body: &str) -> Response<Answer> {
    let body = Full::from(Bytes::from(body.to_owned())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// An API server with ranges that lack their finalizer.
struct Server {
    ranges: usize,
    /// How many patches are answered.
    patches: Semaphore,
    /// So many writes come after somebody else's, of which the watch does not tell yet.
    overtaken: usize,
    patched: AtomicUsize,
    /// When ranges were listed. These lists fail if there are no ranges.
    listed: Mutex<Vec<Instant>>,
}

impl Server {
    fn new(ranges: usize, patches: usize) -> Arc<Self> {
        Arc::new(Self::with(ranges, patches, 0))
    }

    fn with(ranges: usize, patches: usize, overtaken: usize) -> Self {
        let (patches, patched, listed) = (Semaphore::new(patches), AtomicUsize::new(0), Mutex::default());
        Self { ranges, patches, overtaken, patched, listed }
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let server = Arc::clone(self);
        let service = service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            let (method, uri) = (request.method().clone(), request.uri().clone());
            async move { Ok::<_, Infallible>(server.answer(&method, &uri).await) }
        });
        kube::Client::new(service, "default")
    }

    fn range(i: usize) -> String {
        format!(
            r#"{{"metadata":{{"name":"r{i}","uid":"u{i}","resourceVersion":"{i}"}},"spec":{{"cidrs":["10.{i}.0.0/24"]}}}}"#
        )
    }

    async fn answer(&self, method: &Method, uri: &Uri) -> Response<Answer> {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        if *method == Method::PATCH {
            let before = self.patched.fetch_add(1, Ordering::Relaxed);
            self.patches.acquire().await.unwrap().forget();
            if before < self.overtaken {
                return text(422, TEST_FAILED);
            }
            let name = path.split('/').nth(5).unwrap();
            return text(200, &Self::range(name[1..].parse().unwrap()));
        }
        if *method == Method::POST {
            return text(201, r#"{"metadata":{"name":"e","uid":"e","resourceVersion":"9"}}"#);
        }
        if query.contains("watch=true") {
            return Response::new(StreamBody::new(futures::stream::pending()).boxed_unsync());
        }
        if path.ends_with("/servicecidrs") {
            self.listed.lock().push(Instant::now());
            if self.ranges == 0 {
                return text(500, r#"{"kind":"Status","message":"no time","code":500}"#);
            }
            let bad = r#"{"metadata":{"name":"bad","labels":7},"spec":{"cidrs":["10.99.0.0/24"]}}"#;
            let items = (1..=self.ranges).map(Self::range).chain([bad.to_owned()]);
            let items = items.collect::<Vec<_>>().join(",");
            return text(200, &format!(r#"{{"metadata":{{"resourceVersion":"50"}},"items":[{items}]}}"#));
        }
        text(200, r#"{"metadata":{"resourceVersion":"50"},"items":[]}"#)
    }
}

fn settings(metrics: Metrics) -> Settings {
    Settings { controllers: [Controller::Cidrs].into(), metrics, ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn ranges_that_wait_for_a_look_are_counted() {
    let (server, shutdown, mut registry) = (Server::new(7, 0), CancellationToken::new(), Registry::default());
    let settings = settings(Metrics::register(&mut registry));
    let running = tokio::spawn(start(server.client(), settings, shutdown.clone()));
    let value = |series: &str| {
        let series = format!("{series}{{name=\"ipaddresses\"}} ");
        let text = exposition(&registry).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        // Whole seconds will do.
        let whole = value.and_then(|value| value.split('.').next());
        whole.unwrap_or_else(|| panic!("no {series} in {text}")).parse::<u64>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let text = exposition(&registry).unwrap();
    let unreadable = "service_controller_unreadable_objects_total{kind=\"servicecidrs\"} 1";
    assert!(text.contains(unreadable), "a range that cannot be read is counted, and not looked at: {text}");
    // Five are looked at and wait for the answer to a write; two wait for them. A new range matters to all others, so those
    // that are looked at are called for once more.
    assert_eq!(server.patched.load(Ordering::Relaxed), 5);
    assert_eq!((value("workqueue_depth"), value("workqueue_adds_total")), (7, 12));
    assert_eq!(value("workqueue_queue_duration_seconds_count"), 5);
    assert!(value("workqueue_longest_running_processor_seconds") >= 2);
    server.patches.add_permits(1000);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        server.patched.load(Ordering::Relaxed),
        7,
        "each has got its finalizer, and nothing else is written before the watch tells of that"
    );
    let adds = value("workqueue_adds_total");
    assert!(adds >= 12, "{adds}");
    assert_eq!(value("workqueue_depth"), 0);
    assert_eq!(value("workqueue_queue_duration_seconds_count"), adds, "what was added was looked at");
    assert_eq!(value("workqueue_work_duration_seconds_count"), adds);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// What is logged, and when.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Instant, String)>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().push((Instant::now(), String::from_utf8_lossy(bytes).into_owned()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes down what is logged from here on.
fn logged() -> (Lines, tracing::subscriber::DefaultGuard) {
    let lines = Lines::default();
    let written = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .finish();
    (lines, tracing::subscriber::set_default(log))
}

/// Another leader may put the finalizer on first: the server refuses ours, and that is nothing to warn of.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_else_writes_first_is_no_warning() {
    let server = Arc::new(Server::with(1, 1000, 3));
    let (shutdown, (lines, _log)) = (CancellationToken::new(), logged());
    let running = tokio::spawn(start(server.client(), settings(Metrics::default()), shutdown.clone()));
    tokio::time::sleep(Duration::from_mins(1)).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let lines: Vec<String> = lines.0.lock().iter().map(|(_, line)| line.clone()).collect();
    let of_writes = |line: &&String| line.contains("verb=\"patch\"");
    assert_eq!(lines.iter().filter(of_writes).count(), 3, "it is tried again: {lines:#?}");
    assert_eq!(server.patched.load(Ordering::Relaxed), 4, "and no more when it is written");
    assert!(!lines.iter().filter(of_writes).any(|line| line.contains("WARN")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_ranges_is_tried_again_when_its_line_says() {
    let (server, shutdown, (lines, _log)) = (Server::new(0, 0), CancellationToken::new(), logged());
    let running = tokio::spawn(start(server.client(), settings(Metrics::default()), shutdown.clone()));
    tokio::time::sleep(Duration::from_mins(2)).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let said: Vec<(Instant, Duration)> =
        lines.0.lock().iter().filter_map(|(at, line)| again(*at, line)).collect();
    let tried = server.listed.lock().clone();
    assert!(tried.len() > 8 && said.len() == tried.len(), "{} tries, {} lines", tried.len(), said.len());
    for ((at, wait), next) in said.iter().zip(&tried[1..]) {
        let off = (*at + *wait).duration_since(*next).max(next.duration_since(*at + *wait));
        // Times are written in tenths of a second, from one second on.
        assert!(
            off <= Duration::from_millis(101),
            "{wait:?} was said, {:?} it was",
            next.duration_since(*at)
        );
    }
    let waits: Vec<Duration> = said.into_iter().map(|(_, wait)| wait).collect();
    assert!(waits[0] < Duration::from_millis(100) && waits[8] > Duration::from_secs(5), "{waits:?}");
}

/// When the line about a failed watch of ranges was written, and when it says that the next try is.
fn again(at: Instant, line: &str) -> Option<(Instant, Duration)> {
    let rest = line.split("watch=\"servicecidrs\"").nth(1)?.split("again=").nth(1)?;
    let text = rest.split_whitespace().next()?;
    let wait = match text.strip_suffix("ms") {
        Some(text) => text.parse::<f64>().unwrap() / 1000.0,
        None => text.strip_suffix('s').unwrap().parse::<f64>().unwrap(),
    };
    Some((at, Duration::from_secs_f64(wait)))
}
