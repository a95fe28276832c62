//! The binary as a plugin of kubectl: linked as `kubectl-svcplane` it is `kubectl svcplane`, and linked as
//! `kubectl_complete-svcplane` it completes what is typed there.
//!
//! Owns what a name of the binary means; the command line is the same.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::Path,
};

use clap::{Command, CommandFactory as _};

use crate::args::Cli;

/// What kubectl calls the plugin.
pub(crate) const NAME: &str = "kubectl svcplane";
/// kubectl's word for "no file names", beside those that are given.
const NO_FILES: u8 = 4;
/// And for "no blank behind it".
const NO_BLANK: u8 = 2;

/// By which name the binary was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// Its own, or any other.
    Itself,
    /// As a plugin of kubectl.
    Plugin,
    /// To complete what is typed for that plugin.
    Completion,
}

impl CalledAs {
    /// By the first of a process's arguments.
    #[must_use]
    pub(crate) fn of(program: Option<&OsStr>) -> Self {
        match program.and_then(|program| Path::new(program).file_name()).and_then(OsStr::to_str) {
            Some("kubectl-svcplane") => Self::Plugin,
            Some("kubectl_complete-svcplane") => Self::Completion,
            _ => Self::Itself,
        }
    }

    /// The command line, as it calls itself when called so.
    #[must_use]
    pub(crate) fn command(self) -> Command {
        match self {
            Self::Itself => Cli::command(),
            Self::Plugin | Self::Completion => Cli::command().bin_name(NAME),
        }
    }
}

/// What can follow the words that were typed, of which the last is not finished, in the form in which kubectl reads it: one
/// a line, each with what it means behind a tab, and at the end what the shell is to do.
#[must_use]
pub(crate) fn complete(words: Vec<OsString>) -> String {
    let words: Vec<OsString> = std::iter::once(OsString::from(NAME)).chain(words).collect();
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(&mut Cli::command(), words, last.max(1), here.as_deref());
    let mut out = String::new();
    let mut then = NO_FILES;
    for candidate in found.unwrap_or_default().iter().filter(|candidate| !candidate.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        if value.ends_with('/') {
            then |= NO_BLANK;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = if help.is_empty() { writeln!(out, "{value}") } else { writeln!(out, "{value}\t{help}") };
    }
    let _ = writeln!(out, ":{then}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &[&str]) -> Vec<String> {
        let shown = complete(words.iter().map(OsString::from).collect());
        shown.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn the_name_says_what_is_meant() {
        let of = |name: &str| CalledAs::of(Some(OsStr::new(name)));
        assert_eq!(of("/usr/local/bin/service-controller-manager"), CalledAs::Itself);
        assert_eq!(of("/home/a/.krew/bin/kubectl-svcplane"), CalledAs::Plugin);
        assert_eq!(of("kubectl_complete-svcplane"), CalledAs::Completion);
        assert_eq!(CalledAs::of(None), CalledAs::Itself);
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(completed(&["ra"]), ["ranges", ":4"]);
        assert_eq!(completed(&["ranges", "--kubec"]), ["--kubeconfig", ":4"]);
        assert_eq!(completed(&["logs", "--level", "w"]), ["warn", ":4"]);
        assert!(completed(&[""]).contains(&"lab".to_owned()));
        assert_eq!(completed(&["no-such-command", "x"]), [":4"]);
    }
}
