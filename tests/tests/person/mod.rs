//! A person with a lab and a kubectl: types a line, sees what it prints.

use std::path::PathBuf;

use service_tests::{
    case::ServerOptions,
    kubectl::{Kubectl, Output},
    launch::{Launcher, Server},
};
use tempfile::TempDir;

/// A server and a kubectl that knows it.
pub(crate) struct Person {
    pub(crate) kubectl: Kubectl,
    pub(crate) server: Server,
    _dir: TempDir,
}

impl Person {
    /// Starts a lab with more arguments and hands its kubeconfig to a kubectl.
    pub(crate) async fn start(binary: &str, program: PathBuf, more: &[&str]) -> Self {
        Self::start_in(binary, program, &["10.96.0.0/12", "fd00:10:96::/112"], more).await
    }

    /// The same in a cluster of these Service ranges.
    pub(crate) async fn start_in(binary: &str, program: PathBuf, ranges: &[&str], more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let launcher = Launcher::Binary(binary.into());
        let options = ServerOptions {
            service_cidrs: ranges.iter().map(|range| (*range).to_owned()).collect(),
            node_port_range: "30000-32767".into(),
        };
        let more = [more, &["--kubeconfig-out", kubeconfig.to_str().unwrap()]].concat();
        let server = launcher.start(&options, &more).await.unwrap_or_else(|error| panic!("{error}"));
        let kubectl = Kubectl { program, kubeconfig, cache: dir.path().join("cache") };
        Self { kubectl, server, _dir: dir }
    }

    /// Runs a line of arguments with a text as standard input.
    pub(crate) async fn run(&self, line: &str, input: &str) -> Output {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.kubectl.run(&words, input).await.unwrap_or_else(|error| panic!("kubectl {line}: {error}"))
    }

    /// Runs a line of arguments that must go well, and gives what it printed.
    pub(crate) async fn ok(&self, line: &str) -> String {
        self.ok_with(line, "").await
    }

    /// The same with a text as standard input.
    pub(crate) async fn ok_with(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input).await;
        assert!(output.success, "kubectl {line}\n{}{}", output.out, output.err);
        output.out
    }

    /// Runs a line of arguments that must be refused, and gives what it complained.
    pub(crate) async fn refused(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input).await;
        assert!(!output.success, "kubectl {line} went well\n{}", output.out);
        output.err
    }
}

/// The words of a command line; blanks between apostrophes stay.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().expect("never empty").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Checks that a text has all parts.
pub(crate) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
