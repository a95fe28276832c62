//! Commands over SPDY/3.1, as kubectl asks before 1.31, and when something on the way takes no WebSockets.
//!
//! The client opens a stream for each of what it has or wants, told apart by their header `streamType`: `stdin`, `stdout`, `stderr`, and
//! `error`, on which it is told how it ended (protocol `v4.channel.k8s.io`).

use std::{collections::HashMap, io, time::Duration};

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::timeout,
};

use super::{Job, Output, WAITING, work};
use crate::{
    parameters::{Parameters, refuse},
    spdy::{Outgoing, SPDY, Session, Stream, VERSION_HEADER, switching},
};

const PROTOCOL: &str = "v4.channel.k8s.io";
/// How long a client may take to open its streams.
const OPENING: Duration = Duration::from_secs(30);

/// Whether a request wants to go on in SPDY.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()))
}

/// Takes the connection over and does the job.
pub(super) fn upgrade(mut request: Request, job: Job) -> Response {
    let offered = request.headers().get_all(VERSION_HEADER).into_iter();
    let offered: Vec<&str> =
        offered.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).collect();
    if !offered.iter().any(|protocol| protocol.trim() == PROTOCOL) {
        let why = format!(
            "of the protocols for commands over SPDY only {PROTOCOL} is spoken here, which kubectl does since 1.4; offered: {}",
            offered.join(", ")
        );
        return refuse(StatusCode::FORBIDDEN, &why);
    }
    let query = Parameters::of(request.uri().query().unwrap_or_default());
    let outputs = ["stdout", "stderr"].into_iter().filter(|name| query.flag(name));
    let wanted: Vec<&str> = outputs.chain(job.takes_input().then_some("stdin")).chain(["error"]).collect();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(io) = upgraded.await else { return };
        if let Err(error) = serve(TokioIo::new(io), &wanted, job).await {
            tracing::debug!(%error, "a client of a pod's command was cut off");
        }
    });
    switching(PROTOCOL)
}

async fn serve<T: AsyncRead + AsyncWrite + Send + 'static>(
    io: T,
    wanted: &[&str],
    job: Job,
) -> io::Result<()> {
    let mut session = Session::new(io)?;
    let late = |_| {
        io::Error::new(io::ErrorKind::TimedOut, format!("not all of these streams were opened: {wanted:?}"))
    };
    let mut streams = timeout(OPENING, open(&mut session, wanted)).await.map_err(late)??;
    let mut take = |name: &str| streams.remove(name);
    let Some(errors) = take("error") else { return Ok(()) };
    let input = take("stdin").map_or_else(|| mpsc::channel(1).1, |stream| stream.incoming);
    let to = [take("stdout"), take("stderr")].map(|stream| stream.map(|stream| stream.outgoing));
    let (outputs, said) = mpsc::channel(WAITING);
    let ended = tokio::select! {
        (ended, ()) = async { tokio::join!(work(job, input, outputs), say(to, said)) } => ended,
        // Nobody listens any more.
        () = gone(&mut session) => return Ok(()),
    };
    errors.outgoing.send(ended.to_string().into_bytes()).await;
    errors.outgoing.finish().await;
    drop(streams);
    session.close().await;
    Ok(())
}

/// Takes in streams until all of these are there.
async fn open<T: AsyncRead + AsyncWrite + Send + 'static>(
    session: &mut Session<T>,
    wanted: &[&str],
) -> io::Result<HashMap<String, Stream>> {
    let mut streams = HashMap::new();
    while wanted.iter().any(|name| !streams.contains_key(*name)) {
        let Some(stream) = session.next().await? else { return Ok(HashMap::new()) };
        let kind = stream.header("streamtype").unwrap_or_default().to_owned();
        streams.insert(kind, stream);
    }
    Ok(streams)
}

/// Has what the client sends read, until it has gone.
async fn gone<T: AsyncRead + AsyncWrite + Send + 'static>(session: &mut Session<T>) {
    // Streams that come late are for sizes of a terminal, which there is not.
    while let Ok(Some(stream)) = session.next().await {
        drop(stream);
    }
}

/// Sends the outputs, and that they are at their end.
async fn say([stdout, stderr]: [Option<Outgoing>; 2], mut outputs: mpsc::Receiver<(Output, Vec<u8>)>) {
    while let Some((output, bytes)) = outputs.recv().await {
        let to = if output == Output::Stdout { &stdout } else { &stderr };
        if let Some(to) = to
            && !to.send(bytes).await
        {
            return;
        }
    }
    for stream in [stdout, stderr].into_iter().flatten() {
        stream.finish().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::Log, spdy::testing::Client};

    #[tokio::test]
    async fn a_log_is_followed_to_its_end() {
        let log = std::sync::Arc::new(Log::default());
        let (mut client, server) = Client::new();
        let serving =
            tokio::spawn(serve(server, &["stdout", "error"], Job::Follow(std::sync::Arc::clone(&log))));
        client.open(1, "error").await;
        client.open(3, "stdout").await;
        // Lines count from when the client is there.
        while log.listeners() == 0 {
            tokio::task::yield_now().await;
        }
        log.write("a line".to_owned());
        log.close();
        let status = super::super::succeeded().to_string();
        let expected = [(3, "a line\n"), (3, ""), (1, &status), (1, "")];
        assert_eq!(client.all().await, expected.map(|(stream, text)| (stream, text.to_owned())));
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_goes_ends_the_job() {
        let (mut client, server) = Client::new();
        let log = std::sync::Arc::new(Log::default());
        let serving = tokio::spawn(serve(server, &["error"], Job::Follow(log)));
        client.open(1, "error").await;
        drop(client);
        serving.await.unwrap().unwrap();
    }
}
