//! `logs`: reads the log of this program from files or a stream, and shows what somebody wants to see of it.
//!
//! Owns the streams: a line at a time, so that a stream is shown as it comes and a file of any size takes little memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Deserialize;
use service_controllers::explain::Kind;
use tracing::Level;

use super::CommandError;
use crate::{
    args::{LineLevel, LinesFormat, LogsArgs},
    cluster::{self, Watched},
    logs::{Form, ObjectName, ObjectNames, Selection, parse, render, unreadable},
    objects::{
        Item,
        live::{FetchError, Fetched, Want, fetch},
    },
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

/// Labels by which nothing can be selected.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Nothing has them.
    #[error("no Service and no Pod in namespace {namespace} has labels that -l {selector} selects")]
    None {
        /// Where.
        namespace: String,
        /// The selector.
        selector: String,
    },
    /// It is not allowed to look.
    #[error("cannot list {kind} for their labels: {why}")]
    Refused {
        /// What.
        kind: &'static str,
        /// What the server says.
        why: String,
    },
    /// The server cannot be asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
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
pub(super) async fn run(args: &LogsArgs) -> Result<(), CommandError> {
    let (namespace, objects) = match &args.selector {
        Some(_) => {
            let (namespace, objects) = selected(args).await?;
            (Some(namespace), Some(objects))
        }
        None => (args.namespace.clone(), named(args)),
    };
    let (selection, form) = (selection(args, namespace, objects, Timestamp::now()), form(args.output));
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
        let then =
            if selection.is_about_something() { "they are left out" } else { "they are shown as they are" };
        eprintln!("{} of {} lines are none of this log's; {then}", counts.unreadable, counts.read);
    }
    Ok(())
}

/// The object that is asked for by its name.
fn named(args: &LogsArgs) -> Option<ObjectNames> {
    let mut object = args.object.clone()?;
    object.namespace = object.namespace.or_else(|| args.namespace.clone());
    Some([object].into_iter().collect())
}

/// The namespace, and the Services and pods in it that labels select, by the API server.
async fn selected(args: &LogsArgs) -> Result<(String, ObjectNames), CommandError> {
    let client = cluster::connect_as_kubectl(&args.place, Watched::default()).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let selector = args.selector.as_deref().unwrap_or_default();
    let mut names = Vec::new();
    for kind in [Kind::Service, Kind::Pod] {
        let want = Want::all(kind, Some(&namespace)).selected("labelSelector", selector).metadata();
        let mut sink = |item: Item<'_>| {
            let object: Named = serde_json::from_slice(item.json)?;
            names.push(ObjectName { namespace: Some(namespace.clone()), name: object.metadata.name });
            Ok(())
        };
        if let Fetched::Refused(why) = fetch(&client, &want, &mut sink).await.map_err(SelectError::from)? {
            return Err(SelectError::Refused { kind: kind.resource(), why }.into());
        }
    }
    if names.is_empty() {
        return Err(SelectError::None { namespace, selector: selector.to_owned() }.into());
    }
    Ok((namespace, names.into_iter().collect()))
}

/// As much of an object as has its name.
#[derive(Debug, Deserialize)]
struct Named {
    metadata: NamedMeta,
}

#[derive(Debug, Deserialize)]
struct NamedMeta {
    name: String,
}

fn selection(
    args: &LogsArgs,
    namespace: Option<String>,
    objects: Option<ObjectNames>,
    now: Timestamp,
) -> Selection {
    let since = args.since.map(|since| now.checked_sub(since.0).unwrap_or(Timestamp::MIN));
    let level = args.level.map(|level| match level {
        LineLevel::Error => Level::ERROR,
        LineLevel::Warn => Level::WARN,
        LineLevel::Info => Level::INFO,
        LineLevel::Debug => Level::DEBUG,
        LineLevel::Trace => Level::TRACE,
    });
    let (controller, id) = (args.controller.clone(), args.id.clone());
    Selection { objects, namespace, controller, since, level, id }
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

/// A line as it is shown, if it is. What is none of this log's is, such as the end of a panic, unless something particular is asked for.
fn shown(bytes: &[u8], selection: &Selection, form: Form, counts: &mut Counts) -> Option<Vec<u8>> {
    let Some(line) = std::str::from_utf8(bytes).ok().and_then(parse) else {
        counts.unreadable += 1;
        return (!selection.is_about_something()).then(|| unreadable(bytes, form));
    };
    selection.takes(&line).then(|| render(&line, form).into_bytes())
}
