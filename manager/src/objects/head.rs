//! What an object or a list says of itself: kind and version.
//!
//! Owns that no more of an object is read for it than there has to be: both stand at the beginning, mostly.

use std::cell::RefCell;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::SplitError;

/// What an object or a list says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    pub(super) api_version: String,
    pub(super) kind: String,
}

impl Head {
    /// That of an object; its fields are empty where it does not say what it is.
    pub(super) fn read(json: &[u8]) -> Result<Self, SplitError> {
        let found = RefCell::new(Self::default());
        let ended = serde_json::Deserializer::from_slice(json).deserialize_map(Fields(&found));
        let head = found.into_inner();
        match ended {
            Err(error) if !head.is_whole() => Err(SplitError::Json(error)),
            _ => Ok(head),
        }
    }

    /// That of an object of this group and kind.
    pub(super) fn of(group: &str, kind: &str) -> Self {
        Self { api_version: format!("{group}/"), kind: kind.to_owned() }
    }

    fn is_whole(&self) -> bool {
        !self.kind.is_empty() && !self.api_version.is_empty()
    }

    /// The API group; empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// This head with what stands behind the items as well.
    pub(super) fn with(self, more: Self) -> Self {
        let either = |own: String, other: String| if own.is_empty() { other } else { own };
        Self { api_version: either(self.api_version, more.api_version), kind: either(self.kind, more.kind) }
    }

    /// What the items of a list with this head are, if it says so.
    pub(super) fn of_items(&self) -> Option<Self> {
        let kind = self.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(Self { api_version: self.api_version.clone(), kind: kind.to_owned() })
    }
}

/// Reads the fields of an object until both are found.
struct Fields<'a>(&'a RefCell<Head>);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Kind => self.0.borrow_mut().kind = map.next_value()?,
                Field::ApiVersion => self.0.borrow_mut().api_version = map.next_value()?,
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if self.0.borrow().is_whole() {
                // A parser cannot be left in the middle but by an error.
                return Err(A::Error::custom("the rest is not wanted"));
            }
        }
        Ok(())
    }
}

enum Field {
    Kind,
    ApiVersion,
    Other,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;
        impl Visitor<'_> for FieldVisitor {
            type Value = Field;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field")
            }
            fn visit_str<E>(self, name: &str) -> Result<Field, E> {
                Ok(match name {
                    "kind" => Field::Kind,
                    "apiVersion" => Field::ApiVersion,
                    _ => Field::Other,
                })
            }
        }
        deserializer.deserialize_str(FieldVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(api_version: &str, kind: &str) -> Head {
        Head { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }

    #[test]
    fn it_is_found_wherever_it_stands_and_nothing_behind_it_is_read() {
        let read = |json: &str| Head::read(json.as_bytes()).unwrap();
        assert_eq!(read(r#"{"apiVersion":"apps/v1","kind":"Deployment","spec": broken"#).group(), "apps");
        assert_eq!(read(r#"{"metadata":{"kind":"no"},"kind":"Pod","apiVersion":"v1"}"#), head("v1", "Pod"));
        assert_eq!(read(r#"{"metadata":{}}"#), Head::default());
        assert!(Head::read(br#"{"kind":"Pod","metadata":"#).is_err());
        assert!(Head::read(br#"{"kind":7,"apiVersion":"v1"}"#).is_err());
    }

    #[test]
    fn a_list_says_what_its_items_are() {
        assert_eq!(head("v1", "PodList").of_items(), Some(head("v1", "Pod")));
        assert_eq!(head("v1", "List").of_items(), None);
        assert_eq!(head("", "PodList").with(head("v1", "Other")), head("v1", "PodList"));
    }
}
