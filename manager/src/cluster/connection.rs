//! What all requests go through: it marks them, and is made anew when the API server refuses the credentials.
//!
//! Owns when that is tried. How it is done is the caller's: credentials may come from a file, a command or a pod.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use kube::client::{AuthError, Body, ClientBuilder, DynBody};
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};
use tower::{BoxError, Layer, Service, util::BoxService};

use super::{ClusterError, token_file::TokenFile};

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

/// The line of the moment.
pub(super) struct Connection {
    line: Line,
    make: Make,
    /// Whether the last answer refused the credentials.
    refused: Arc<AtomicBool>,
    /// Whether they were accepted since the log last told of a refusal: told once, not with every attempt.
    accepted: Arc<AtomicBool>,
    asked: Option<Instant>,
    coming: Option<JoinHandle<Result<Line, ClusterError>>>,
}

impl Connection {
    /// Begins with a line that was made by `make`.
    pub(super) fn new(line: Line, make: Make) -> Self {
        let accepted = Arc::new(AtomicBool::new(true));
        Self { line, make, refused: Arc::default(), accepted, asked: None, coming: None }
    }

    /// Asks for new credentials where the last answer refused those that are here.
    fn ask(&mut self) {
        let asked_lately = self.asked.is_some_and(|asked| asked.elapsed() < AGAIN_AFTER);
        if self.coming.is_none() && self.refused.load(Relaxed) && !asked_lately {
            self.refused.store(false, Relaxed);
            self.asked = Some(Instant::now());
            self.coming = Some(tokio::spawn((self.make)()));
        }
    }

    /// Takes a new line when it is there; until then the old one serves.
    fn take(&mut self, context: &mut Context<'_>) {
        let Some(coming) = &mut self.coming else { return };
        let Poll::Ready(made) = Pin::new(coming).poll(context) else { return };
        self.coming = None;
        let first = self.accepted.swap(false, Relaxed);
        let failure = match made {
            Ok(Ok(line)) => {
                self.line = line;
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match failure {
            None if first => tracing::info!("{READ_AGAIN}"),
            None => tracing::debug!("{READ_AGAIN}"),
            Some(error) if first => tracing::warn!(error, "{NOT_READ}"),
            Some(error) => tracing::debug!(error, "{NOT_READ}"),
        }
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

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.ask();
        self.take(context);
        self.line.way.poll_ready(context)
    }

    /// A request that says whose it is keeps its word: a header of kube's configuration would be there twice.
    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        if let Some(token) = &self.line.token {
            headers.insert(header::AUTHORIZATION, token.authorization(std::time::Instant::now()));
        }
        let answer = self.line.way.call(request);
        let (refused, accepted) = (Arc::clone(&self.refused), Arc::clone(&self.accepted));
        Box::pin(async move {
            let answer = answer.await;
            // What comes of other errors says nothing about credentials.
            let answer = answer.inspect_err(|error| _ = refused.fetch_or(is_stuck(error), Relaxed))?;
            let unauthorized = answer.status() == StatusCode::UNAUTHORIZED;
            refused.store(unauthorized, Relaxed);
            accepted.fetch_or(!unauthorized, Relaxed);
            Ok(answer)
        })
    }
}

/// Whether a command whose credentials expired gave some without an expiry, which kube takes at the start only.
fn is_stuck(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(AuthError::UnrefreshableTokenResponse))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU16;

    use http_body_util::BodyExt as _;
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
        let mut connection = Connection::new(line(Arc::clone(&status)), again);
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
