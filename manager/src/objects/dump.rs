//! Objects from files that `kubectl get -o yaml` or `-o json` wrote, from directories of such, and from the standard input.
//!
//! Owns the way from a path to single objects; a file is never in memory as a whole. What comes next is read and told apart
//! while the taker looks at what came before.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::Error as _;

use super::ahead::{Batch, Give, in_order};
use super::json::JsonSplitter;
use super::yaml::{Objects, Piece, YamlSplitter, convert};
use super::{Sink, SplitError};
use crate::progress::Progress;

/// So much is read at once.
const PIECE: usize = 256 << 10;

/// A file that is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Not readable.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not a dump, or not a whole one.
    #[error("{file}: {reason}")]
    Text {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A directory without files.
    #[error("{0}: no file in it ends with .yaml, .yml or .json")]
    Empty(PathBuf),
}

/// Hands on all objects of some files; `-` is the standard input.
pub(crate) fn read(files: &[PathBuf], sink: &mut Sink<'_>) -> Result<(), DumpError> {
    let progress = Progress::new("objects read");
    let mut sink = |item: super::Item<'_>| {
        progress.add(1);
        sink(item)
    };
    files.iter().try_for_each(|file| read_path(file, &mut sink))
}

fn read_path(path: &Path, sink: &mut Sink<'_>) -> Result<(), DumpError> {
    let failed = |source| DumpError::Read { file: path.to_owned(), source };
    if path == Path::new("-") {
        return read_from(BufReader::with_capacity(PIECE, io::stdin()), path, sink);
    }
    if !path.is_dir() {
        let file = File::open(path).map_err(failed)?;
        return read_from(BufReader::with_capacity(PIECE, file), path, sink);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let fits = file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if fits || file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(DumpError::Empty(path.to_owned()));
    }
    files.iter().try_for_each(|file| read_path(file, sink))
}

fn read_from(mut reader: impl BufRead + Send, path: &Path, sink: &mut Sink<'_>) -> Result<(), DumpError> {
    let failed = |source| DumpError::Read { file: path.to_owned(), source };
    let wrong = |reason: String| DumpError::Text { file: path.to_owned(), reason };
    let beginning = skip_blank(&mut reader).map_err(failed)?;
    let split = match beginning {
        Some(0x1f | 0x28 | b'P' | 0xfd) if is_packed(reader.fill_buf().map_err(failed)?) => {
            return Err(wrong("it is compressed: unpack it, and give what was in it or `-`".to_owned()));
        }
        Some(b'{') => read_json(reader, sink),
        _ => read_yaml(reader, sink),
    };
    split.map_err(failed)?.map_err(|error| wrong(error.to_string()))
}

/// Goes on to the first byte that says what it is, and gives that.
fn skip_blank(reader: &mut impl BufRead) -> io::Result<Option<u8>> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if reader.fill_buf()?.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    loop {
        let buffer = reader.fill_buf()?;
        let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (found, empty) = (buffer.get(blank).copied(), buffer.is_empty());
        if found.is_some() || empty {
            // Indentation counts in YAML.
            if found == Some(b'{') {
                reader.consume(blank);
            }
            return Ok(found);
        }
        reader.consume(blank);
    }
}

/// Whether this is how gzip, zstd, zip or xz begin.
fn is_packed(text: &[u8]) -> bool {
    [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\xfd7zXZ"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

fn read_json(reader: impl Read + Send, sink: &mut Sink<'_>) -> io::Result<Result<(), SplitError>> {
    let (split, taken) =
        in_order(|give| split_json(reader, give), |batch| batch, |batch: Batch| batch.hand_on(sink));
    if taken.is_err() { Ok(taken) } else { split }
}

fn split_json(mut reader: impl Read, give: &mut Give<'_, Batch>) -> io::Result<Result<(), SplitError>> {
    let (mut splitter, mut piece, mut batch) = (JsonSplitter::default(), vec![0; PIECE], Batch::default());
    let split = loop {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            break splitter.finish().map(|_| ());
        }
        let mut sink = |item: super::Item<'_>| {
            batch.push(item);
            if !batch.is_full() || give(std::mem::take(&mut batch)) {
                Ok(())
            } else {
                Err(serde_json::Error::custom("nobody takes it"))
            }
        };
        if let Err(error) = splitter.push(&piece[..read], &mut sink) {
            break Err(error);
        }
    };
    // What came before something was wrong may be wrong itself, and is told first.
    give(batch);
    Ok(split)
}

fn read_yaml(reader: impl BufRead + Send, sink: &mut Sink<'_>) -> io::Result<Result<(), SplitError>> {
    let mut objects = Objects::default();
    let (split, taken) = in_order(
        |give| split_yaml(reader, give),
        |pieces: Vec<Piece>| pieces.into_iter().map(convert).collect::<Vec<_>>(),
        |read| read.into_iter().try_for_each(|read| objects.take(read?, sink)),
    );
    if taken.is_err() { Ok(taken) } else { split }
}

fn split_yaml(
    mut reader: impl BufRead,
    give: &mut Give<'_, Vec<Piece>>,
) -> io::Result<Result<(), SplitError>> {
    let (mut splitter, mut line) = (YamlSplitter::default(), String::new());
    let (mut pieces, mut held) = (Vec::new(), 0);
    loop {
        line.clear();
        held += reader.read_line(&mut line)?;
        if line.is_empty() {
            splitter.finish(&mut pieces);
            give(pieces);
            return Ok(Ok(()));
        }
        if let Err(error) = splitter.push(&line, &mut pieces) {
            give(pieces);
            return Ok(Err(error));
        }
        if held >= Batch::ENOUGH {
            held = 0;
            if !give(std::mem::take(&mut pieces)) {
                return Ok(Ok(()));
            }
        }
    }
}
