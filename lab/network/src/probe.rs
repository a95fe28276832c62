//! Asks the probes of pods: over HTTP and TCP from the pod's node, commands inside of the pod.
//!
//! What a failed probe says is what a kubelet's Events say. When to ask, and what follows from it, is not decided here.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, header},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{net::TcpStream, process::Command, time::timeout};

use crate::{exec, follow::Pods, namespace::Namespace, place::Place, serving::container_port, tls};

/// How much of what a command prints, or a server answers, is read.
const OUTPUT: usize = 10 * 1024;
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-probe/1.36");
/// The state `SERVING` of gRPC's health protocol.
const SERVING: u8 = 1;

/// Where a probe is asked from.
struct From {
    node: Namespace,
    ip: IpAddr,
}

impl Pods {
    /// Asks the probe of a pod's container, as both stand in the pod's spec.
    ///
    /// # Errors
    /// Why it failed, in a kubelet's words.
    pub async fn probe(
        &self,
        (namespace, name): (&str, &str),
        container: &Value,
        probe: &Value,
    ) -> Result<(), String> {
        let seconds = probe.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(1).max(1);
        let patience = Duration::from_secs(seconds);
        let of = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let reached = timeout(patience, self.reached((namespace, name), of)).await;
        let (node, ip) = reached.ok().flatten().ok_or("the container does not run")?;
        if let Some(command) = probe.pointer("/exec/command").and_then(Value::as_array) {
            let command: Vec<&str> = command.iter().filter_map(Value::as_str).collect();
            let place = self.place(namespace, name, of).ok_or("the container does not run")?;
            return execute(place, &command, patience).await;
        }
        let from = From { node, ip };
        if let Some(get) = probe.get("httpGet") {
            http(&from, get, container, patience).await
        } else if let Some(socket) = probe.get("tcpSocket") {
            let to = address(&from, socket, container)?;
            dial(&from.node, to, patience).await.map(|_| ())
        } else if let Some(asked) = probe.get("grpc") {
            grpc(&from, asked, patience).await
        } else {
            Err("missing probe handler".to_owned())
        }
    }
}

/// Where a handler of HTTP or TCP is asked: its host, or the pod's address, and its port by number or name.
fn address(from: &From, handler: &Value, container: &Value) -> Result<SocketAddr, String> {
    let port = container_port(container, &handler["port"]).ok_or_else(|| {
        let port = handler["port"].as_str().unwrap_or_default();
        format!("couldn't find port: {port} in container")
    })?;
    let host = handler.get("host").and_then(Value::as_str).filter(|host| !host.is_empty());
    let ip = host
        .map_or(Ok(from.ip), str::parse)
        .map_err(|_| "the host of a probe is an address here".to_owned())?;
    Ok(SocketAddr::new(ip, port))
}

async fn dial(node: &Namespace, to: SocketAddr, patience: Duration) -> Result<TcpStream, String> {
    let node = node.clone();
    let dialed = tokio::task::spawn_blocking(move || {
        node.within(|| std::net::TcpStream::connect_timeout(&to, patience))
    });
    let ready = |stream: std::net::TcpStream| {
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    };
    let stream = dialed.await.map_err(io::Error::other).and_then(|stream| stream.and_then(ready));
    stream.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {to}: connect: connection refused"),
        io::ErrorKind::HostUnreachable => format!("dial tcp {to}: connect: no route to host"),
        io::ErrorKind::TimedOut => format!("dial tcp {to}: i/o timeout"),
        _ => format!("dial tcp {to}: {error}"),
    })
}

async fn http(from: &From, get: &Value, container: &Value, patience: Duration) -> Result<(), String> {
    let to = address(from, get, container)?;
    let path = get.get("path").and_then(Value::as_str).filter(|path| !path.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let secure = get["scheme"] == "HTTPS";
    let scheme = if secure { "https" } else { "http" };
    let url = format!("Get \"{scheme}://{to}{slash}{path}\"");
    let mut request = Request::get(format!("{slash}{path}")).header(header::HOST, to.to_string());
    request = request.header(header::USER_AGENT, USER_AGENT).header(header::ACCEPT, "*/*");
    let mut request = request
        .header(header::CONNECTION, "close")
        .body(Body::empty())
        .map_err(|error| format!("{url}: {error}"))?;
    for given in get.get("httpHeaders").and_then(Value::as_array).into_iter().flatten() {
        let text = |field: &str| given.get(field).and_then(Value::as_str).unwrap_or_default();
        if let (Ok(name), Ok(value)) =
            (text("name").parse::<HeaderName>(), text("value").parse::<HeaderValue>())
        {
            request.headers_mut().insert(name, value);
        }
    }
    let asked = async {
        let stream = dial(&from.node, to, patience).await.map_err(|why| format!("{url}: {why}"))?;
        let stream =
            tls::connection(stream, to.ip(), secure).await.map_err(|error| format!("{url}: {error}"))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| format!("{url}: {error}"))?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        sender.send_request(request).await.map_err(|error| format!("{url}: {error}"))
    };
    let late =
        |_| format!("{url}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)");
    let code = timeout(patience, asked).await.map_err(late)??.status();
    if code.is_success() || code.is_redirection() {
        return Ok(());
    }
    Err(format!("HTTP probe failed with statuscode: {}", code.as_u16()))
}

/// Asks by gRPC's health protocol.
async fn grpc(from: &From, asked: &Value, patience: Duration) -> Result<(), String> {
    let port = asked.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    let to = SocketAddr::new(from.ip, port.unwrap_or_default());
    let service = asked.get("service").and_then(Value::as_str).unwrap_or_default();
    let late = |_| {
        format!(
            "timeout: failed to connect service {:?} within {}s: context deadline exceeded",
            to.to_string(),
            patience.as_secs()
        )
    };
    match timeout(patience, health(&from.node, to, service, patience)).await.map_err(late)? {
        Ok(SERVING) => Ok(()),
        Ok(_) => Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
        Err(why) => Err(why),
    }
}

async fn health(node: &Namespace, to: SocketAddr, service: &str, patience: Duration) -> Result<u8, String> {
    let stream = dial(node, to, patience).await?;
    let failed = |error: hyper::Error| format!("error: health rpc failed: {error}");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let request = Request::post(format!("http://{to}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, USER_AGENT)
        .body(Full::<bytes::Bytes>::from(health_request(service)))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(failed)?;
    let read = Limited::new(response.into_body(), OUTPUT).collect().await;
    let read = read.map_err(|error| format!("error: health rpc failed: {error}"))?.to_bytes();
    Ok(health_answer(&read))
}

/// A message of gRPC (a flag and a length before it) with the name of a service, the field 1.
fn health_request(service: &str) -> Vec<u8> {
    let name: Vec<u8> = service.bytes().take(127).collect();
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    let message =
        if name.is_empty() { Vec::new() } else { [&[0x0a, length(&name)], name.as_slice()].concat() };
    [&[0, 0, 0, 0, length(&message)], message.as_slice()].concat()
}

/// The state that an answer tells, the field 1; 0 if it tells none.
fn health_answer(bytes: &[u8]) -> u8 {
    match bytes {
        [0, _, _, _, _, 0x08, state, ..] => *state,
        _ => 0,
    }
}

/// Runs a command in the pod.
async fn execute(place: Place, command: &[&str], patience: Duration) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("the probe has no command".to_owned());
    };
    let mut start = Command::new(program);
    start.args(arguments).kill_on_drop(true).stdin(std::process::Stdio::null());
    start.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = exec::spawn(place, start).await.map_err(|error| format!("command not started: {error}"))?;
    match timeout(patience, child.wait_with_output()).await {
        Err(_) => {
            Err(format!("command timed out: {:?} timed out after {}s", command.join(" "), patience.as_secs()))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let mut text = [output.stdout, output.stderr].concat();
            text.truncate(OUTPUT);
            Err(String::from_utf8_lossy(&text).into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_health_protocol() {
        assert_eq!(health_request(""), [0, 0, 0, 0, 0]);
        assert_eq!(health_request("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(health_answer(&[0, 0, 0, 0, 2, 0x08, 1]), SERVING);
        assert_eq!(health_answer(&[0, 0, 0, 0, 2, 0x08, 2]), 2);
        assert_eq!(health_answer(&[0, 0, 0, 0, 0]), 0);
    }
}
