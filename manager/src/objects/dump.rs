//! Objects from files that `kubectl get -o yaml` or `-o json` wrote, from directories of such, and from the standard input.
//!
//! Owns the way from a path to single objects; a file is never in memory as a whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::json::JsonSplitter;
use super::yaml::YamlSplitter;
use super::{Sink, SplitError};

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
    files.iter().try_for_each(|file| read_path(file, sink))
}

fn read_path(path: &Path, sink: &mut Sink<'_>) -> Result<(), DumpError> {
    let failed = |source| DumpError::Read { file: path.to_owned(), source };
    if path == Path::new("-") {
        return read_from(BufReader::with_capacity(PIECE, io::stdin().lock()), path, sink);
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

fn read_from(mut reader: impl BufRead, path: &Path, sink: &mut Sink<'_>) -> Result<(), DumpError> {
    let failed = |source| DumpError::Read { file: path.to_owned(), source };
    let wrong = |reason: String| DumpError::Text { file: path.to_owned(), reason };
    let beginning = skip_blank(&mut reader).map_err(failed)?;
    let split = match beginning {
        Some(0x1f | 0x28 | b'P' | 0xfd) if is_packed(reader.fill_buf().map_err(failed)?) => {
            return Err(wrong("it is compressed: unpack it, and give what was in it or `-`".to_owned()));
        }
        Some(b'{') => read_json(&mut reader, sink).map_err(failed)?,
        _ => read_yaml(&mut reader, sink).map_err(failed)?,
    };
    split.map_err(|error: SplitError| wrong(error.to_string()))
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

fn read_json(reader: &mut impl Read, sink: &mut Sink<'_>) -> io::Result<Result<(), SplitError>> {
    let (mut splitter, mut piece) = (JsonSplitter::default(), vec![0; PIECE]);
    loop {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            return Ok(splitter.finish().map(|_| ()));
        }
        if let Err(error) = splitter.push(&piece[..read], sink) {
            return Ok(Err(error));
        }
    }
}

fn read_yaml(reader: &mut impl BufRead, sink: &mut Sink<'_>) -> io::Result<Result<(), SplitError>> {
    let (mut splitter, mut line) = (YamlSplitter::default(), String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(splitter.finish(sink).map(|_| ()));
        }
        if let Err(error) = splitter.push(&line, sink) {
            return Ok(Err(error));
        }
    }
}
