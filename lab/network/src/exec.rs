//! Commands of the machine inside a pod's namespace, over the WebSocket protocol of `kubectl exec`.
//!
//! A message begins with the number of its channel: 0 is the input, 1 and 2 are the outputs, 3 says how it ended, 255 closes a
//! channel (protocol `v5.channel.k8s.io`). There is no terminal: a command that is asked for with one has pipes too.

use std::{fs, io, path::Path, process::Stdio};

use axum::{
    extract::{
        FromRequestParts as _, Request,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

use crate::{
    leftovers::MARKS,
    namespace::Namespace,
    parameters::{Parameters, refuse},
};

const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ENDED: u8 = 3;
const CLOSE: u8 = 255;
const CHUNK: usize = 16 * 1024;
const LONGEST_HOST_NAME: usize = 63;
const RESOLVER: &str = "/etc/resolv.conf";

/// Where a command runs.
#[derive(Debug)]
pub(crate) struct Place {
    /// The pod's namespace.
    pub namespace: Namespace,
    /// The pod's name.
    pub pod: String,
    /// What it has as `/etc/resolv.conf`; none for the machine's.
    pub resolver: Option<String>,
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
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade.protocols(PROTOCOLS).on_upgrade(move |socket| run(socket, place, wanted)),
        // Older clients ask by SPDY.
        Err(_) => refuse(
            StatusCode::BAD_REQUEST,
            "commands in pods are run over WebSockets, which kubectl does since 1.31",
        )
        .into_response(),
    }
}

async fn run(mut socket: WebSocket, place: Place, wanted: Wanted) {
    let runtime = tokio::runtime::Handle::current();
    let started = tokio::task::spawn_blocking(move || {
        place.namespace.within(|| {
            let _runtime = runtime.enter();
            as_in(&place)?;
            start(&wanted)
        })
    });
    let ended = match started.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(child) => {
            let Some(ended) = attend(&mut socket, child).await else { return };
            ended
        }
        Err(error) => failure(&format!("command not started: {error}"), None),
    };
    let _ = socket.send(message(ENDED, ended.to_string().as_bytes())).await;
    // Without a code clients take the end for a failure.
    let _ =
        socket.send(Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }))).await;
}

/// The calling thread, and what it starts, has the pod's name as its host name and asks where pods ask for names.
fn as_in(place: &Place) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    nix::unistd::sethostname(&place.pod[..place.pod.len().min(LONGEST_HOST_NAME)])?;
    if let Some(text) = &place.resolver
        && fs::exists(RESOLVER)?
    {
        // A file system that only this thread and its children see, so that nothing is left of the file.
        mount(Some("tmpfs"), MARKS, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
        let file = Path::new(MARKS).join("resolv.conf");
        fs::write(&file, text)?;
        mount(Some(&file), RESOLVER, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    Ok(())
}

fn start(wanted: &Wanted) -> io::Result<Child> {
    Command::new(&wanted.program)
        .args(&wanted.arguments)
        .current_dir("/")
        .stdin(if wanted.stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
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
    Some(match status.code() {
        Some(0) => json!({"metadata": {}, "status": "Success"}),
        code => {
            let code = code.unwrap_or(137);
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
    fn an_exit_code_is_told_as_kubectl_reads_it() {
        let told = failure("x", Some(3));
        assert_eq!(told["details"]["causes"][0]["message"], "3");
        assert_eq!(told["reason"], "NonZeroExitCode");
    }
}
