//! Paths of `run`'s port that anybody may ask for.

use std::str::FromStr;

/// A path that is open to all: as it is, or with a `*` at the end for all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPath {
    text: String,
    prefix: bool,
}

/// No such path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path: it begins with `/` and may have one `*`, at its end")]
pub struct OpenPathError(String);

impl FromStr for OpenPath {
    type Err = OpenPathError;

    fn from_str(text: &str) -> Result<Self, OpenPathError> {
        let bare = text.strip_suffix('*').unwrap_or(text);
        if bare.contains('*') || !text.starts_with('/') {
            return Err(OpenPathError(text.to_owned()));
        }
        Ok(Self { text: bare.to_owned(), prefix: bare.len() < text.len() })
    }
}

impl OpenPath {
    /// Whether requests for this path are open to all.
    pub fn includes(&self, path: &str) -> bool {
        if self.prefix { path.starts_with(&self.text) } else { path == self.text }
    }
}
