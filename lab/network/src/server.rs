//! The built-in server of a pod: says who answers and notes who asked.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, Query, Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    net::{TcpListener, UdpSocket},
    sync::watch,
    task::JoinSet,
};

use crate::{
    namespace::Namespace,
    serving::{Answers, Listen, Protocol},
};

/// Paths that no pod serves, so that a probe can fail; those of the simulated nodes.
const ABSENT: [&str; 5] = ["/nope", "/missing", "/404", "/fail", "/failing"];
/// Lines of a log that are kept.
const LINES: usize = 10_000;
/// How long a dialed pod may take.
const DIAL: Duration = Duration::from_secs(5);
/// How much of a request's parameters and of a command's output is taken.
const OUTPUT: usize = 1 << 20;
const DATAGRAM: usize = 2048;

/// The lines that a pod has written.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<VecDeque<(u64, Timestamp, String)>>,
    written: watch::Sender<Written>,
}

/// How far a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// The number of the last line.
    pub last: u64,
    /// Nothing will follow.
    pub closed: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: Mutex::default(), written: watch::Sender::new(Written::default()) }
    }
}

impl Log {
    fn write(&self, line: String) {
        let mut lines = self.lines.lock();
        let number = self.written.borrow().last + 1;
        lines.push_back((number, Timestamp::now(), line));
        if lines.len() > LINES {
            lines.pop_front();
        }
        self.written.send_modify(|written| written.last = number);
    }

    /// Nothing will follow: the pod is gone.
    pub(crate) fn close(&self) {
        self.written.send_modify(|written| written.closed = true);
    }

    /// The lines after a number, and how far it is.
    pub(crate) fn after(&self, number: u64) -> (Vec<(Timestamp, String)>, Written) {
        let lines = self.lines.lock();
        let new = lines.iter().filter(|(of, ..)| *of > number);
        (new.map(|(_, time, line)| (*time, line.clone())).collect(), *self.written.borrow())
    }

    /// Tells of each new line.
    pub(crate) fn watch(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }
}

/// What the servers of a pod know.
#[derive(Debug, Clone)]
struct Pod {
    name: Arc<str>,
    log: Arc<Log>,
    namespace: Namespace,
    answers: Answers,
}

/// Listens at a pod's ports, until the set is dropped.
pub(crate) fn serve(name: &str, namespace: &Namespace, log: &Arc<Log>, listens: &[Listen]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for listen in listens {
        let pod = Pod {
            name: name.into(),
            log: Arc::clone(log),
            namespace: namespace.clone(),
            answers: listen.answers,
        };
        let started = match listen.protocol {
            Protocol::Http => http(&mut tasks, pod, listen.port),
            Protocol::Udp => udp(&mut tasks, pod, listen.port),
        };
        if let Err(error) = started {
            tracing::warn!(pod = name, port = listen.port, %error, "a pod's port is not listened at");
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

fn http(tasks: &mut JoinSet<()>, pod: Pod, port: u16) -> io::Result<()> {
    let listener = bind(&pod.namespace, port, std::net::TcpListener::bind::<SocketAddr>)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let service = Router::new().fallback(answer).with_state(pod);
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tasks.spawn(async move {
        if let Err(error) = axum::serve(listener, service).await {
            tracing::warn!(%error, port, "a pod's server ended");
        }
    });
    Ok(())
}

fn udp(tasks: &mut JoinSet<()>, pod: Pod, port: u16) -> io::Result<()> {
    let socket = bind(&pod.namespace, port, std::net::UdpSocket::bind::<SocketAddr>)?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    tasks.spawn(async move {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
            let asked = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
            let peer_shown = canonical(peer);
            pod.log.write(format!("{} {peer_shown} {asked:?} over UDP", when()));
            let said = match (pod.answers, asked.split_once(' ')) {
                (Answers::Netexec, Some(("echo", text))) => text.to_owned(),
                (Answers::Netexec, None) if asked == "clientip" => peer_shown.to_string(),
                (Answers::Hello, _) => format!("hello from {}\n", pod.name),
                _ => pod.name.to_string(),
            };
            let _ = socket.send_to(said.as_bytes(), peer).await;
        }
    });
    Ok(())
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
    State(pod): State<Pod>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let peer = canonical(peer);
    let (method, path) = (request.method(), request.uri().path());
    pod.log.write(format!("{} {peer} {method} {path}", when()));
    if ABSENT.contains(&path.trim_end_matches('/')) {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    match pod.answers {
        Answers::Hello => format!("hello from {}\n", pod.name).into_response(),
        Answers::Hostname => pod.name.to_string().into_response(),
        Answers::Netexec => netexec(&pod, peer, request).await,
    }
}

/// The paths of `agnhost netexec`, as its documentation has them.
async fn netexec(pod: &Pod, peer: SocketAddr, request: Request) -> Response {
    let query = Query::<HashMap<String, String>>::try_from_uri(request.uri());
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    match request.uri().path() {
        "/" => format!("NOW: {}", when()).into_response(),
        "/hostname" | "/hostName" => pod.name.to_string().into_response(),
        "/clientip" => peer.to_string().into_response(),
        "/healthz" => StatusCode::OK.into_response(),
        "/echo" => {
            let code = of("code").parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
            (code.unwrap_or(StatusCode::OK), of("msg").to_owned()).into_response()
        }
        "/header" => {
            let value = request.headers().get(of("key")).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned().into_response()
        }
        "/redirect" => {
            let code = of("code").parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
            let to = [("location", of("location").to_owned())];
            (code.unwrap_or(StatusCode::FOUND), to).into_response()
        }
        "/shell" => {
            let (namespace, command) = (pod.namespace.clone(), of("cmd").to_owned());
            let done = tokio::task::spawn_blocking(move || shell(&namespace, &command)).await;
            done.unwrap_or_default().into_response()
        }
        "/dial" => {
            let (namespace, query) = (pod.namespace.clone(), query.clone());
            let done = tokio::task::spawn_blocking(move || dial(&namespace, &query)).await;
            done.unwrap_or_default().into_response()
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

/// Runs a command in the pod's namespace; its output and how it ended, as JSON.
fn shell(namespace: &Namespace, command: &str) -> String {
    let ran = namespace.within(|| std::process::Command::new("/bin/sh").args(["-c", command]).output());
    match ran {
        Ok(output) => {
            let mut text = output.stdout;
            text.truncate(OUTPUT);
            let error = if output.status.success() { String::new() } else { output.status.to_string() };
            json!({"output": String::from_utf8_lossy(&text), "error": error}).to_string()
        }
        Err(error) => json!({"error": error.to_string()}).to_string(),
    }
}

/// Asks another pod, as often as is said, and tells what it answered.
fn dial(namespace: &Namespace, query: &HashMap<String, String>) -> String {
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let tries: usize = of("tries").parse().unwrap_or(1).clamp(1, 100);
    let to = of("host").trim_matches(['[', ']']).parse::<IpAddr>().ok().zip(of("port").parse::<u16>().ok());
    let Some((ip, port)) = to else {
        return json!({"errors": [format!("no address and port: {:?}, {:?}", of("host"), of("port"))]})
            .to_string();
    };
    let (mut responses, mut errors) = (Vec::new(), Vec::new());
    for _ in 0..tries {
        let udp = of("protocol") == "udp";
        let asked = namespace.within(|| {
            let to = SocketAddr::new(ip, port);
            if udp { ask_udp(to, of("request")) } else { ask_http(to, of("request")) }
        });
        match asked {
            Ok(text) => responses.push(text),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let mut answer = json!({"responses": responses});
    if !errors.is_empty() {
        answer["errors"] = json!(errors);
    }
    answer.to_string()
}

fn ask_http(to: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, DIAL)?;
    stream.set_read_timeout(Some(DIAL))?;
    let path: Uri = format!("/{}", request.trim_start_matches('/')).parse().map_err(io::Error::other)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {to}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(OUTPUT as u64).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.lines().next().unwrap_or("no answer").to_owned()))
    }
}

fn ask_udp(to: SocketAddr, request: &str) -> io::Result<String> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(DIAL))?;
    socket.send_to(request.as_bytes(), to)?;
    let mut buffer = [0; DATAGRAM];
    let (length, _) = socket.recv_from(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}
