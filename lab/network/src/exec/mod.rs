//! Commands of the machine inside a pod's namespace, over the WebSocket protocol of `kubectl exec`.
//!
//! A message begins with the number of its channel: 0 is the input, 1 and 2 are the outputs, 3 says how it ended, 255 closes a
//! channel (protocol `v5.channel.k8s.io`). There is no terminal: a command that is asked for with one has pipes too.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use axum::{
    extract::{
        FromRequestParts as _, Request,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

use crate::{
    log::Log,
    namespace::Namespace,
    parameters::{Parameters, refuse},
    sight,
};

const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ENDED: u8 = 3;
const CLOSE: u8 = 255;
const CHUNK: usize = 16 * 1024;

/// Where a command runs.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The pod's namespace.
    pub namespace: Namespace,
    /// The pod's host name.
    pub host: String,
    /// What it has as `/etc/resolv.conf`; none for the machine's.
    pub resolver: Option<String>,
    /// The image of the container.
    pub image: String,
}

/// A command that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    program: String,
    arguments: Vec<String>,
    stdin: bool,
}

impl Wanted {
    /// Reads the parameters of a request.
    pub(crate) fn of(query: &Parameters) -> Result<Self, String> {
        let mut words = query.all("command").map(str::to_owned);
        let program = words.next().filter(|word| !word.is_empty());
        let program = program.ok_or("you must specify at least 1 command for the container")?;
        Ok(Self { program, arguments: words.collect(), stdin: query.flag("stdin") })
    }
}

/// Takes the connection over and runs the command.
pub(crate) async fn upgrade(request: Request, place: Place, wanted: Wanted) -> Response {
    match taken_over(request).await {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| run(socket, place, wanted)),
        Err(refusal) => refusal,
    }
}

/// Takes the connection over and sends what the pod writes from now on.
pub(crate) async fn attach(request: Request, log: Arc<Log>) -> Response {
    match taken_over(request).await {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| tell(socket, log)),
        Err(refusal) => refusal,
    }
}

async fn taken_over(request: Request) -> Result<WebSocketUpgrade, Response> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    // Older clients ask by SPDY.
    let refusal = |_| {
        let why = "commands in pods are run over WebSockets, which kubectl does since 1.31";
        refuse(StatusCode::BAD_REQUEST, why).into_response()
    };
    upgrade.map(|upgrade| upgrade.protocols(PROTOCOLS)).map_err(refusal)
}

async fn tell(mut socket: WebSocket, log: Arc<Log>) {
    let mut watched = log.watch();
    let mut last = log.after(0).1.last;
    loop {
        let (new, written) = log.after(last);
        last = written.last;
        for (_, line) in new {
            if socket.send(message(STDOUT, format!("{line}\n").as_bytes())).await.is_err() {
                return;
            }
        }
        if written.closed {
            return end(socket, &succeeded()).await;
        }
        tokio::select! {
            changed = watched.changed() => if changed.is_err() { return },
            said = socket.recv() => if !matches!(said, Some(Ok(message)) if !matches!(message, Message::Close(_))) { return },
        }
    }
}

async fn run(mut socket: WebSocket, place: Place, wanted: Wanted) {
    let ended = match spawn(place, command(&wanted)).await {
        Ok(child) => {
            let Some(ended) = attend(&mut socket, child).await else { return };
            ended
        }
        Err(error) => failure(&format!("command not started: {error}"), None),
    };
    end(socket, &ended).await;
}

async fn end(mut socket: WebSocket, ended: &Value) {
    let _ = socket.send(message(ENDED, ended.to_string().as_bytes())).await;
    // Without a code clients take the end for a failure.
    let _ =
        socket.send(Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }))).await;
}

/// Starts a program in a pod.
pub(crate) async fn spawn(place: Place, mut command: Command) -> io::Result<Child> {
    let runtime = tokio::runtime::Handle::current();
    let started = tokio::task::spawn_blocking(move || {
        place.namespace.within(|| {
            let _runtime = runtime.enter();
            let path = sight::take(&place.host, place.resolver.as_deref(), &place.image)?;
            command.env("PATH", path).current_dir("/").spawn()
        })
    });
    started.await.map_err(io::Error::other)?
}

fn command(wanted: &Wanted) -> Command {
    let mut command = Command::new(&wanted.program);
    command
        .args(&wanted.arguments)
        .stdin(if wanted.stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Carries input and output until the command has ended; how it did. None if nobody listens any more: then it is killed.
async fn attend(socket: &mut WebSocket, mut child: Child) -> Option<Value> {
    let (sender, mut output) = mpsc::channel(4);
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(carry(STDOUT, stdout, sender.clone()));
    }
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(carry(STDERR, stderr, sender.clone()));
    }
    drop(sender);
    let mut stdin = child.stdin.take();
    loop {
        tokio::select! {
            chunk = output.recv() => match chunk {
                Some((channel, bytes)) => socket.send(message(channel, &bytes)).await.ok()?,
                // Both outputs are at their end.
                None => break,
            },
            said = socket.recv() => hear(said?.ok()?, &mut stdin).await?,
        }
    }
    let status = child.wait().await.ok()?;
    Some(match code(status) {
        0 => succeeded(),
        code => {
            failure(&format!("command terminated with non-zero exit code: exit status {code}"), Some(code))
        }
    })
}

/// Takes in what the client says; none if it has gone.
async fn hear(said: Message, stdin: &mut Option<ChildStdin>) -> Option<()> {
    let Message::Binary(bytes) = said else {
        return (!matches!(said, Message::Close(_))).then_some(());
    };
    match bytes.split_first() {
        Some((&STDIN, bytes)) => {
            if let Some(pipe) = stdin
                && pipe.write_all(bytes).await.is_err()
            {
                *stdin = None;
            }
        }
        Some((&CLOSE, [STDIN])) => *stdin = None,
        _ => {}
    }
    Some(())
}

async fn carry(channel: u8, mut from: impl AsyncRead + Unpin, to: mpsc::Sender<(u8, Vec<u8>)>) {
    loop {
        let mut buffer = vec![0; CHUNK];
        match from.read(&mut buffer).await {
            Ok(length) if length > 0 => {
                buffer.truncate(length);
                if to.send((channel, buffer)).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut all = Vec::with_capacity(bytes.len() + 1);
    all.push(channel);
    all.extend_from_slice(bytes);
    Message::Binary(all.into())
}

/// How a program ended, as shells count it: one that a signal ended has 128 and its number.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1)
}

fn succeeded() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

/// How a command failed, as kubectl reads it.
fn failure(message: &str, code: Option<i32>) -> Value {
    match code {
        Some(code) => {
            json!({"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}})
        }
        None => {
            json!({"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_from_the_query() {
        let wanted =
            Wanted::of(&Parameters::of("command=sh&command=-c&command=echo%20a&stdin=true")).unwrap();
        assert_eq!((wanted.program.as_str(), wanted.stdin), ("sh", true));
        assert_eq!(wanted.arguments, ["-c", "echo a"]);
        assert!(Wanted::of(&Parameters::of("stdout=true")).is_err());
    }

    #[test]
    fn a_signal_is_a_code_too() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }

    #[test]
    fn an_exit_code_is_told_as_kubectl_reads_it() {
        let told = failure("x", Some(3));
        assert_eq!(told["details"]["causes"][0]["message"], "3");
        assert_eq!(told["reason"], "NonZeroExitCode");
    }
}
