//! A person who compares what they see with a transcript.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use service_tests::{
    kubectl::Output,
    transcript::{Mismatch, compare, compare_unordered},
};

use crate::person::Person;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
/// How long pods and controllers may take to do what follows from a command.
const PATIENCE: Duration = Duration::from_mins(1);

/// A person who compares what they see with a transcript.
pub(crate) struct Session {
    pub(crate) person: Person,
}

impl Session {
    pub(crate) async fn start(program: PathBuf) -> Self {
        Self { person: Person::start(BINARY, program, &["--nodes", "3"]).await }
    }

    pub(crate) async fn run(&self, line: &str, input: &str) -> Output {
        self.person.run(line.strip_prefix("kubectl ").expect("a line of kubectl"), input).await
    }

    /// Runs a command that must go well and show this, warnings first.
    pub(crate) async fn shows(&self, line: &str, transcript: &str) {
        self.shows_with(line, "", transcript).await;
    }

    /// The same with a text as standard input.
    pub(crate) async fn shows_with(&self, line: &str, input: &str, transcript: &str) {
        let output = self.run(line, input).await;
        let text = output.err + &output.out;
        assert!(output.success, "$ {line}\n{text}");
        compare(transcript, &text).unwrap_or_else(|mismatch| panic!("{mismatch} in\n$ {line}\n{text}"));
    }

    /// Runs a command that must be refused with these words.
    pub(crate) async fn refuses(&self, line: &str, input: &str, transcript: &str) {
        let output = self.run(line, input).await;
        assert!(!output.success, "$ {line} went well\n{}", output.out);
        compare(transcript, &output.err)
            .unwrap_or_else(|error| panic!("{error} in\n$ {line}\n{}", output.err));
    }

    /// Runs a command until it shows this.
    pub(crate) async fn comes_to_show(&self, line: &str, transcript: &str) {
        self.repeat(line, |text| compare(transcript, text)).await;
    }

    /// Runs a command until it shows these lines in whatever order.
    pub(crate) async fn comes_to_show_unordered(&self, line: &str, transcript: &str) {
        self.repeat(line, |text| compare_unordered(transcript, text)).await;
    }

    async fn repeat(&self, line: &str, holds: impl Fn(&str) -> Result<(), Mismatch>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.run(line, "").await;
            let text = output.err + &output.out;
            let Err(mismatch) = holds(&text) else { return };
            assert!(Instant::now() < deadline, "still {mismatch} in\n$ {line}\n{text}");
        }
    }
}
