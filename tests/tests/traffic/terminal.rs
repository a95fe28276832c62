//! A person with a laptop and shells on the nodes, who compares what they see with a transcript.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use service_tests::transcript::{Mismatch, compare, compare_unordered};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::person::Person;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long pods, controllers and proxies may take to do what follows from a command.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a line printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Printed {
    fn all(&self) -> String {
        format!("{}{}", self.err, self.out)
    }
}

/// Types a line in a shell.
pub(crate) async fn sh(line: &str, environment: &[(&str, String)]) -> Printed {
    sh_with(line, environment, "").await
}

async fn sh_with(line: &str, environment: &[(&str, String)], input: &str) -> Printed {
    let mut command = Command::new("sh");
    command.args(["-c", line]).envs(environment.iter().map(|(name, value)| (*name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Printed { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
}

/// Where lines are typed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    Laptop,
    Node(u8),
}

pub(crate) struct Laptop {
    pub(crate) person: Person,
    environment: Vec<(&'static str, String)>,
    _dir: TempDir,
}

/// The laptop, and the nodes behind it.
pub(crate) struct Terminal {
    pub(crate) laptop: Laptop,
    id: u32,
}

impl Terminal {
    /// Starts a lab with more arguments.
    pub(crate) async fn start(program: PathBuf, more: &[&str]) -> Self {
        let arguments = [&["--nodes", "3", "--network"], more].concat();
        let person = Person::start_in(BINARY, program.clone(), &["10.96.0.0/12"], &arguments).await;
        let id = person.server.process.id().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let program = sh(&format!("command -v {}", program.display()), &[]).await.out;
        std::os::unix::fs::symlink(program.trim(), dir.path().join("kubectl")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = vec![
            ("PATH", format!("{}:{path}", dir.path().display())),
            ("KUBECONFIG", person.kubectl.kubeconfig.display().to_string()),
            ("KUBECACHEDIR", person.kubectl.cache.display().to_string()),
        ];
        Self { laptop: Laptop { person, environment, _dir: dir }, id }
    }

    pub(crate) async fn types(&self, at: At, line: &str, input: &str) -> Printed {
        let line = match at {
            At::Laptop => line.to_owned(),
            At::Node(number) => {
                let quoted = line.replace('\'', r"'\''");
                format!("ip netns exec scm-lab-{}-k8s-node-{number} sh -c '{quoted}'", self.id)
            }
        };
        sh_with(&line, &self.laptop.environment, input).await
    }

    /// A line on the laptop that must go well, and what it prints without the end of the line.
    pub(crate) async fn value(&self, line: &str) -> String {
        let printed = self.types(At::Laptop, line, "").await;
        assert_eq!(printed.code, Some(0), "$ {line}\n{}", printed.all());
        printed.out.trim_end().to_owned()
    }

    /// A line that ends with 0 and shows this, warnings first.
    pub(crate) async fn shows(&self, at: At, line: &str, transcript: &str) {
        self.shows_with(at, line, "", transcript).await;
    }

    /// The same with a text as standard input.
    pub(crate) async fn shows_with(&self, at: At, line: &str, input: &str, transcript: &str) {
        let printed = self.types(at, line, input).await;
        let text = printed.all();
        assert_eq!(printed.code, Some(0), "$ {line}\n{text}");
        compare(transcript, &text).unwrap_or_else(|mismatch| panic!("{mismatch} in\n$ {line}\n{text}"));
    }

    /// A line that fails, and shows this.
    pub(crate) async fn fails(&self, at: At, line: &str, transcript: &str) {
        let printed = self.types(at, line, "").await;
        let text = printed.all();
        assert_ne!(printed.code, Some(0), "$ {line}\n{text}");
        compare(transcript, &text).unwrap_or_else(|mismatch| panic!("{mismatch} in\n$ {line}\n{text}"));
    }

    /// Types a line until it shows this.
    pub(crate) async fn comes_to_show(&self, at: At, line: &str, transcript: &str) {
        self.until(at, line, |text| compare(transcript, text)).await;
    }

    /// Types a line until it shows these lines in whatever order.
    pub(crate) async fn comes_to_show_unordered(&self, at: At, line: &str, transcript: &str) {
        self.until(at, line, |text| compare_unordered(transcript, text)).await;
    }

    /// Types a line until what it prints has all of these in it; what it printed.
    pub(crate) async fn comes_to_have(&self, at: At, line: &str, parts: &[&str]) -> String {
        let missing = |text: &str| match parts.iter().find(|part| !text.contains(**part)) {
            Some(part) => Err(Mismatch::Missing((*part).to_owned())),
            None => Ok(()),
        };
        self.until(at, line, missing).await
    }

    /// Types a line until what it prints pleases.
    pub(crate) async fn until(
        &self,
        at: At,
        line: &str,
        pleases: impl Fn(&str) -> Result<(), Mismatch>,
    ) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.types(at, line, "").await.all();
            let Err(mismatch) = pleases(&text) else { return text };
            assert!(Instant::now() < deadline, "still {mismatch} in\n$ {line}\n{text}");
        }
    }
}
