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
use kube::client::{Body, ClientBuilder, DynBody};
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};
use tower::{BoxError, Layer, Service, util::BoxService};

use super::{ClusterError, token_file::TokenFile};

pub(super) const USER_AGENT: &str = concat!("service-controller-manager/", env!("CARGO_PKG_VERSION"));
/// How often credentials are asked for at most: whoever gives refused ones gives them again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

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
    refused: Arc<AtomicBool>,
    asked: Option<Instant>,
    coming: Option<JoinHandle<Result<Line, ClusterError>>>,
}

impl Connection {
    /// Begins with a line that was made by `make`.
    pub(super) fn new(line: Line, make: Make) -> Self {
        Self { line, make, refused: Arc::default(), asked: None, coming: None }
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
        match made {
            Ok(Ok(line)) => {
                tracing::info!("the API server refused the credentials; they were read again");
                self.line = line;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the API server refuses the credentials, and there are no others");
            }
            Err(error) => tracing::warn!(%error, "credentials cannot be read again"),
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
        let (answer, refused) = (self.line.way.call(request), Arc::clone(&self.refused));
        Box::pin(async move {
            let answer = answer.await?;
            refused.store(answer.status() == StatusCode::UNAUTHORIZED, Relaxed);
            Ok(answer)
        })
    }
}
