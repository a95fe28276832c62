//! What a list, watch or delete of a collection is narrowed to: selectors matched against stored objects.
//!
//! The grammar and the fields of each kind are `service_api`'s; here it is decided how little of an object has to be
//! read for an answer.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::Value;
use service_api::{fields, labels};

use crate::store::Stored;

use super::error::ApiError;
use super::object;
use super::resource_info::ResourceInfo;

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    labels: labels::Selector,
    fields: fields::Selector,
}

impl Selection {
    /// Parses both selectors of a query for that kind; 400 for what cannot be parsed or selected.
    pub fn parse(info: &ResourceInfo, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let mut out = Self::read(labels, fields)?;
        out.fields.check(info.kind).map_err(|e| ApiError::bad_request(e.to_string()))?;
        Ok(out)
    }

    /// Parses both selectors of a query, whatever they are for; 400 for what cannot be parsed.
    pub fn read(labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = labels::Selector::parse(labels).map_err(|e| ApiError::bad_request(e.to_string()))?;
        let fields = fields::Selector::parse(fields).map_err(|e| ApiError::bad_request(e.to_string()))?;
        Ok(Self { labels, fields })
    }

    /// Does it let everything through?
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// How many terms each object is compared with.
    pub fn terms(&self) -> usize {
        self.labels.requirements.len() + self.fields.terms.len()
    }

    /// The one name it selects, if it does so: a read of one object instead of a scan.
    pub fn single_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Is the object selected? Its body is parsed only when a field other than name and namespace is asked for.
    pub fn matches(&self, info: &ResourceInfo, object: &Stored) -> bool {
        let label = |key: &str| {
            let found = object.labels.iter().find(|(k, _)| k.as_ref() == key);
            found.map(|(_, value)| value.as_ref())
        };
        if !self.labels.requirements.iter().all(|requirement| requirement.holds(label(&requirement.key))) {
            return false;
        }
        let body: OnceCell<Value> = OnceCell::new();
        self.fields.matches(|field| match field {
            "metadata.name" => Cow::Borrowed(&*object.name),
            "metadata.namespace" => Cow::Borrowed(&*object.namespace),
            other => {
                let known = info.fields.iter().find(|known| known.label == other);
                let body = body.get_or_init(|| object::parse(&object.body));
                known.map_or(Cow::Borrowed(""), |known| Cow::Owned((known.value)(body)))
            }
        })
    }
}
