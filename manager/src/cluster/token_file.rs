//! A bearer token in a file, as a projected service account token is: whoever puts another one there is followed.
//!
//! Owns the reading of the file and what is sent of it; knows nothing of requests.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http::{HeaderValue, header::InvalidHeaderValue};
use parking_lot::Mutex;

/// How old what was read may be. The kubelet replaces a projected token long before it expires; one that is replaced by hand
/// is mostly needed at once.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// No server takes a longer header (`DefaultMaxHeaderBytes` of Go's net/http).
const LONGEST: u64 = 1 << 20;

/// A file that gives no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nothing is in it.
    #[error("{0} is empty")]
    Empty(PathBuf),
    /// It is no file that can be read again and again.
    #[error("{0} is no regular file")]
    NoFile(PathBuf),
    /// More is in it than a request can carry.
    #[error("{0} holds no token: it is longer than {LONGEST} bytes")]
    TooLong(PathBuf),
    /// What is in it can be no token.
    #[error("{file} holds no token: {source}")]
    Unusable {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: InvalidHeaderValue,
    },
}

/// A file with a token, and what was last read from it.
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<Last>,
}

struct Last {
    header: HeaderValue,
    read: Instant,
}

impl TokenFile {
    /// Reads a file for the first time; without a token in it there is nothing to begin with.
    pub(super) fn open(path: impl Into<PathBuf>, now: Instant) -> Result<Self, TokenFileError> {
        let path = path.into();
        let header = read(&path)?;
        Ok(Self { path, last: Mutex::new(Last { header, read: now }) })
    }

    /// The value of `Authorization`. A file that cannot be read any more leaves the token that was read before: client-go does
    /// so too, for files that are removed on purpose after the start.
    pub(super) fn authorization(&self, now: Instant) -> HeaderValue {
        let mut last = self.last.lock();
        if now.saturating_duration_since(last.read) >= READ_AGAIN_AFTER {
            last.read = now;
            match read(&self.path) {
                Ok(header) => last.header = header,
                Err(error) => tracing::debug!(%error, "the token that was read before is used on"),
            }
        }
        last.header.clone()
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// White space around the token, such as the line end of a file that was written by hand, is no part of it.
fn read(path: &Path) -> Result<HeaderValue, TokenFileError> {
    let file = || path.to_owned();
    let failed = |source| TokenFileError::Read { file: file(), source };
    // A pipe would be waited for by all requests.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TokenFileError::NoFile(file()));
    }
    let mut text = String::new();
    let opened = File::open(path).map_err(failed)?;
    opened.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(TokenFileError::TooLong(file()));
    }
    let token = text.trim();
    if token.is_empty() {
        return Err(TokenFileError::Empty(file()));
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|source| TokenFileError::Unusable { file: file(), source })?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_token_that_is_replaced_is_taken_up_and_one_that_is_removed_stays() {
        let (dir, start) = (tempfile::tempdir().unwrap(), Instant::now());
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::open(&path, start).unwrap();
        let at = |seconds| file.authorization(start + Duration::from_secs(seconds));
        assert_eq!(at(0), "Bearer one");
        std::fs::write(&path, "  two\r\n").unwrap();
        assert_eq!(at(9), "Bearer one", "a file is not read for each request");
        assert_eq!(at(10), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(at(30), "Bearer two");
        std::fs::write(&path, "three").unwrap();
        assert_eq!(at(39), "Bearer two");
        assert_eq!(at(40), "Bearer three");
        assert!(at(41).is_sensitive());
        for nothing in [String::new(), "x".repeat(2 << 20)] {
            std::fs::write(&path, nothing).unwrap();
            assert_eq!(at(60), "Bearer three");
        }
    }

    #[rstest]
    #[case::directory("/tmp")]
    #[case::endless("/dev/zero")]
    #[case::nothing("/dev/null")]
    fn what_is_no_file_is_not_read(#[case] path: &str) {
        let error = TokenFile::open(path, Instant::now()).unwrap_err().to_string();
        assert_eq!(error, format!("{path} is no regular file"));
    }

    #[rstest]
    #[case::missing(None, "No such file")]
    #[case::empty(Some(" \n"), "is empty")]
    #[case::several_lines(Some("one\ntwo"), "holds no token")]
    #[case::huge(Some(&*"x".repeat((1 << 20) + 1)), "longer than 1048576 bytes")]
    fn a_file_without_a_token_is_named(#[case] content: Option<&str>, #[case] part: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = TokenFile::open(&path, Instant::now()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("token"), "{error}");
    }
}
