//! The port for people and scrapers: `/livez`, `/readyz`, `/metrics`, `/debug`. It answers TLS only, and who asks
//! needs the right to, as at kube-controller-manager's secure port.
//!
//! Owns the listener and its connections; `routes` has what is served, `access` who may have it.

mod access;
mod certificate;
mod routes;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use access::Access;
pub use certificate::{Certificate, CertificateError};
pub use routes::Shown;

/// After a connection could not be accepted, the next one is waited for after so long.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// While connections cannot be accepted, that is told so often.
const REMIND: Duration = Duration::from_mins(1);
/// A client that does not finish its handshake by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
/// What a client gets that does not speak TLS, in the words of Go's server.
const NO_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A port that is bound and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    address: SocketAddr,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another with {flag}")]
pub struct BindError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Binds the port. `0.0.0.0` and `::` both mean all addresses of both families, as for kube-controller-manager; where the
/// system knows one family only, those of that.
pub async fn bind(ip: IpAddr, port: u16, tls: Arc<ServerConfig>) -> Result<Bound, BindError> {
    const FLAG: &str = "--secure-port";
    let listener = listen(ip, port, FLAG).await?;
    let failed = |source| BindError { flag: FLAG, address: SocketAddr::new(ip, port), source };
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, tls, address })
}

/// Binds a port as [`bind`] does; `flag` is the one that names it.
pub(crate) async fn listen(ip: IpAddr, port: u16, flag: &'static str) -> Result<TcpListener, BindError> {
    let address = SocketAddr::new(ip, port);
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
    listener.map_err(|source| BindError { flag, address, source })
}

impl Bound {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the token is cancelled, then ends the open connections.
    pub async fn serve(self, shown: Shown, shutdown: CancellationToken) {
        let (router, acceptor) = (routes::router(shown), TlsAcceptor::from(self.tls));
        let (mut connections, mut told) = (JoinSet::new(), None);
        loop {
            let stream = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: the controllers, on the same thread, must be able to go on.
                        if told.is_none_or(|told: Instant| told.elapsed() >= REMIND) {
                            told = Some(Instant::now());
                            tracing::warn!(%error, "a connection to the port for metrics and readiness is not accepted");
                        }
                        sleep(ACCEPT_AGAIN).await;
                        continue;
                    }
                },
            };
            let (router, acceptor, shutdown) = (router.clone(), acceptor.clone(), shutdown.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    served = connection(stream, router, acceptor) => if let Err(error) = served {
                        tracing::debug!(%error, "admin connection");
                    },
                }
            });
        }
        while connections.join_next().await.is_some() {}
    }
}

async fn connection(mut stream: TcpStream, router: Router, acceptor: TlsAcceptor) -> io::Result<()> {
    let greeted = async {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0] == TLS_HANDSHAKE {
            return acceptor.accept(stream).await.map(Some);
        }
        stream.write_all(NO_TLS).await?;
        stream.shutdown().await.map(|()| None)
    };
    let Some(stream) = timeout(HANDSHAKE, greeted).await.map_err(io::Error::other)?? else { return Ok(()) };
    let service = TowerToHyperService::new(router);
    Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
