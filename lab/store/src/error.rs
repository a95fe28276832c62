//! What can go wrong in the store, and what to do about it.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The store can not be opened or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The options contradict themselves.
    #[error("store options: {0}")]
    Options(String),
    /// Another process uses the data directory.
    #[error("data directory {path} is in use by {}; stop it or choose another directory", owner_text(*owner))]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// Its process id, if it left one.
        owner: Option<u32>,
    },
    /// The data directory is a file.
    #[error("data directory {path} is not a directory")]
    NotADirectory {
        /// What was given.
        path: PathBuf,
    },
    /// The directory has something else in it.
    #[error("{path} is not a data directory: there is {found:?} in it; choose an empty one")]
    NotAStore {
        /// What was given.
        path: PathBuf,
        /// The first thing that does not belong.
        found: String,
    },
    /// The directory, or something in it, can not be written by this process.
    #[error("data directory: {path} can not be written ({source}); it must be writable for this user")]
    ReadOnly {
        /// What can not be written.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no space left.
    #[error("data directory: no space left for {path} ({source}); make room")]
    Full {
        /// What can not be written.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A newer program wrote the directory.
    #[error("{path} has format {found}, this program knows up to {known}: use the newer program")]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// The format of the directory.
        found: u32,
        /// The newest format this program reads.
        known: u32,
    },
    /// Something in the directory is not what was written. Nothing was changed.
    #[error("{path} is corrupted: {what}; restore it from a copy, or start with an empty directory")]
    Corrupted {
        /// The file or database.
        path: PathBuf,
        /// The record, and what is wrong with it.
        what: String,
    },
    /// Writes that were answered are not there. Nothing was changed.
    #[error(
        "{path} is corrupted: it ends at revision {found}, but writes up to {answered} were answered; restore it \
         from a copy, or start with an empty directory"
    )]
    LostWrites {
        /// The database.
        path: PathBuf,
        /// The revision that is there.
        found: u64,
        /// The revision that was answered.
        answered: u64,
    },
    /// The directory has objects of a resource that this program does not serve. They are kept.
    #[error("{path} has objects of the unknown resource {resource:?}; use the program that wrote them")]
    UnknownResource {
        /// The database.
        path: PathBuf,
        /// The resource's on-disk name.
        resource: String,
    },
    /// The system refused something else.
    #[error("data directory: can not {action} {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The disk failed; what was answered is safe, and writes are taken again as soon as the disk takes them.
    #[error("no writes are taken until the disk does: {cause}")]
    Failed {
        /// The failure.
        cause: String,
    },
    /// The disk does not answer.
    #[error("the disk has not taken a write for seconds")]
    Slow,
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What the system said about `path`, sorted by what a person can do about it.
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path, source },
            ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { path, action, source },
        }
    }

    /// The same for what the database in `path` says.
    pub(super) fn database(path: &Path, action: &'static str, error: fjall::Error) -> Self {
        use fjall::{Error, LsmError};
        match error {
            Error::Io(source) | Error::Storage(LsmError::Io(source)) if !is_damage(source.kind()) => {
                Self::io(path, action, source)
            }
            Error::InvalidVersion(version) => Self::Corrupted {
                path: path.to_owned(),
                what: format!("the database has the unknown version {version:?}"),
            },
            other => Self::Corrupted { path: path.to_owned(), what: other.to_string() },
        }
    }
}

/// What the system says when the files are there to be used, but are not what they should be.
fn is_damage(kind: ErrorKind) -> bool {
    use ErrorKind::{
        AlreadyExists, InvalidData, InvalidInput, IsADirectory, NotADirectory, NotFound, UnexpectedEof,
    };
    matches!(
        kind,
        AlreadyExists | InvalidData | InvalidInput | IsADirectory | NotADirectory | NotFound | UnexpectedEof
    )
}

fn owner_text(owner: Option<u32>) -> String {
    owner.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// An object that the store can not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// Not a JSON object with a `metadata` object in it.
    #[error("not an object with metadata")]
    NoMetadata,
    /// `metadata.name` is missing, empty or not a string.
    #[error("metadata.name is missing")]
    NoName,
    /// A namespace or name with a NUL byte, or longer than a key may be.
    #[error("metadata.{field} can not be a key: {reason}")]
    BadKey {
        /// `name` or `namespace`.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The resource is not one the store was opened for.
    #[error("unknown resource number {0}")]
    UnknownResource(u16),
    /// A delete of something that is not there.
    #[error("{namespace}/{name} does not exist")]
    NotFound {
        /// The namespace that was asked for.
        namespace: String,
        /// The name that was asked for.
        name: String,
    },
    /// The value can not be written as JSON.
    #[error("can not be written as JSON: {0}")]
    Json(String),
}

/// Why a transaction did not happen. In every case nothing of it is visible and no revision was used.
#[derive(Debug, Error)]
pub enum WriteError<E> {
    /// The transaction itself said no.
    #[error(transparent)]
    Aborted(E),
    /// The disk did not take it.
    #[error(transparent)]
    Storage(StoreError),
}

/// The events after `requested` are no longer all known: list again and watch from there (HTTP 410, `Expired`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Gone {
    /// The revision that was asked for.
    pub requested: u64,
    /// The oldest revision a watch can start from.
    pub oldest: u64,
}
