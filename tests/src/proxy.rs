//! A plain-HTTP proxy in front of a server that counts the successful writes that pass and remembers what was asked for. It
//! changes no request but for the token, which it adds, and answers nothing itself unless the server is gone.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::Mutex as AsyncMutex, task::JoinSet};

use crate::{
    case::Writes,
    http::{HttpError, Target},
    permissions::Asked,
};

/// Resources whose writes say nothing about a controller's work.
const UNCOUNTED: [&str; 2] = ["events", "leases"];
const UNCOUNTED_USER_AGENT: &str = "garbage-collector";

/// Writes that passed, and when the last one did.
#[derive(Debug)]
struct Counted {
    writes: Writes,
    last: Instant,
    asked: BTreeSet<Asked>,
}

/// A running proxy; dropping it ends it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counted: Arc<Mutex<Counted>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of the loopback interface.
    pub async fn start(target: Target) -> Result<Self, HttpError> {
        let failed = |error| HttpError::Connect("127.0.0.1:0".to_owned(), error);
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let counted = Arc::new(Mutex::new(Counted {
            writes: Writes::new(),
            last: Instant::now(),
            asked: BTreeSet::new(),
        }));
        let task = tokio::spawn(serve(listener, target, Arc::clone(&counted)));
        Ok(Self { address, counted, task })
    }

    /// The URL for the controllers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The last successful write, or the start.
    pub fn last_write(&self) -> Instant {
        lock(&self.counted).last
    }

    /// All that was asked for since the start.
    pub fn asked(&self) -> BTreeSet<Asked> {
        lock(&self.counted).asked.clone()
    }

    /// The writes since the last call.
    pub fn take(&self) -> Writes {
        std::mem::take(&mut lock(&self.counted).writes)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, target: Target, counted: Arc<Mutex<Counted>>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let relay = Arc::new(Relay {
            target: target.clone(),
            kept: AsyncMutex::new(None),
            counted: Arc::clone(&counted),
        });
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let relay = Arc::clone(&relay);
                async move { Ok::<_, Infallible>(relay.answer(request).await) }
            });
            // A client that goes away is no error.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

type Body = Either<Incoming, Full<Bytes>>;

/// One connection of a client and the one to the server that belongs to it.
struct Relay {
    target: Target,
    kept: AsyncMutex<Option<SendRequest<Full<Bytes>>>>,
    counted: Arc<Mutex<Counted>>,
}

impl Relay {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let write = counted_write(&request);
        lock(&self.counted).asked.extend(Asked::of(request.method(), request.uri()));
        match self.forward(request).await {
            Ok(response) => {
                if let Some((resource, verb)) = write
                    && response.status().is_success()
                {
                    let mut counted = lock(&self.counted);
                    *counted.writes.entry(resource).or_default().entry(verb.to_owned()).or_default() += 1;
                    counted.last = Instant::now();
                }
                response.map(Either::Left)
            }
            Err(error) => {
                let mut response = Response::new(Either::Right(Full::from(error.to_string())));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Incoming>, HttpError> {
        let (mut parts, body) = request.into_parts();
        let body = Full::new(body.collect().await?.to_bytes());
        let value = |text: &str| HeaderValue::from_str(text).map_err(http::Error::from);
        parts.headers.insert(header::HOST, value(&self.target.authority)?);
        if let Some(token) = &self.target.token {
            parts.headers.insert(header::AUTHORIZATION, value(&format!("Bearer {token}"))?);
        }
        parts.headers.remove(header::TRANSFER_ENCODING);
        let mut kept = self.kept.lock().await;
        let mut sender = self.target.reconnect(kept.take()).await?;
        let response = sender.send_request(Request::from_parts(parts, body)).await?;
        *kept = Some(sender);
        Ok(response)
    }
}

/// Resource (with subresource) and verb of a request that counts.
fn counted_write(request: &Request<Incoming>) -> Option<(String, &'static str)> {
    let agent =
        request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if agent.contains(UNCOUNTED_USER_AGENT) {
        return None;
    }
    let asked = Asked::of(request.method(), request.uri())?;
    let verb = match *request.method() {
        // However many objects it hits.
        Method::DELETE => "delete",
        Method::GET => return None,
        _ => asked.verb,
    };
    (!UNCOUNTED.contains(&asked.resource.as_str())).then_some((asked.resource, verb))
}
