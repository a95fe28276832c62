//! Objects for commands that look and write nothing: from an API server, or from files that kubectl wrote.
//!
//! Owns how they come in: one after the other, so that memory does not grow with the size of a file or an answer. What is
//! kept of them is the taker's business.

mod ahead;
mod block;
pub(crate) mod dump;
mod head;
mod json;
pub(crate) mod live;
mod yaml;

use self::head::Head;

/// An object as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    /// Its API group; empty for the core group.
    pub(crate) group: &'a str,
    /// Its kind.
    pub(crate) kind: &'a str,
    /// The object.
    pub(crate) json: &'a [u8],
}

/// Takes objects one after the other.
pub(crate) type Sink<'a> = dyn FnMut(Item<'_>) -> Result<(), serde_json::Error> + 'a;

/// Objects that cannot be told apart.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SplitError {
    /// No JSON.
    #[error("no JSON: {0}")]
    Json(serde_json::Error),
    /// No YAML.
    #[error("no YAML, at line {line}: {reason}")]
    Yaml {
        /// Where the object begins that cannot be read.
        line: usize,
        /// What the reader says.
        reason: String,
    },
    /// It ends too early.
    #[error("it ends in the middle of an object, after {0} objects: the copy is not complete")]
    Truncated(usize),
    /// Something else than objects.
    #[error("{0:?} is no beginning of a Kubernetes object")]
    NoObject(char),
    /// An object without a kind.
    #[error("an object says neither kind nor apiVersion: this is no Kubernetes object")]
    NoKind,
    /// An object that is too large.
    #[error("an object of more than {} MiB: this is no Kubernetes object", LARGEST >> 20)]
    TooLarge,
    /// An object that is not what its kind says.
    #[error("{kind} {name:?}: {source}")]
    Object {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// No object is larger than this; etcd takes 1.5 MiB.
pub(crate) const LARGEST: usize = 64 << 20;

/// Hands an object on. What a list of one kind says of its items counts for all of them.
fn hand_on(json: &[u8], of_list: Option<&Head>, sink: &mut Sink<'_>) -> Result<(), SplitError> {
    match of_list {
        Some(head) => hand_on_as(json, head, sink),
        None => hand_on_as(json, &Head::read(json)?, sink),
    }
}

/// Hands on an object of which it is known what it is.
fn hand_on_as(json: &[u8], head: &Head, sink: &mut Sink<'_>) -> Result<(), SplitError> {
    if head.kind.is_empty() {
        return Err(SplitError::NoKind);
    }
    let item = Item { group: head.group(), kind: &head.kind, json };
    sink(item).map_err(|source| SplitError::Object { kind: head.kind.clone(), name: name(json), source })
}

fn name(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    value["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
