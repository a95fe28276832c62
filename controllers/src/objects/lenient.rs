//! An object as far as it could be read: whatever the server sends, a list or watch goes on after it.
//!
//! kube's watcher ends a list at an object that it cannot decode, and loses it in a watch. [`Lenient`] is decoded from the
//! object, in one pass, as long as all can be read; once something could not be, the watch's guard hands objects over as
//! text, of which it decodes always: what cannot be read is kept as a name and a reason. What came as metadata alone is kept
//! as that. Owns that distinction; what is made of it is the feed's business.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Debug;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::kind::ObjectKind;
use super::{IdentityWire, MetaWire, partial};

/// An object that can be watched.
pub trait Watched: Clone + Debug + Send + Sync + for<'de> Deserialize<'de> + 'static {
    /// Its kind.
    const KIND: ObjectKind;

    /// Its version.
    fn version(&self) -> &str;

    /// Which object it is.
    fn identity(&self) -> IdentityWire;

    /// The metadata, if it came alone: of a kind that is not watched so it never does.
    fn metadata_alone(&mut self) -> Option<MetaWire> {
        None
    }
}

/// What came of reading an object.
#[derive(Clone, Debug)]
pub enum Read<K> {
    /// All that is wanted of it.
    Whole(Box<K>),
    /// It came as metadata alone (API concepts, `PartialObjectMetadata`).
    Partial(Box<MetaWire>),
    /// It is nothing that the API calls an object of its kind: its name as far as that can be read, and why.
    Unreadable(Box<(IdentityWire, String)>),
}

/// An object as far as it could be read.
#[derive(Clone, Debug)]
pub struct Lenient<K> {
    /// Holds the version, which is all that kube's watcher asks for.
    meta: ObjectMeta,
    /// What is in it.
    pub read: Read<K>,
}

impl<K: Watched> Lenient<K> {
    /// Which object it is, as far as that can be read.
    #[must_use]
    pub fn identity(&self) -> IdentityWire {
        match &self.read {
            Read::Whole(whole) => whole.identity(),
            Read::Partial(meta) => IdentityWire {
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
            },
            Read::Unreadable(unreadable) => unreadable.0.clone(),
        }
    }
}

impl<K> Lenient<K> {
    /// The version of the object, empty if that cannot be read.
    #[must_use]
    pub fn version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl<K: Watched> Lenient<K> {
    fn of(read: Read<K>) -> Self {
        let version = match &read {
            Read::Whole(whole) => whole.version(),
            Read::Partial(meta) => &meta.resource_version,
            Read::Unreadable(unreadable) => &unreadable.0.resource_version,
        };
        let meta = ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
        Self { meta, read }
    }

    fn of_whole(mut whole: K) -> Self {
        Self::of(match whole.metadata_alone() {
            Some(meta) => Read::Partial(Box::new(meta)),
            None => Read::Whole(Box::new(whole)),
        })
    }

    fn of_text(text: &str) -> Self {
        serde_json::from_str::<K>(text).map_or_else(
            |error| {
                let identity = partial::metadata(text.as_bytes()).unwrap_or_default();
                Self::of(Read::Unreadable(Box::new((identity, error.to_string()))))
            },
            Self::of_whole,
        )
    }
}

impl<'de, K: Watched> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

struct LenientVisitor<K>(PhantomData<K>);

impl<'de, K: Watched> Visitor<'de> for LenientVisitor<K> {
    type Value = Lenient<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or its text")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        K::deserialize(MapAccessDeserializer::new(map)).map(Lenient::of_whole)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Lenient::of_text(text))
    }
}

impl<K: Watched> kube::Resource for Lenient<K> {
    type DynamicType = ();
    // All namespaces are watched together.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.name().into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::KIND.group().into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::KIND.version().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::KIND.resource().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{PodWire, SliceWire};

    #[test]
    fn of_text_what_cannot_be_read_is_named() {
        let of_text = |text: &str| -> Lenient<PodWire> {
            serde_json::from_str(&serde_json::Value::from(text).to_string()).unwrap()
        };
        let odd = of_text(r#"{"metadata":{"name":"odd","namespace":"n","resourceVersion":"8"},"status":7}"#);
        let Read::Unreadable(unreadable) = &odd.read else { panic!("{odd:?}") };
        assert_eq!(
            (unreadable.0.namespace.as_str(), unreadable.0.name.as_str(), odd.version()),
            ("n", "odd", "8")
        );
        for nothing in ["3", "[]", "null", "\"x\"", "", r#"{"metadata":3}"#] {
            let odd = of_text(nothing);
            assert!(matches!(odd.read, Read::Unreadable(_)) || nothing == "[]", "{nothing}: {odd:?}");
        }
        let whole = of_text(r#"{"metadata":{"name":"a\n","resourceVersion":"8"}}"#);
        assert!(matches!(&whole.read, Read::Whole(pod) if pod.metadata.name == "a\n"), "{whole:?}");
    }

    #[test]
    fn an_object_that_cannot_be_read_is_an_error_as_long_as_no_text_was_asked_for() {
        for odd in [r#"{"status":7}"#, "7", "null"] {
            assert!(serde_json::from_str::<Lenient<PodWire>>(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn metadata_alone_is_no_empty_object() {
        let meta = r#""metadata":{"name":"s","resourceVersion":"8","labels":{"a":"b"}}"#;
        let partial = format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",{meta}}}"#);
        let partial: Lenient<SliceWire> = serde_json::from_str(&partial).unwrap();
        assert!(matches!(&partial.read, Read::Partial(meta) if meta.labels.0.len() == 1), "{partial:?}");
        let whole: Lenient<SliceWire> =
            serde_json::from_str(&format!(r#"{{"kind":"EndpointSlice",{meta}}}"#)).unwrap();
        assert!(matches!(whole.read, Read::Whole(_)), "{whole:?}");
    }
}
