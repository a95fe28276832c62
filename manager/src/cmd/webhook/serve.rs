//! The port that the API server asks: HTTPS, two paths.
//!
//! Owns connections and their limits. What is answered is the webhook's.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use rustls::AlertDescription;
use service_controllers::webhook::{Stage, Webhook, tls::Certificate};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// An object has 1.5 MiB at most in etcd; a question may have it twice, and JSON is larger.
const LARGEST_BODY: usize = 8 * 1024 * 1024;
/// The most connections at once: API servers have a few each.
const CONNECTIONS: usize = 256;
/// A handshake that takes longer has failed.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// After a connection could not be accepted, the next one is waited for after so long.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// At the end, questions under way are answered within so long.
const GRACE: Duration = Duration::from_secs(5);

/// That somebody does not trust the webhook's certificate is told again after so long.
const REMIND: Duration = Duration::from_mins(5);

/// Tells of clients that do not trust the certificate: an API server that does not says so in its own log alone.
#[derive(Debug, Default)]
struct Distrust(Mutex<Option<Instant>>);

impl Distrust {
    fn note(&self, error: &io::Error, client: SocketAddr) {
        let Some(alert) = distrusts(error) else { return };
        let mut told = self.0.lock();
        if told.is_none_or(|told| told.elapsed() >= REMIND) {
            *told = Some(Instant::now());
            tracing::warn!(
                %client,
                alert = ?alert,
                "a client does not trust the webhook's certificate; if it is an API server, it chooses itself meanwhile: see \
                 caBundle in its webhook configurations, and --tls-cert-file"
            );
        }
    }
}

/// What a client said that did not like the certificate.
fn distrusts(error: &io::Error) -> Option<AlertDescription> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::AlertReceived(alert) = error else { return None };
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
    )
    .then_some(*alert)
}

/// Serves until the token is cancelled, then answers what is under way.
pub(super) async fn serve(
    listener: TcpListener,
    webhook: Webhook,
    certificate: watch::Receiver<Arc<Certificate>>,
    shutdown: CancellationToken,
) {
    let router = Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(webhook);
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let distrust = Arc::new(Distrust::default());
    loop {
        let seat = tokio::select! {
            () = shutdown.cancelled() => break,
            seat = Arc::clone(&seats).acquire_owned() => seat,
        };
        let (stream, client) = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the webhook is not accepted");
                    sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
        };
        while connections.try_join_next().is_some() {}
        let config = Arc::clone(&certificate.borrow().config);
        let (router, shutdown, distrust) = (router.clone(), shutdown.clone(), Arc::clone(&distrust));
        connections.spawn(async move {
            if let Err(error) = connection(stream, TlsAcceptor::from(config), router, shutdown).await {
                distrust.note(&error, client);
                tracing::debug!(%error, "a connection to the webhook");
            }
            drop(seat);
        });
    }
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        tracing::debug!("connections to the webhook are cut");
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = serving.as_mut() => return served.map_err(io::Error::other),
        () = shutdown.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(io::Error::other)
}

async fn mutate(State(webhook): State<Webhook>, body: Bytes) -> Response {
    answer(&webhook, Stage::Mutate, &body)
}

async fn validate(State(webhook): State<Webhook>, body: Bytes) -> Response {
    answer(&webhook, Stage::Validate, &body)
}

fn answer(webhook: &Webhook, stage: Stage, body: &[u8]) -> Response {
    match webhook.answer(stage, body) {
        Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}
