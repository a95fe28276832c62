//! What a strategic merge patch says beside values: its directives, what its lists are merged by, and why it cannot be applied.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;
use service_api::cut::cut_owned;

use super::{PatchFault, go, not_applicable, users_fault};
use crate::decode::bad_request;
use crate::schema::KindSchema;

/// The key of a directive for the map that it stands in.
pub(super) const DIRECTIVE: &str = "$patch";

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    /// A directive that is not of its form.
    #[error("{0}")]
    Format(&'static str),
    /// A list of lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A change that may be meant for several items.
    #[error("{0}")]
    Ambiguous(String),
    /// Anything else, which upstream does not tell from a fault of its own.
    #[error("{words}")]
    Other {
        /// The fields down to the fault.
        path: Vec<String>,
        /// What is wrong.
        words: String,
    },
}

impl PatchError {
    /// A fault in the map or list that is being merged. The words may quote the patch: they are cut.
    pub(super) fn other(words: impl Into<String>) -> Self {
        Self::Other { path: Vec::new(), words: cut_owned(words.into()) }
    }

    /// The same, seen from the map that has this field.
    pub(super) fn below(mut self, field: &str) -> Self {
        if let Self::Other { path, .. } = &mut self {
            path.insert(0, field.to_owned());
        }
        self
    }

    /// What the client is told.
    pub(super) fn status(self, kind: &KindSchema, live: &Value) -> Box<Status> {
        match self {
            PatchError::Format(message) => bad_request(message),
            PatchError::ListOfLists => not_applicable(),
            PatchError::Ambiguous(message) => bad_request(message),
            PatchError::Other { path, words } => {
                let name = live["metadata"]["name"].as_str().unwrap_or_default();
                let fault =
                    PatchFault { field: path.join("."), reason: "FieldValueInvalid", words: words.clone() };
                users_fault(kind, name, words, vec![fault])
            }
        }
    }
}

/// What tells the items of the three lists of a patch apart.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Of the live items.
    pub(super) ours: Vec<String>,
    /// Of the patch's items, in their order; a delete may name several.
    pub(super) theirs: Vec<Vec<String>>,
    /// Of the order list.
    pub(super) order: Vec<String>,
}

/// The error for an item without the key of its list.
pub(super) fn no_key(item: &Value, key: &str) -> PatchError {
    PatchError::other(format!("map: {} does not contain declared merge key: {key}", go::text(item)))
}

/// Is the item the directive to replace the list?
pub(super) fn is_replace(item: &Value) -> bool {
    item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace")
}

/// Is the item the directive to delete what it names?
pub(super) fn is_delete(item: &Value) -> bool {
    item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_quote_a_long_patch_are_cut() {
        assert!(PatchError::other("x".repeat(1 << 20)).to_string().len() < 4096);
        assert_eq!(PatchError::other("short").to_string(), "short");
    }
}
