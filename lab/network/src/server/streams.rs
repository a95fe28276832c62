//! What a container's servers listen at: TCP as it is, TLS over it, SCTP where the kernel has it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::OnceLock,
    time::Duration,
};

use axum::serve::Listener;
use service_tls::Authority;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{namespace::Namespace, sctp};

/// How long a client may take for its first words.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that wait to be served.
const WAITING: usize = 16;

/// Both families by one socket, or IPv4 where there is nothing else.
pub(super) fn bind<T: Send>(
    namespace: &Namespace,
    port: u16,
    bind: impl Fn(SocketAddr) -> io::Result<T> + Send + Sync,
) -> io::Result<T> {
    namespace.within(|| {
        bind((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|_| bind((Ipv4Addr::UNSPECIFIED, port).into()))
    })
}

fn ready(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A listener of TCP.
pub(super) fn tcp(namespace: &Namespace, port: u16) -> io::Result<TcpListener> {
    bind(namespace, port, std::net::TcpListener::bind::<SocketAddr>).and_then(ready)
}

/// A listener of SCTP.
pub(super) fn sctp(namespace: &Namespace, port: u16) -> io::Result<TcpListener> {
    bind(namespace, port, sctp::listen).and_then(ready)
}

/// What signs the certificates of pods, which no client knows.
fn authority() -> Option<&'static Authority> {
    static AUTHORITY: OnceLock<Option<Authority>> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::generate().ok()).as_ref()
}

/// Connections in TLS, each after its handshake.
pub(super) struct Tls {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: AbortHandle,
}

impl Tls {
    /// Speaks TLS at a listener, with a certificate for these addresses and the loopback ones.
    pub(super) fn over(listener: TcpListener, addresses: &[IpAddr]) -> io::Result<Self> {
        let authority = authority().ok_or_else(|| io::Error::other("no key can be made"))?;
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let names: Vec<IpAddr> = addresses.iter().copied().chain(loopback).collect();
        let acceptor = TlsAcceptor::from(authority.server_config(&names).map_err(io::Error::other)?);
        let address = listener.local_addr()?;
        let (sender, connections) = mpsc::channel(WAITING);
        let accepting = tokio::spawn(accept(listener, acceptor, sender)).abort_handle();
        Ok(Self { address, connections, accepting })
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A handshake that takes long holds up no other one.
async fn accept(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    to: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    loop {
        let (stream, peer) = Listener::accept(&mut listener).await;
        let (acceptor, to) = (acceptor.clone(), to.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                let _ = to.send((stream, peer)).await;
            }
        });
    }
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
