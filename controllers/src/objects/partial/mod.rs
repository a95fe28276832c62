//! An object's metadata, read without its rest.
//!
//! Metadata stands near the front of what an API server sends. Whether an event or an answer is of
//! interest is known from there, and an EndpointSlice of a hundred endpoints need not be read to drop
//! it. Owns that early end; never what is of interest.

mod pod;

pub(crate) use self::pod::pod_if;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The metadata of the object in `json`; the default if it has none.
///
/// # Errors
/// If what comes before the metadata, or the metadata, cannot be read.
pub(crate) fn metadata<M: Default + for<'de> Deserialize<'de>>(json: &[u8]) -> Result<M, serde_json::Error> {
    let found = RefCell::new(None);
    let seed = Seed { found: &found, read: PhantomData };
    let ended = seed.deserialize(&mut serde_json::Deserializer::from_slice(json));
    match (found.into_inner(), ended) {
        (Some(metadata), _) => Ok(metadata),
        (None, Ok(())) => Ok(M::default()),
        (None, Err(error)) => Err(error),
    }
}

struct Seed<'a, M> {
    found: &'a RefCell<Option<M>>,
    read: PhantomData<M>,
}

impl<'de, M: Deserialize<'de>> DeserializeSeed<'de> for Seed<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, M: Deserialize<'de>> Visitor<'de> for Seed<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key>()? {
            if key.metadata {
                *self.found.borrow_mut() = Some(map.next_value()?);
                // A parser cannot be left in the middle but by an error.
                return Err(A::Error::custom("the rest is not wanted"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A key of the object; the text itself is not kept.
struct Key {
    metadata: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(Key { metadata: key == "metadata" })
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::MetaWire;

    #[test]
    fn what_comes_after_the_metadata_is_not_read() {
        let json = br#"{"kind":"X","metadata":{"name":"a","resourceVersion":"7"},"endpoints":[ broken"#;
        let meta: MetaWire = metadata(json).unwrap();
        assert_eq!((meta.name.as_str(), meta.resource_version.as_str()), ("a", "7"));
    }

    #[test]
    fn metadata_may_stand_anywhere_or_nowhere() {
        let last: MetaWire =
            metadata(br#"{"endpoints":[{"metadata":{"name":"no"}}],"metadata":{"name":"a"}}"#).unwrap();
        assert_eq!(last.name, "a");
        assert_eq!(metadata::<MetaWire>(b"{}").unwrap().name, "");
        assert!(metadata::<MetaWire>(b"[]").is_err());
        assert!(metadata::<MetaWire>(br#"{"metadata":3}"#).is_err());
        assert!(metadata::<MetaWire>(br#"{"kind":"#).is_err());
    }
}
