//! The command line of the Service control plane: flags, start, readiness, stop.
//!
//! Owns how a process is configured and how it ends. It decides nothing about Services: that is in `service-lab` and
//! `service-controllers`, which it only puts together.

pub mod admin;
pub mod args;
pub mod cluster;
pub mod cmd;
pub mod levels;
mod lines;
pub mod logfmt;
pub mod logs;
mod objects;
pub mod otlp;
mod output;
mod page;
mod paint;
mod plugin;
mod process_metrics;
mod progress;
mod shadow;
pub mod shutdown;
pub mod trace;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::FromArgMatches as _;
use service_lab_network::{agnhost, nslookup, wget};

use plugin::CalledAs;

/// What a shell expects of a program that was called wrongly.
const WRONG_USE: u8 = 2;
/// The rest.
const FAILED: u8 = 1;
/// How long the end waits for threads that wait themselves, such as for a command that gives credentials.
const LAST: Duration = Duration::from_secs(1);

/// Does what the process's arguments say.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Does what the arguments say; the first is the program's name.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = arguments.first().and_then(|program| Path::new(program).file_name()?.to_str());
    match program {
        Some(agnhost::NAME) => return in_a_pod(agnhost::run, &arguments[1..]),
        Some(nslookup::NAME) => return in_a_pod(nslookup::run, &arguments[1..]),
        Some(wget::NAME) => return in_a_pod(wget::run, &arguments[1..]),
        _ => {}
    }
    let called_as = CalledAs::of(arguments.first().map(OsString::as_os_str));
    if called_as == CalledAs::Completion {
        let words = arguments.into_iter().skip(1).collect();
        // A closed pipe is no reason to complain.
        let _ = io::stdout().lock().write_all(plugin::complete(words).as_bytes());
        return ExitCode::SUCCESS;
    }
    let mut command = called_as.command();
    let parsed = command.try_get_matches_from_mut(arguments);
    let parsed = parsed.and_then(|matches| args::Cli::from_arg_matches(&matches));
    match parsed.map_err(|error| error.format(&mut command)) {
        Ok(cli) => run(cli),
        Err(error) if !error.use_stderr() => {
            // Help and version; a closed pipe is no reason to complain.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        Err(error) => complain(&args::one_line(&error), WRONG_USE),
    }
}

/// What the program is in pods of the lab under another name.
#[allow(clippy::print_stdout, clippy::print_stderr)]
fn in_a_pod(run: fn(&[String]) -> Result<String, String>, words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match run(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprint!("{text}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(cli: args::Cli) -> ExitCode {
    let runtime = match runtime(&cli.command) {
        Ok(runtime) => runtime,
        Err(error) => return complain(&format!("cannot start threads: {error}"), FAILED),
    };
    let compares = matches!(cli.command, args::Command::Diff(_));
    let for_programs =
        cli.command.logging().is_some_and(|logging| logging.log_format != args::LogFormat::Text);
    let ended = runtime.block_on(cmd::run(cli.command));
    runtime.shutdown_timeout(LAST);
    // As diff(1): 1 is a difference, 2 is trouble.
    let failed = match &ended {
        Err(cmd::CommandError::Differences(_)) => FAILED,
        _ if compares => WRONG_USE,
        _ => FAILED,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // A program reads all of it; without a log there is no other way to say it.
        Err(error) if for_programs && tracing::dispatcher::has_been_set() => {
            tracing::error!("{}", first_line(&error.to_string()));
            ExitCode::from(failed)
        }
        Err(error) => complain(&error.to_string(), failed),
    }
}

/// The lab and the webhook serve many clients at once. The controllers wait for one server most of the time and share one index: on one
/// thread an event costs a third less, since nothing has to be woken on another.
fn runtime(command: &args::Command) -> std::io::Result<tokio::runtime::Runtime> {
    match command {
        args::Command::Lab(_) | args::Command::Webhook(_) => tokio::runtime::Runtime::new(),
        args::Command::Run(_)
        | args::Command::Diff(_)
        | args::Command::Explain(_)
        | args::Command::Simulate(_)
        | args::Command::Ranges(_)
        | args::Command::Proxy(_)
        | args::Command::Completion(_)
        | args::Command::Man(_)
        | args::Command::Logs(_) => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    }
}

/// Says in one line why the process ends; what some libraries print below theirs, such as an excerpt of a file, is left out.
#[allow(clippy::print_stderr)]
fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("error: {}", first_line(text));
    ExitCode::from(code)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
