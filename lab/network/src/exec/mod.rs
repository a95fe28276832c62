//! Commands of the machine inside a pod's namespace, as `kubectl exec` and `kubectl attach` ask for them.
//!
//! Owns what runs and how it ended; how a client is spoken with is [`websocket`]'s and [`spdy`]'s. There is no terminal: a command that is
//! asked for with one has pipes too.

mod spdy;
mod websocket;

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use axum::{extract::Request, response::Response};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

use crate::{log::Log, parameters::Parameters, place::Place, sight};

const CHUNK: usize = 16 * 1024;
/// Pieces of input or output that wait for who reads them.
const WAITING: usize = 4;

/// An output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    Stderr,
}

/// Where pieces of output go.
type Outputs = mpsc::Sender<(Output, Vec<u8>)>;
/// Pieces of input; it ends when the client says so.
type Input = mpsc::Receiver<Vec<u8>>;

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

/// What a client is connected with.
#[derive(Debug)]
pub(crate) enum Job {
    /// A command that runs in a pod.
    Command(Place, Wanted),
    /// What a pod writes from now on.
    Follow(Arc<Log>),
}

impl Job {
    /// Whether the client sends input.
    const fn takes_input(&self) -> bool {
        matches!(self, Self::Command(_, Wanted { stdin: true, .. }))
    }
}

/// Takes the connection over and does the job.
pub(crate) async fn upgrade(request: Request, job: Job) -> Response {
    if spdy::is_asked_for(request.headers()) {
        return spdy::upgrade(request, job);
    }
    websocket::upgrade(request, job).await
}

/// Does the job; how it ended, for the client. Dropped before, it ends the command.
async fn work(job: Job, input: Input, outputs: Outputs) -> Value {
    match job {
        Job::Follow(log) => tell(&log, &outputs).await,
        Job::Command(place, wanted) => match spawn(place, command(&wanted)).await {
            Ok(child) => attend(child, input, outputs).await,
            Err(error) => failure(&format!("command not started: {error}"), None),
        },
    }
}

/// Sends each line of a log from now on, until it is at its end or nobody listens.
async fn tell(log: &Log, outputs: &Outputs) -> Value {
    let mut watched = log.watch();
    let mut last = log.after(0).1.last;
    loop {
        let (new, written) = log.after(last);
        last = written.last;
        for (_, line) in new {
            if outputs.send((Output::Stdout, format!("{line}\n").into_bytes())).await.is_err() {
                return succeeded();
            }
        }
        if written.closed || watched.changed().await.is_err() {
            return succeeded();
        }
    }
}

/// Starts a program in a pod.
pub(crate) async fn spawn(place: Place, command: Command) -> io::Result<Child> {
    start(place, command, false).await
}

/// Starts a program in a pod that does not see what runs on the machine, does not change the machine's files, and takes all that it has started
/// with it when it ends.
pub(crate) async fn spawn_apart(place: Place, command: Command) -> io::Result<Child> {
    start(place, command, true).await
}

async fn start(place: Place, mut command: Command, apart: bool) -> io::Result<Child> {
    let runtime = tokio::runtime::Handle::current();
    let started = tokio::task::spawn_blocking(move || {
        place.namespace.within(|| {
            let _runtime = runtime.enter();
            let path = sight::take(&place, apart)?;
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

/// Carries input and output until the command has ended; how it did.
async fn attend(mut child: Child, input: Input, outputs: Outputs) -> Value {
    let (stdout, stderr, stdin) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
    let out = async { carry(Output::Stdout, stdout, &outputs).await };
    let err = async { carry(Output::Stderr, stderr, &outputs).await };
    // A command that ends before its input has done so needs no more of it.
    tokio::select! {
        _ = async { tokio::join!(out, err) } => {}
        () = async { feed(stdin, input).await; std::future::pending().await } => {}
    }
    match child.wait().await.map(code) {
        Ok(0) => succeeded(),
        Ok(code) => {
            failure(&format!("command terminated with non-zero exit code: exit status {code}"), Some(code))
        }
        Err(error) => failure(&error.to_string(), None),
    }
}

/// Gives a command its input, and its end.
async fn feed(stdin: Option<ChildStdin>, mut input: Input) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = input.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn carry(output: Output, from: Option<impl AsyncRead + Unpin>, to: &Outputs) {
    let Some(mut from) = from else { return };
    loop {
        let mut buffer = vec![0; CHUNK];
        match from.read(&mut buffer).await {
            Ok(length) if length > 0 => {
                buffer.truncate(length);
                if to.send((output, buffer)).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
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

    async fn run(line: &str, input: &[&str]) -> (Value, String) {
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        let child = command(&Wanted { program: "sh".to_owned(), arguments, stdin: true }).spawn().unwrap();
        let (outputs, mut said): (Outputs, _) = mpsc::channel(WAITING);
        let (sender, heard) = mpsc::channel(input.len() + 1);
        for text in input {
            sender.send(text.as_bytes().to_vec()).await.unwrap();
        }
        drop(sender);
        let hear = async {
            let mut all = [String::new(), String::new()];
            while let Some((output, bytes)) = said.recv().await {
                all[output as usize] += &String::from_utf8_lossy(&bytes);
            }
            all.join("|")
        };
        tokio::join!(attend(child, heard, outputs), hear)
    }

    #[tokio::test]
    async fn input_goes_in_and_outputs_come_out() {
        let (ended, said) = run("cat; echo no >&2; exit 3", &["as it", " came"]).await;
        assert_eq!(ended["details"]["causes"][0]["message"], "3");
        assert_eq!(said, "as it came|no\n");
        // One that does not read its input ends all the same.
        assert_eq!(run("exit 0", &["x"]).await, (succeeded(), "|".to_owned()));
    }
}
