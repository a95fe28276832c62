//! The paths of `agnhost netexec`, as its documentation has them.

use std::{collections::HashMap, net::SocketAddr, process::Stdio, sync::atomic::Ordering, time::Duration};

use axum::{
    Json,
    body::to_bytes,
    extract::{Query, Request},
    http::{StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::sleep};

use super::{ContainerServer, OUTPUT, dial, when};
use crate::{duration, exec, upload};

/// Answers a request.
pub(super) async fn answer(server: &ContainerServer, peer: SocketAddr, request: Request) -> Response {
    if let Some(to) = &server.listen.instead
        && let Ok(to) = to.parse()
    {
        return at(server, peer, request, &to).await;
    }
    let to = request.uri().clone();
    at(server, peer, request, &to).await
}

async fn at(server: &ContainerServer, peer: SocketAddr, request: Request, to: &Uri) -> Response {
    let query = Query::<HashMap<String, String>>::try_from_uri(to);
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let code = |default| code(of("code"), default);
    match to.path() {
        "/upload" => upload(server, request).await,
        "/" => format!("NOW: {}", when()).into_response(),
        "/hostname" | "/hostName" => server.place.host.clone().into_response(),
        "/clientip" => peer.to_string().into_response(),
        "/serverport" => server.listen.port.to_string().into_response(),
        // Whether new connections should come.
        "/readyz" if server.ending.load(Ordering::Relaxed) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "/healthz" if !server.whole.load(Ordering::Relaxed) => {
            StatusCode::PRECONDITION_FAILED.into_response()
        }
        "/readyz" | "/healthz" => StatusCode::OK.into_response(),
        "/echo" => (code(StatusCode::OK), of("msg").to_owned()).into_response(),
        "/header" => {
            let value = request.headers().get(of("key")).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned().into_response()
        }
        "/redirect" => (code(StatusCode::FOUND), [("location", of("location").to_owned())]).into_response(),
        "/exit" => exit(server, &query),
        "/shutdown" => {
            server.exit(0);
            StatusCode::OK.into_response()
        }
        "/shell" => {
            let command = query.get("shellCommand").or(query.get("cmd")).cloned().unwrap_or_default();
            told(shell(server, &command).await)
        }
        "/dial" => {
            let (namespace, query) = (server.place.namespace.clone(), query.clone());
            let dialed = tokio::task::spawn_blocking(move || dial::dial(&namespace, &query)).await;
            told(dialed.unwrap_or_else(|error| failed(&error.to_string())))
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

fn code(text: &str, default: StatusCode) -> StatusCode {
    text.parse().ok().and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(default)
}

fn told((code, what): (StatusCode, Value)) -> Response {
    (code, what.to_string()).into_response()
}

fn failed(why: &str) -> (StatusCode, Value) {
    (StatusCode::EXPECTATION_FAILED, json!({"error": why}))
}

/// How a container is to end that was asked to.
#[derive(Debug, PartialEq, Eq)]
struct Exit {
    code: u8,
    /// How long it goes on first.
    wait: Duration,
    /// How long connections may then take to end.
    timeout: Duration,
}

impl Exit {
    fn of(query: &HashMap<String, String>) -> Option<Self> {
        let duration = |name: &str| match query.get(name).map_or("", String::as_str) {
            "" => Some(Duration::ZERO),
            text => duration::of(text),
        };
        let code = match query.get("code").map_or("", String::as_str) {
            "" => 0,
            text => text.parse::<u8>().ok().filter(|code| *code <= 127)?,
        };
        Some(Self { code, wait: duration("wait")?, timeout: duration("timeout")? })
    }
}

/// Ends the container with a code, after a while.
fn exit(server: &ContainerServer, query: &HashMap<String, String>) -> Response {
    let Some(Exit { code, wait, timeout }) = Exit::of(query) else {
        let why = "code is a number from 0 to 127, wait and timeout are durations such as 500ms or 2s\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    let server = server.clone();
    tokio::spawn(async move {
        sleep(wait).await;
        if !timeout.is_zero() {
            server.closing.cancel();
            let _ = tokio::time::timeout(timeout, server.closed.cancelled()).await;
        }
        server.exit(code.into());
    });
    StatusCode::OK.into_response()
}

/// Keeps the file of a form.
async fn upload(server: &ContainerServer, request: Request) -> Response {
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let kept = async {
        let boundary = upload::boundary(&kind).ok_or("request Content-Type isn't multipart/form-data")?;
        let form = to_bytes(request.into_body(), upload::MOST).await.map_err(|error| error.to_string())?;
        let file = upload::field(&form, boundary, "file").ok_or("the form has no field \"file\"")?;
        server.uploads.keep(file)
    };
    match kept.await {
        Ok(name) => Json(json!({"output": format!("/uploads/{name}")})).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({"error": error}))).into_response(),
    }
}

/// Runs a command in the pod; its output and how it ended.
async fn shell(server: &ContainerServer, command: &str) -> (StatusCode, Value) {
    let mut start = Command::new("/bin/sh");
    start.args(["-c", command]).kill_on_drop(true).stdin(Stdio::null());
    start.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = match exec::spawn(server.place.clone(), start).await {
        Ok(child) => child.wait_with_output().await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(output) => {
            let mut text = [output.stdout, output.stderr].concat();
            text.truncate(OUTPUT);
            let text = String::from_utf8_lossy(&text);
            if output.status.success() {
                return (StatusCode::OK, json!({"output": text}));
            }
            let error = format!("exit status {}", exec::code(output.status));
            (StatusCode::EXPECTATION_FAILED, json!({"output": text, "error": error}))
        }
        Err(error) => failed(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], Some((0, 0, 0)))]
    #[case(&[("code", "3"), ("wait", "2s"), ("timeout", "500ms")], Some((3, 2000, 500)))]
    #[case(&[("code", "128")], None)]
    #[case(&[("code", "-1")], None)]
    #[case(&[("timeout", "soon")], None)]
    #[case(&[("wait", "3")], None)]
    fn ends(#[case] query: &[(&str, &str)], #[case] expected: Option<(u8, u64, u64)>) {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let expected = expected.map(|(code, wait, timeout)| Exit {
            code,
            wait: Duration::from_millis(wait),
            timeout: Duration::from_millis(timeout),
        });
        assert_eq!(Exit::of(&query), expected);
    }
}
