//! Commands over a WebSocket, as kubectl asks since 1.31.
//!
//! A message begins with the number of its channel: 0 is the input, 1 and 2 are the outputs, 3 says how it ended, 255 closes a
//! channel (protocol `v5.channel.k8s.io`).

use axum::{
    extract::{
        FromRequestParts as _, Request,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::sync::mpsc;

use super::{Job, Output, WAITING, work};
use crate::parameters::refuse;

const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ENDED: u8 = 3;
const CLOSE: u8 = 255;

/// Takes the connection over and does the job.
pub(super) async fn upgrade(request: Request, job: Job) -> Response {
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => {
            upgrade.protocols(PROTOCOLS).on_upgrade(move |socket| serve(socket, job)).into_response()
        }
        Err(_) => refuse(
            StatusCode::BAD_REQUEST,
            "pods are reached over a WebSocket (kubectl since 1.31) or SPDY/3.1 (older ones): an upgrade is missing",
        ),
    }
}

async fn serve(socket: WebSocket, job: Job) {
    let (mut to, from) = socket.split();
    let (input, heard) = mpsc::channel(WAITING);
    let (outputs, said) = mpsc::channel(WAITING);
    let done = async { tokio::join!(work(job, heard, outputs), say(&mut to, said)).0 };
    let ended = tokio::select! {
        ended = done => ended,
        // Nobody listens any more.
        () = hear(from, input) => return,
    };
    let _ = to.send(message(ENDED, ended.to_string().as_bytes())).await;
    // Without a code clients take the end for a failure.
    let normal = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = to.send(Message::Close(Some(normal))).await;
}

/// Sends the outputs.
async fn say(to: &mut (impl Sink<Message> + Unpin), mut outputs: mpsc::Receiver<(Output, Vec<u8>)>) {
    while let Some((output, bytes)) = outputs.recv().await {
        let channel = if output == Output::Stdout { STDOUT } else { STDERR };
        if to.send(message(channel, &bytes)).await.is_err() {
            return;
        }
    }
}

/// Takes in what the client says, until it has gone.
async fn hear(
    mut from: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
    input: mpsc::Sender<Vec<u8>>,
) {
    let mut input = Some(input);
    while let Some(Ok(said)) = from.next().await {
        match said {
            Message::Close(_) => return,
            Message::Binary(bytes) => match bytes.split_first() {
                Some((&STDIN, bytes)) => {
                    if let Some(input) = &input {
                        // What the command does not read any more is of no use.
                        let _ = input.send(bytes.to_vec()).await;
                    }
                }
                Some((&CLOSE, [STDIN])) => input = None,
                _ => {}
            },
            _ => {}
        }
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut all = Vec::with_capacity(bytes.len() + 1);
    all.push(channel);
    all.extend_from_slice(bytes);
    Message::Binary(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_client_sends_input_and_its_end() {
        let binary = |bytes: &[u8]| Ok(Message::Binary(bytes.to_vec().into()));
        let said =
            [binary(&[STDIN, b'a']), binary(&[9, b'x']), binary(&[CLOSE, STDIN]), binary(&[STDIN, b'b'])];
        let (input, mut heard) = mpsc::channel(WAITING);
        hear(futures::stream::iter(said), input).await;
        assert_eq!(heard.recv().await, Some(vec![b'a']));
        assert_eq!(heard.recv().await, None);
    }
}
