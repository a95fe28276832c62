//! `logs`: reads the log of this program from files or a stream, and shows what somebody wants to see of it.
//!
//! Owns the streams: a line at a time, so that a stream is shown as it comes and a file of any size takes little memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tracing::Level;

use super::CommandError;
use crate::{
    args::{LineLevel, LinesFormat, LogsArgs},
    logs::{Form, Selection, parse, render, unreadable},
    progress::Progress,
};

/// A longer line is none of the log's, and is taken in pieces.
const LONGEST: u64 = 1 << 20;

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", .file.display())]
pub struct ReadError {
    file: PathBuf,
    source: io::Error,
}

/// What became of the lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    read: u64,
    shown: u64,
    unreadable: u64,
}

/// Shows the lines that are asked for.
#[allow(clippy::print_stderr)]
pub(super) fn run(args: &LogsArgs) -> Result<(), CommandError> {
    let (selection, form) = (selection(args, Timestamp::now()), form(args.output));
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut counts, progress) = (Counts::default(), Progress::new("lines read"));
    for file in &args.files {
        let failed = |source| ReadError { file: file.clone(), source };
        let mut input = BufReader::with_capacity(1 << 16, open(file).map_err(failed)?);
        match show(&mut input, &mut out, &selection, form, &mut counts, &progress) {
            Ok(()) => {}
            Err(Ended::Reading(source)) => return Err(failed(source).into()),
            // Whoever reads has enough.
            Err(Ended::Writing(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(Ended::Writing(error)) => return Err(CommandError::Output(error)),
        }
    }
    drop(progress);
    if counts.unreadable > 0 {
        eprintln!(
            "{} of {} lines are none of this log's; they are shown as they are",
            counts.unreadable, counts.read
        );
    }
    Ok(())
}

fn selection(args: &LogsArgs, now: Timestamp) -> Selection {
    let since = args.since.map(|since| now.checked_sub(since.0).unwrap_or(Timestamp::MIN));
    let level = args.level.map(|level| match level {
        LineLevel::Error => Level::ERROR,
        LineLevel::Warn => Level::WARN,
        LineLevel::Info => Level::INFO,
        LineLevel::Debug => Level::DEBUG,
        LineLevel::Trace => Level::TRACE,
    });
    let (object, controller, id) = (args.object.clone(), args.controller.clone(), args.id.clone());
    Selection { object, controller, since, level, id }
}

fn form(output: LinesFormat) -> Form {
    match output {
        LinesFormat::Text => Form::Text { colours: io::stdout().is_terminal() },
        LinesFormat::Json => Form::Json,
        LinesFormat::Logfmt => Form::Logfmt,
    }
}

fn open(file: &Path) -> io::Result<Box<dyn Read>> {
    if file == Path::new("-") { Ok(Box::new(io::stdin())) } else { Ok(Box::new(File::open(file)?)) }
}

/// Which side ended it.
enum Ended {
    Reading(io::Error),
    Writing(io::Error),
}

fn show<R: Read>(
    input: &mut BufReader<R>,
    out: &mut impl Write,
    selection: &Selection,
    form: Form,
    counts: &mut Counts,
    progress: &Progress,
) -> Result<(), Ended> {
    let mut bytes = Vec::new();
    loop {
        if input.buffer().is_empty() {
            // The next line may be long in coming.
            out.flush().map_err(Ended::Writing)?;
        }
        bytes.clear();
        let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut bytes).map_err(Ended::Reading)?;
        if read == 0 {
            return out.flush().map_err(Ended::Writing);
        }
        counts.read += 1;
        progress.set(counts.read);
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if let Some(shown) = shown(line, selection, form, counts) {
            counts.shown += 1;
            out.write_all(&shown).map_err(Ended::Writing)?;
        }
    }
}

/// A line as it is shown, if it is. What is no line is: nobody knows whether it is wanted.
fn shown(bytes: &[u8], selection: &Selection, form: Form, counts: &mut Counts) -> Option<Vec<u8>> {
    let Some(line) = std::str::from_utf8(bytes).ok().and_then(parse) else {
        counts.unreadable += 1;
        return Some(unreadable(bytes, form));
    };
    selection.takes(&line).then(|| render(&line, form).into_bytes())
}
