//! The built-in server of a container: says who answers and notes who asked.

mod dial;
mod netexec;
mod streams;

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{ConnectInfo, Query, Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
    serve::{Listener, ListenerExt as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    log::Log,
    place::Place,
    serving::{Answers, Listen, Protocol},
    upload::Uploads,
};

/// Paths that no pod serves, so that a probe can fail; those of the simulated nodes.
const ABSENT: [&str; 5] = ["/nope", "/missing", "/404", "/fail", "/failing"];
/// How much of what is asked or run is read.
const OUTPUT: usize = 1 << 20;
const DATAGRAM: usize = 2048;
/// How long `agnhost liveness` is well.
const WELL: Duration = Duration::from_secs(10);

/// What has come to an end in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// A container, by itself.
    Container {
        /// Its name.
        name: String,
        /// Its exit code.
        code: i64,
    },
    /// The whole pod: it used more than it may. What is said of it.
    Evicted(String),
}

/// Namespace and name of a pod, and what has ended there.
pub(crate) type EndedIn = (String, String, Ended);

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
    pub exits: mpsc::UnboundedSender<EndedIn>,
    /// The pod's addresses.
    pub addresses: Vec<IpAddr>,
    /// The files that were sent to it.
    pub uploads: Uploads,
}

/// The server of one of its ports.
#[derive(Debug, Clone)]
struct ContainerServer {
    of: Served,
    listen: Arc<Listen>,
    begun: Instant,
    /// All of the container's ports are listened at.
    whole: Arc<AtomicBool>,
    /// No more connections are taken, and then: all of them have ended.
    closing: CancellationToken,
    closed: CancellationToken,
}

impl std::ops::Deref for ContainerServer {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.of
    }
}

impl Served {
    /// The container's end.
    pub(crate) fn ended(&self, code: i64) -> Ended {
        Ended::Container { name: self.container.to_string(), code }
    }

    /// Tells of an end; ports are closed when it is known.
    pub(crate) fn tell(&self, ended: Ended) {
        let _ = self.exits.send((self.namespace.to_string(), self.name.to_string(), ended));
    }
}

impl ContainerServer {
    /// Ends the container.
    fn exit(&self, code: i64) {
        self.tell(self.ended(code));
    }
}

/// Listens at a container's ports, until the set is dropped.
pub(crate) fn serve(of: &Served, listens: Vec<Listen>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (whole, begun) = (Arc::new(AtomicBool::new(true)), Instant::now());
    for listen in listens {
        let (port, protocol) = (listen.port, listen.protocol);
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let (whole, listen) = (Arc::clone(&whole), Arc::new(listen));
        let server = ContainerServer { of: of.clone(), listen, begun, whole, closing, closed };
        let namespace = of.place.namespace.clone();
        let started = match protocol {
            Protocol::Http => {
                streams::tcp(&namespace, port).map(|listener| http(&mut tasks, listener, server.clone()))
            }
            Protocol::Https => streams::tcp(&namespace, port)
                .and_then(|listener| streams::Tls::over(listener, &of.addresses))
                .map(|listener| http(&mut tasks, listener, server.clone())),
            Protocol::Tcp => streams::tcp(&namespace, port).map(|listener| {
                let server = server.clone();
                tasks.spawn(async move { tcp(listener, server).await });
            }),
            Protocol::Sctp => streams::sctp(&namespace, port).map(|listener| {
                let server = server.clone();
                tasks.spawn(async move { sctp(listener, server).await });
            }),
            Protocol::Udp => udp(&mut tasks, server.clone()),
        };
        if let Err(error) = started {
            server.whole.store(false, Ordering::Relaxed);
            of.log.write(format!("{} port {port} is not listened at: {error}", when()));
            tracing::warn!(pod = %of.name, port, %error, "a pod's port is not listened at");
        }
    }
    tasks
}

fn http<L: Listener<Addr = SocketAddr>>(tasks: &mut JoinSet<()>, listener: L, server: ContainerServer) {
    let (closing, closed) = (server.closing.clone(), server.closed.clone());
    let service = Router::new().fallback(answer).with_state(server);
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    // Whatever is done with a connection, this is how axum tells of its other end.
    let listener = listener.tap_io(|_| {});
    tasks.spawn(async move {
        let _ = axum::serve(listener, service).with_graceful_shutdown(closing.cancelled_owned()).await;
        closed.cancel();
    });
}

/// Who connects is told the host name, or cut off after a byte.
async fn tcp(listener: TcpListener, server: ContainerServer) {
    loop {
        let Ok((mut stream, peer)) = listener.accept().await else { continue };
        server.log.write(format!("{} {} connected", when(), canonical(peer)));
        match server.listen.answers {
            Answers::Reset => drop(tokio::spawn(cut_off(stream))),
            _ => drop(stream.write_all(server.place.host.as_bytes()).await),
        }
    }
}

/// What is unread when a connection is closed makes the kernel reset it.
async fn cut_off(mut stream: TcpStream) {
    let _ = tokio::time::timeout(WELL, stream.read(&mut [0])).await;
}

/// Each message of an association is answered as a datagram is.
async fn sctp(listener: TcpListener, server: ContainerServer) {
    loop {
        let Ok((mut stream, peer)) = listener.accept().await else { continue };
        let (server, peer) = (server.clone(), canonical(peer));
        tokio::spawn(async move {
            let mut buffer = vec![0; DATAGRAM];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                if stream
                    .write_all(said_to(&server, &buffer[..length], peer, "SCTP").as_bytes())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        });
    }
}

fn udp(tasks: &mut JoinSet<()>, server: ContainerServer) -> io::Result<()> {
    let socket =
        streams::bind(&server.place.namespace, server.listen.port, std::net::UdpSocket::bind::<SocketAddr>)?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    tasks.spawn(async move {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
            let said = said_to(&server, &buffer[..length], canonical(peer), "UDP");
            let _ = socket.send_to(said.as_bytes(), peer).await;
        }
    });
    Ok(())
}

/// The answer to a message, which is noted.
fn said_to(server: &ContainerServer, asked: &[u8], peer: SocketAddr, transport: &str) -> String {
    let asked = String::from_utf8_lossy(asked).trim().to_owned();
    server.log.write(format!("{} {peer} {asked:?} over {transport}", when()));
    to_datagram(&server.listen.answers, (&server.name, &server.place.host), &asked, peer)
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
        Answers::Liveness => liveness(server.begun.elapsed()).into_response(),
        Answers::NoSnat => no_snat(&server, peer, request.uri()).await,
        Answers::Reset => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What `agnhost no-snat-test` answers.
async fn no_snat(server: &ContainerServer, peer: SocketAddr, to: &Uri) -> Response {
    match to.path() {
        "/whoami" => peer.ip().to_string().into_response(),
        "/checknosnat" => {
            let query = Query::<HashMap<String, String>>::try_from_uri(to).map(|Query(query)| query);
            let ips = query.ok().and_then(|mut query| query.remove("ips")).unwrap_or_default();
            let (of, port) = (server.of.clone(), server.listen.port);
            let asked = move || dial::seen_with_own_address(&of.place.namespace, &of.addresses, &ips, port);
            match tokio::task::spawn_blocking(asked).await {
                Ok(Ok(())) => StatusCode::OK.into_response(),
                Ok(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
            }
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

/// What `agnhost liveness` answers to `/healthz`, or to anything, after so long.
fn liveness(after: Duration) -> (StatusCode, String) {
    if after > WELL {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("error: {}", after.as_secs_f64()))
    } else {
        (StatusCode::OK, "ok".to_owned())
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

    #[test]
    fn liveness_ends_after_ten_seconds() {
        assert_eq!(liveness(WELL).0, StatusCode::OK);
        assert_eq!(liveness(WELL + Duration::from_millis(1)).0, StatusCode::INTERNAL_SERVER_ERROR);
    }
}
