//! `kubectl port-forward`: connections to a pod's ports, carried over the connection to the API server.
//!
//! kubectl speaks SPDY, since 1.30 inside of a WebSocket (`SPDY/3.1+portforward.k8s.io`) and before that, or when something on the way
//! takes no WebSockets, on the connection itself. Each connection is two streams that carry the same number: one for the bytes, one for what
//! went wrong. Other clients use the channels of a WebSocket, two for each port that they name at the beginning (`v4.channel.k8s.io`).

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use axum::{
    extract::{
        FromRequestParts as _, Request,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
};

use crate::{
    namespace::Namespace,
    parameters::{Parameters, refuse},
    spdy::{Outgoing, SPDY, Session, Stream, switching},
};

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const CHANNELS: [&str; 2] = ["v4.channel.k8s.io", PROTOCOL];
const CHUNK: usize = 32 * 1024;
/// Ports that one request may name.
const PORTS: usize = 100;
/// Frames of a channel that wait for the pod.
const WAITING: usize = 8;

/// Takes a request's connection over.
pub(crate) async fn upgrade(request: Request, namespace: Namespace, query: &Parameters) -> Response {
    let (mut parts, body) = request.into_parts();
    if parts
        .headers
        .get(header::UPGRADE)
        .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()))
    {
        return over_spdy(Request::from_parts(parts, body), namespace);
    }
    let ports = match ports(query) {
        Ok(ports) => ports,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "ports are forwarded over SPDY/3.1 or a WebSocket: an upgrade is missing",
        );
    };
    let upgrade = upgrade.protocols(std::iter::once(TUNNEL).chain(CHANNELS));
    match upgrade.selected_protocol().map(|chosen| chosen.as_bytes() == TUNNEL.as_bytes()) {
        Some(true) => upgrade
            .on_upgrade(move |socket| async move {
                let (near, far) = tokio::io::duplex(CHUNK);
                tokio::join!(tunnel(socket, far), serve(near, namespace));
            })
            .into_response(),
        Some(false) if !ports.is_empty() => {
            upgrade.on_upgrade(move |socket| channels(socket, namespace, ports)).into_response()
        }
        Some(false) => refuse(StatusCode::BAD_REQUEST, "query parameter \"ports\" is required"),
        None => refuse(
            StatusCode::BAD_REQUEST,
            &format!(
                "none of the protocols of the WebSocket is known here: {TUNNEL}, {}",
                CHANNELS.join(", ")
            ),
        ),
    }
}

/// The ports that a request names, in its order.
fn ports(query: &Parameters) -> Result<Vec<u16>, String> {
    let all = query.all("ports").flat_map(|text| text.split(','));
    let one = |text: &str| {
        text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("ports: {text:?} is no port"))
    };
    let ports: Vec<u16> = all.map(one).collect::<Result<_, _>>()?;
    if ports.len() > PORTS { Err(format!("ports: more than {PORTS}")) } else { Ok(ports) }
}

fn over_spdy(mut request: Request, namespace: Namespace) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(io) = upgraded.await {
            serve(TokioIo::new(io), namespace).await;
        }
    });
    switching(PROTOCOL)
}

/// Carries the bytes of a WebSocket's messages to a stream and back.
async fn tunnel(socket: WebSocket, stream: DuplexStream) {
    let (mut to, mut from) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let there = async {
        while let Some(Ok(message)) = from.next().await {
            match message {
                Message::Binary(bytes) if writer.write_all(&bytes).await.is_err() => break,
                Message::Close(_) => break,
                _ => {}
            }
        }
        let _ = writer.shutdown().await;
    };
    let back = async {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length) = reader.read(&mut buffer).await {
            if length == 0 || to.send(Message::Binary(buffer[..length].to_vec().into())).await.is_err() {
                break;
            }
        }
        let _ = to.send(Message::Close(None)).await;
    };
    // The session ends when the client does, and its last words are sent.
    tokio::join!(there, back);
}

/// Streams of connections of which the other has not come.
#[derive(Default)]
struct Halves {
    error: Option<Stream>,
    data: Option<Stream>,
}

/// Serves the streams of one client until it ends.
async fn serve<T: AsyncRead + AsyncWrite + Send + 'static>(io: T, namespace: Namespace) {
    let mut connections = JoinSet::new();
    let run = async {
        let mut session = Session::new(io)?;
        let mut halves: HashMap<String, Halves> = HashMap::new();
        while let Some(stream) = session.next().await? {
            while connections.try_join_next().is_some() {}
            let id = stream.header("requestid").or(stream.header("port")).unwrap_or_default().to_owned();
            let half = halves.entry(id.clone()).or_default();
            match stream.header("streamtype") {
                Some("error") => half.error = Some(stream),
                Some("data") => half.data = Some(stream),
                _ => stream.outgoing.finish().await,
            }
            if half.error.is_some()
                && half.data.is_some()
                && let Some(Halves { error: Some(error), data: Some(data) }) = halves.remove(&id)
            {
                connections.spawn(connect(namespace.clone(), error.outgoing, data));
            }
        }
        Ok::<_, io::Error>(())
    };
    if let Err(error) = run.await {
        tracing::debug!(%error, "a client that forwards ports was cut off");
    }
}

/// One connection: to the port that the data stream names.
async fn connect(namespace: Namespace, error: Outgoing, data: Stream) {
    let port = data.header("port").unwrap_or_default().to_owned();
    let Stream { incoming, outgoing, .. } = data;
    let done = match port.parse() {
        Ok(port) => carry(&namespace, port, incoming, &outgoing).await,
        Err(_) => Err(io::Error::other("that is no port")),
    };
    if let Err(why) = done {
        error.send(format!("error forwarding port {port} to pod: {why}").into_bytes()).await;
    }
    outgoing.finish().await;
    error.finish().await;
}

/// Where bytes from a pod go.
trait Sink {
    async fn send(&self, bytes: Vec<u8>) -> bool;
}

impl Sink for Outgoing {
    async fn send(&self, bytes: Vec<u8>) -> bool {
        Outgoing::send(self, bytes).await
    }
}

/// Carries bytes between a client and a port of the pod until the pod has sent its last.
async fn carry(
    namespace: &Namespace,
    port: u16,
    mut incoming: mpsc::Receiver<Vec<u8>>,
    outgoing: &impl Sink,
) -> io::Result<()> {
    let (mut from, mut to) = dial(namespace, port).await?.into_split();
    let there = async {
        while let Some(bytes) = incoming.recv().await {
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
        std::future::pending::<()>().await;
    };
    let back = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 || !outgoing.send(buffer[..length].to_vec()).await {
                return Ok(());
            }
        }
    };
    tokio::select! {
        () = there => Ok(()),
        done = back => done,
    }
}

/// A connection to a port inside a pod's namespace.
pub(crate) async fn dial(namespace: &Namespace, port: u16) -> io::Result<TcpStream> {
    let namespace = namespace.clone();
    let dialed = tokio::task::spawn_blocking(move || {
        namespace.within(|| {
            let to = |ip| SocketAddr::new(ip, port);
            std::net::TcpStream::connect(to(Ipv4Addr::LOCALHOST.into())).or_else(|error| {
                std::net::TcpStream::connect(to(Ipv6Addr::LOCALHOST.into())).map_err(|_| error)
            })
        })
    });
    let stream = dialed.await.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

/// A channel of a WebSocket.
struct Channel {
    number: u8,
    out: mpsc::Sender<Message>,
}

impl Sink for Channel {
    async fn send(&self, bytes: Vec<u8>) -> bool {
        let bytes = [&[self.number], bytes.as_slice()].concat();
        self.out.send(Message::Binary(bytes.into())).await.is_ok()
    }
}

/// Serves the ports by the channels of a WebSocket: two of each, whose first message is the port.
async fn channels(socket: WebSocket, namespace: Namespace, ports: Vec<u16>) {
    let (mut to, mut from) = socket.split();
    let (out, mut queue) = mpsc::channel::<Message>(WAITING);
    let mut readers = Vec::new();
    let mut connections = JoinSet::new();
    for (place, port) in (0u8..).zip(ports) {
        let (reader, incoming) = mpsc::channel(WAITING);
        readers.push(reader);
        let (namespace, out) = (namespace.clone(), out.clone());
        connections.spawn(async move {
            let data = Channel { number: place * 2, out: out.clone() };
            let error = Channel { number: place * 2 + 1, out };
            for channel in [&data, &error] {
                channel.send(port.to_le_bytes().to_vec()).await;
            }
            if let Err(why) = carry(&namespace, port, incoming, &data).await {
                error.send(format!("error forwarding port {port} to pod: {why}").into_bytes()).await;
            }
        });
    }
    drop(out);
    let heard = async {
        while let Some(Ok(message)) = from.next().await {
            match message {
                Message::Binary(bytes) => {
                    if let Some((channel, bytes)) = bytes.split_first()
                        && channel % 2 == 0
                        && let Some(reader) = readers.get(usize::from(channel / 2))
                    {
                        let _ = reader.send(bytes.to_vec()).await;
                    }
                }
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let said = async {
        while let Some(message) = queue.recv().await {
            if to.send(message).await.is_err() {
                return;
            }
        }
        let _ = to.send(Message::Close(None)).await;
    };
    tokio::select! {
        () = heard => {}
        () = said => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_query() {
        assert_eq!(ports(&Parameters::of("ports=80&ports=8080,9090")), Ok(vec![80, 8080, 9090]));
        assert_eq!(ports(&Parameters::of("")), Ok(Vec::new()));
        for wrong in ["ports=0", "ports=x", "ports=65536", &"ports=1&".repeat(PORTS + 1)] {
            assert!(ports(&Parameters::of(wrong)).is_err(), "{wrong}");
        }
    }
}
