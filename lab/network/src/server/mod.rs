//! The built-in server of a container: says who answers and notes who asked.

mod dial;
mod netexec;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, atomic::AtomicBool},
};

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, UdpSocket},
    sync::mpsc,
    task::JoinSet,
};

use crate::{
    exec::Place,
    log::Log,
    namespace::Namespace,
    serving::{Answers, Listen, Protocol},
};

/// Paths that no pod serves, so that a probe can fail; those of the simulated nodes.
const ABSENT: [&str; 5] = ["/nope", "/missing", "/404", "/fail", "/failing"];
/// How much of what is asked or run is read.
const OUTPUT: usize = 1 << 20;
const DATAGRAM: usize = 2048;

/// A container that has ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exited {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Its own name.
    pub container: String,
    /// Its exit code.
    pub code: i64,
}

/// A container, as its servers know it.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// Where its commands run.
    pub place: Place,
    /// The pod's namespace in the API.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// Its own.
    pub container: Arc<str>,
    /// What the pod writes.
    pub log: Arc<Log>,
    /// The pod has been told to end.
    pub ending: Arc<AtomicBool>,
    /// Who is told when it ends.
    pub exits: mpsc::UnboundedSender<Exited>,
}

/// The server of one of its ports.
#[derive(Debug, Clone)]
struct ContainerServer {
    of: Served,
    listen: Arc<Listen>,
}

impl std::ops::Deref for ContainerServer {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.of
    }
}

impl ContainerServer {
    /// Ends the container: its ports are closed when that is known of it.
    fn exit(&self, code: i64) {
        let text = |of: &Arc<str>| of.to_string();
        let (namespace, pod, container) = (text(&self.namespace), text(&self.name), text(&self.container));
        let _ = self.exits.send(Exited { namespace, pod, container, code });
    }
}

/// Listens at a container's ports, until the set is dropped.
pub(crate) fn serve(of: &Served, listens: Vec<Listen>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for listen in listens {
        let port = listen.port;
        let protocol = listen.protocol;
        let server = ContainerServer { of: of.clone(), listen: Arc::new(listen) };
        let started = match protocol {
            Protocol::Http => http(&mut tasks, server),
            Protocol::Tcp => tcp(&mut tasks, server),
            Protocol::Udp => udp(&mut tasks, server),
        };
        if let Err(error) = started {
            tracing::warn!(pod = %of.name, port, %error, "a pod's port is not listened at");
        }
    }
    tasks
}

/// Both families by one socket, or IPv4 where there is nothing else.
fn bind<T: Send>(
    namespace: &Namespace,
    port: u16,
    bind: impl Fn(SocketAddr) -> io::Result<T> + Send + Sync,
) -> io::Result<T> {
    namespace.within(|| {
        bind((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|_| bind((Ipv4Addr::UNSPECIFIED, port).into()))
    })
}

fn listener(server: &ContainerServer) -> io::Result<TcpListener> {
    let listener =
        bind(&server.place.namespace, server.listen.port, std::net::TcpListener::bind::<SocketAddr>)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn http(tasks: &mut JoinSet<()>, server: ContainerServer) -> io::Result<()> {
    let listener = listener(&server)?;
    let port = server.listen.port;
    let service = Router::new().fallback(answer).with_state(server);
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tasks.spawn(async move {
        if let Err(error) = axum::serve(listener, service).await {
            tracing::warn!(%error, port, "a pod's server ended");
        }
    });
    Ok(())
}

fn tcp(tasks: &mut JoinSet<()>, server: ContainerServer) -> io::Result<()> {
    let listener = listener(&server)?;
    tasks.spawn(async move {
        loop {
            let Ok((mut stream, peer)) = listener.accept().await else { continue };
            server.log.write(format!("{} {} connected", when(), canonical(peer)));
            let _ = stream.write_all(server.place.host.as_bytes()).await;
        }
    });
    Ok(())
}

fn udp(tasks: &mut JoinSet<()>, server: ContainerServer) -> io::Result<()> {
    let socket = bind(&server.place.namespace, server.listen.port, std::net::UdpSocket::bind::<SocketAddr>)?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    tasks.spawn(async move {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
            let asked = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
            let peer_shown = canonical(peer);
            server.log.write(format!("{} {peer_shown} {asked:?} over UDP", when()));
            let said =
                to_datagram(&server.listen.answers, (&server.name, &server.place.host), &asked, peer_shown);
            let _ = socket.send_to(said.as_bytes(), peer).await;
        }
    });
    Ok(())
}

/// The answer to a datagram, of a pod with this name and this host name.
fn to_datagram(answers: &Answers, (name, host): (&str, &str), asked: &str, peer: SocketAddr) -> String {
    match (answers, asked.split_once(' ')) {
        (Answers::Netexec, Some((command, text))) if command.eq_ignore_ascii_case("echo") => text.to_owned(),
        (Answers::Netexec, None) if asked.eq_ignore_ascii_case("clientip") => peer.to_string(),
        (Answers::Hello, _) => format!("hello from {name}\n"),
        (Answers::Text(text), _) => text.clone(),
        _ => host.to_owned(),
    }
}

/// An address as it is on the wire, not as a socket for both families has it.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// The time at the beginning of a line.
fn when() -> String {
    jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S").to_string()
}

async fn answer(
    State(server): State<ContainerServer>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let peer = canonical(peer);
    let (method, path) = (request.method(), request.uri().path());
    server.log.write(format!("{} {peer} {method} {path}", when()));
    if ABSENT.contains(&path.trim_end_matches('/')) {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    match &server.listen.answers {
        Answers::Hello => format!("hello from {}\n", server.name).into_response(),
        Answers::Hostname => server.place.host.clone().into_response(),
        Answers::Text(text) => text.clone().into_response(),
        Answers::Netexec => netexec::answer(&server, peer, request).await,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Answers::Netexec, "hostname", "h")]
    #[case(Answers::Netexec, "hostName", "h")]
    #[case(Answers::Netexec, "echo some text", "some text")]
    #[case(Answers::Netexec, "clientip", "10.0.0.1:9")]
    #[case(Answers::Hostname, "whatever", "h")]
    #[case(Answers::Hello, "whatever", "hello from p\n")]
    #[case(Answers::Text("always".to_owned()), "whatever", "always")]
    fn datagrams(#[case] answers: Answers, #[case] asked: &str, #[case] said: &str) {
        assert_eq!(to_datagram(&answers, ("p", "h"), asked, "10.0.0.1:9".parse().unwrap()), said);
    }
}
