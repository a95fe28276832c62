//! Label and field selectors: parsed from a query, refused in upstream's words, matched against stored objects.
//!
//! Owns the grammar of both. It does not know which fields a kind offers; the kind's [`Entry`] says so.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

use crate::store::Stored;

use super::entry::Entry;
use super::error::ApiError;

/// What a list, watch or delete of a collection is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

impl Selection {
    /// Parses both selectors of a query for that kind; 400 for what cannot be parsed or selected.
    pub fn parse(entry: &Entry, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(labels).map_err(ApiError::bad_request)?;
        let fields = FieldSelector::parse(fields).map_err(ApiError::bad_request)?;
        fields.check(entry).map_err(ApiError::bad_request)?;
        Ok(Self { labels, fields })
    }

    /// Does it let everything through?
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Is the object selected? Parses the body only when a field other than name and namespace is asked for.
    pub fn matches(&self, entry: &Entry, object: &Stored) -> bool {
        self.labels.matches(|key| {
            object.labels.iter().find(|(k, _)| k.as_ref() == key).map(|(_, value)| value.as_ref())
        }) && self.fields.matches(entry, object)
    }
}
