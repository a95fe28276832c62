//! What all requests go through: it marks them, and is made anew when the API server refuses the credentials.
//!
//! Owns when that is tried. How it is done is the caller's: credentials may come from a file, a command or a pod.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kube::client::{AuthError, Body, ClientBuilder, DynBody};
use parking_lot::Mutex;
use service_controllers::report::metrics::RequestMetrics;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tower::{BoxError, Layer, Service, util::BoxService};

use super::{ClusterError, Watched, token_file::TokenFile};

pub(super) const USER_AGENT: &str = concat!("service-controller-manager/", env!("CARGO_PKG_VERSION"));
/// How often credentials are asked for at most: whoever gives refused ones gives them again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

const READ_AGAIN: &str = "the API server refused the credentials; they were read again";
const NOT_READ: &str = "the API server refused the credentials, and they cannot be read again";

/// kube's way to a server: base URL, credentials, TLS.
type Way = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;
/// Makes a new line from what the credentials are now.
pub(super) type Make = Box<dyn Fn() -> BoxFuture<'static, Result<Line, ClusterError>> + Send>;

/// A way to a server, with the token that is no part of it.
pub(super) struct Line {
    way: Way,
    token: Option<TokenFile>,
}

impl Line {
    /// Takes kube's way out of its builder.
    pub(super) fn new(builder: ClientBuilder<Way>, token: Option<TokenFile>) -> Option<Self> {
        let taken = Taken::default();
        builder.with_layer(&taken);
        let way = taken.0.into_inner()?;
        Some(Self { way, token })
    }
}

/// A layer that keeps what it is laid around.
#[derive(Default)]
struct Taken(Mutex<Option<Way>>);

impl Layer<Way> for Taken {
    type Service = ();

    fn layer(&self, way: Way) {
        *self.0.lock() = Some(way);
    }
}

/// Reads the credentials again while the server refuses them, and keeps the line that comes of it until it is taken.
struct Renewal {
    make: Mutex<Make>,
    state: Mutex<State>,
    /// Told when there is a line to take.
    renewed: Arc<Notify>,
    /// Whether they were accepted since the log last told of a refusal: told once, not with every attempt.
    accepted: AtomicBool,
}

#[derive(Default)]
struct State {
    asked: Option<Instant>,
    under_way: bool,
    made: Option<Line>,
}

impl Renewal {
    /// Has credentials read, now or as soon as they may be again.
    fn ask(self: &Arc<Self>) {
        let wait = {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.under_way, true) {
                return;
            }
            state.asked.map_or(Duration::ZERO, |asked| AGAIN_AFTER.saturating_sub(asked.elapsed()))
        };
        let renewal = Arc::clone(self);
        tokio::spawn(async move {
            sleep(wait).await;
            renewal.state.lock().asked = Some(Instant::now());
            let made = (renewal.make.lock())();
            let made = made.await;
            renewal.tell(made.as_ref().err());
            let mut state = renewal.state.lock();
            state.under_way = false;
            if let Ok(line) = made {
                state.made = Some(line);
                drop(state);
                renewal.renewed.notify_one();
            }
        });
    }

    fn tell(&self, failure: Option<&ClusterError>) {
        let first = self.accepted.swap(false, Relaxed);
        match failure {
            None if first => tracing::info!("{READ_AGAIN}"),
            None => tracing::debug!("{READ_AGAIN}"),
            Some(error) if first => tracing::warn!(%error, "{NOT_READ}"),
            Some(error) => tracing::debug!(%error, "{NOT_READ}"),
        }
    }
}

/// The line of the moment.
pub(super) struct Connection {
    line: Line,
    renewal: Arc<Renewal>,
    requests: RequestMetrics,
}

impl Connection {
    /// Begins with a line that was made by `make`.
    pub(super) fn new(line: Line, make: Make, watched: Watched) -> Self {
        let Watched { requests, renewed } = watched;
        let renewal = Renewal {
            make: Mutex::new(make),
            state: Mutex::default(),
            renewed,
            accepted: AtomicBool::new(true),
        };
        Self { line, renewal: Arc::new(renewal), requests }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("token", &self.line.token).finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    /// Takes a new line when it is there; until then the old one serves.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Some(line) = self.renewal.state.lock().made.take() {
            self.line = line;
        }
        self.line.way.poll_ready(context)
    }

    /// A request that says whose it is keeps its word: a header of kube's configuration would be there twice.
    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        if let Some(token) = &self.line.token {
            headers.insert(header::AUTHORIZATION, token.authorization(std::time::Instant::now()));
        }
        let counted = Counted::begin(self.requests.clone(), &request);
        let answer = self.line.way.call(request);
        let renewal = Arc::clone(&self.renewal);
        Box::pin(async move {
            let answer = answer.await;
            counted.answered(answer.as_ref().ok().map(Response::status));
            // What comes of other errors says nothing about credentials.
            let answer = answer.inspect_err(|error| {
                if is_stuck(error) {
                    renewal.ask();
                }
            })?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                renewal.ask();
            } else {
                renewal.accepted.store(true, Relaxed);
            }
            Ok(counted.body(answer))
        })
    }
}

/// A request that is counted.
struct Counted {
    requests: RequestMetrics,
    method: Method,
    begun: Instant,
    watches: bool,
}

impl Counted {
    fn begin(requests: RequestMetrics, request: &Request<Body>) -> Self {
        let method = request.method().clone();
        requests.sent(&method, request.body().size_hint().lower());
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        Self { requests, method, begun: Instant::now(), watches }
    }

    fn answered(&self, code: Option<StatusCode>) {
        self.requests.answered(&self.method, code, self.begun.elapsed());
    }

    /// The answer, whose body counts its bytes until it is dropped. That of a watch has no size.
    fn body(self, answer: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
        if self.watches {
            return answer;
        }
        let mut received = Received { counted: self, size: 0 };
        answer.map(|body| -> Box<DynBody> {
            Box::new(body.map_frame(move |frame| {
                received.add(frame.data_ref().map_or(0, bytes_of));
                frame
            }))
        })
    }
}

fn bytes_of(data: &impl bytes::Buf) -> u64 {
    u64::try_from(data.remaining()).unwrap_or(u64::MAX)
}

/// Bytes that came so far.
struct Received {
    counted: Counted,
    size: u64,
}

impl Received {
    const fn add(&mut self, size: u64) {
        self.size += size;
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.counted.requests.received(&self.counted.method, self.size);
    }
}

/// Whether a command whose credentials expired gave some without an expiry, which kube takes at the start only.
fn is_stuck(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(AuthError::UnrefreshableTokenResponse))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU16;

    use tower::{ServiceExt as _, service_fn};

    use super::*;

    /// A line to a server that answers with a status.
    fn line(status: Arc<AtomicU16>) -> Line {
        let way = service_fn(move |_| {
            let status = status.load(Relaxed);
            let body: Box<DynBody> = Box::new(Body::empty().map_err(BoxError::from));
            async move { Ok(Response::builder().status(status).body(body)?) }
        });
        Line { way: BoxService::new(way), token: None }
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_stay_refused_are_told_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = tracing_subscriber::fmt().with_writer(Arc::new(file.reopen().unwrap())).finish();
        let _log = tracing::subscriber::set_default(log);
        let (status, made) = (Arc::new(AtomicU16::new(401)), Arc::new(AtomicU16::new(0)));
        let (next, counted) = (Arc::clone(&status), Arc::clone(&made));
        let again: Make = Box::new(move || {
            counted.fetch_add(1, Relaxed);
            let line = line(Arc::clone(&next));
            Box::pin(async move { Ok(line) })
        });
        let mut connection = Connection::new(line(Arc::clone(&status)), again, Watched::default());
        for told in [1, 2] {
            for _ in 0..30 {
                let ready = connection.ready().await.unwrap();
                ready.call(Request::new(Body::empty())).await.unwrap();
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            let text = std::fs::read_to_string(file.path()).unwrap();
            assert_eq!(text.lines().count(), told, "{text}");
            status.store(200, Relaxed);
            connection.ready().await.unwrap().call(Request::new(Body::empty())).await.unwrap();
            status.store(401, Relaxed);
        }
        assert!(made.load(Relaxed) > 4, "they are read again all the same");
    }
}
