//! Runs the real kubectl against a server.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// A kubectl and the server that it talks to.
#[derive(Debug, Clone)]
pub struct Kubectl {
    /// The program.
    pub program: PathBuf,
    /// The file that says where the server is.
    pub kubeconfig: PathBuf,
    /// Where it keeps what it learnt of the server.
    pub cache: PathBuf,
}

/// What a run of kubectl gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whether it says that all went well.
    pub success: bool,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// kubectl on `PATH`, and the newest where `hack/install-kubectl.sh` puts it; those that can be run.
pub async fn programs() -> Vec<PathBuf> {
    let newest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kubectl/bin/kubectl");
    let mut found = Vec::new();
    for program in [PathBuf::from("kubectl"), newest] {
        let mut command = Command::new(&program);
        command
            .args(["version", "--client"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if command.status().await.is_ok_and(|status| status.success()) {
            found.push(program);
        }
    }
    found
}

impl Kubectl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.cache).args(arguments);
        command.env_remove("KUBECONFIG").stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs it with a text as standard input.
    pub async fn run(&self, arguments: &[&str], input: &str) -> std::io::Result<Output> {
        self.run_with(arguments, input, &[]).await
    }

    /// Runs it with more environment variables.
    pub async fn run_with(
        &self,
        arguments: &[&str],
        input: &str,
        env: &[(&str, &str)],
    ) -> std::io::Result<Output> {
        let mut command = self.command(arguments);
        let mut child = command.envs(env.iter().copied()).stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl may end without reading it.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = timeout(PATIENCE, child.wait_with_output()).await??;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output { success: output.status.success(), out: text(output.stdout), err: text(output.stderr) })
    }

    /// Starts a watch and gives its lines; it ends when the lines are dropped.
    pub fn watch(&self, arguments: &[&str]) -> std::io::Result<Watched> {
        let mut child = self.command(arguments).stdin(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| std::io::Error::other("kubectl has no output"))?;
        Ok(Watched { lines: BufReader::new(stdout).lines(), _child: child })
    }
}

/// The lines of a watch.
#[derive(Debug)]
pub struct Watched {
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    _child: tokio::process::Child,
}

impl Watched {
    /// The next line, within a while.
    pub async fn line(&mut self) -> std::io::Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await??;
        line.ok_or_else(|| std::io::Error::other("the watch ended"))
    }
}
