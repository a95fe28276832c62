//! The port for people and scrapers: `/livez`, `/readyz`, `/metrics`. It answers TLS, as kube-controller-manager's secure port
//! does, and plain HTTP on the same port, for probes and scrapers that have no certificate. Nothing can be changed here.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use parking_lot::RwLock;
use prometheus_client::{encoding::text::encode, registry::Registry};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::ready::Readiness;

/// After a connection could not be accepted, the next one is waited for after so long.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// The first byte of a TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A port that is bound and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    address: SocketAddr,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another with --secure-port")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// What the port shows.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Whether the process is ready.
    pub readiness: Readiness,
    /// Its metrics.
    pub metrics: Arc<RwLock<Registry>>,
}

/// Binds the port. `0.0.0.0` and `::` both mean all addresses of both families, as for kube-controller-manager; where the
/// system knows one family only, those of that.
pub async fn bind(ip: IpAddr, port: u16, tls: Option<Arc<ServerConfig>>) -> Result<Bound, BindError> {
    let address = SocketAddr::new(ip, port);
    let failed = |source| BindError { address, source };
    let listener = if ip.is_unspecified() {
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
            }
            bound => bound,
        }
    } else {
        TcpListener::bind(address).await
    };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, tls, address })
}

impl Bound {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the token is cancelled, then ends the open connections.
    pub async fn serve(self, shown: Shown, shutdown: CancellationToken) {
        let router = router(shown);
        let mut connections = JoinSet::new();
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: the controllers, on the same thread, must be able to go on.
                        tracing::warn!(%error, "a connection to the port for metrics and readiness is not accepted");
                        sleep(ACCEPT_AGAIN).await;
                        continue;
                    }
                },
            };
            let (router, tls, shutdown) = (router.clone(), self.tls.clone(), shutdown.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    served = connection(stream, router, tls) => if let Err(error) = served {
                        tracing::debug!(%error, "admin connection");
                    },
                }
            });
        }
        while connections.join_next().await.is_some() {}
    }
}

async fn connection(stream: TcpStream, router: Router, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    match tls {
        Some(tls) if first[0] == TLS_HANDSHAKE => {
            speak(TlsAcceptor::from(tls).accept(stream).await?, router).await
        }
        _ => speak(stream, router).await,
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
) -> io::Result<()> {
    let service = TowerToHyperService::new(router);
    Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

fn router(shown: Shown) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(shown)
}

async fn readyz(State(shown): State<Shown>) -> (StatusCode, String) {
    let pending = shown.readiness.pending();
    if pending.is_empty() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}\n", pending.join(", ")))
    }
}

async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    let mut text = String::new();
    match encode(&mut text, &shown.metrics.read()) {
        Ok(()) => (StatusCode::OK, [("content-type", METRICS_TYPE)], text),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, [("content-type", "text/plain")], error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_and_metrics_are_shown_until_the_end() {
        let bound = bind(Ipv4Addr::LOCALHOST.into(), 0, None).await.unwrap();
        let (address, shutdown) = (bound.address(), CancellationToken::new());
        let shown = Shown { readiness: Readiness::default(), metrics: Arc::default() };
        let caches = shown.readiness.wait_for("caches");
        let serving = tokio::spawn(bound.serve(shown, shutdown.clone()));
        let early = ask(address, "/readyz").await;
        assert!(early.starts_with("HTTP/1.1 503") && early.contains("waiting for caches"), "{early}");
        drop(caches);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/metrics").await.contains("# EOF"));
        let taken = bind(address.ip(), address.port(), None).await.unwrap_err().to_string();
        assert!(taken.contains("--secure-port"), "{taken}");
        shutdown.cancel();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn no_address_is_every_address_of_both_families() {
        for ip in ["0.0.0.0", "::"] {
            let bound = bind(ip.parse().unwrap(), 0, None).await.unwrap();
            let port = bound.address().port();
            let shown = Shown { readiness: Readiness::default(), metrics: Arc::default() };
            let both = bound.address().is_ipv6();
            let serving = tokio::spawn(bound.serve(shown, CancellationToken::new()));
            assert!(ask((Ipv4Addr::LOCALHOST, port).into(), "/livez").await.ends_with("ok"));
            // A machine without IPv6 has no such address.
            if both && std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
                assert!(ask((Ipv6Addr::LOCALHOST, port).into(), "/livez").await.ends_with("ok"));
            }
            serving.abort();
        }
    }
}
