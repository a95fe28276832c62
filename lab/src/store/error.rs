//! What can go wrong in the store, and what to do about it.

use thiserror::Error;

/// The store can not be opened or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The options contradict themselves.
    #[error("store options: {0}")]
    Options(String),
    /// This build can not keep anything on disk.
    #[error("a data directory is not supported yet")]
    NoDisk,
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
