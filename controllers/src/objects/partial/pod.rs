//! A pod of which the rest is read only if its metadata says that it is wanted.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::objects::{PodMetaWire, PodWire};

/// The pod in `json`, and whether its metadata is `wanted`; nothing but that is read of one whose metadata is not.
///
/// # Errors
/// If what is read cannot be.
pub(crate) fn pod_if(
    json: &[u8],
    wanted: impl Fn(&PodMetaWire) -> bool,
) -> Result<(PodWire, bool), serde_json::Error> {
    let found = RefCell::new((PodWire::default(), true));
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let ended = deserializer
        .deserialize_map(Fields { found: &found, wanted: &wanted })
        .and_then(|()| deserializer.end());
    let (pod, is_wanted) = found.into_inner();
    match ended {
        Err(error) if is_wanted => Err(error),
        _ => Ok((pod, is_wanted)),
    }
}

struct Fields<'a, W> {
    found: &'a RefCell<(PodWire, bool)>,
    wanted: &'a W,
}

impl<'de, W: Fn(&PodMetaWire) -> bool> Visitor<'de> for Fields<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut pod, mut read) = (PodWire::default(), false);
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Metadata => {
                    pod.metadata = map.next_value()?;
                    read = true;
                    if !(self.wanted)(&pod.metadata) {
                        *self.found.borrow_mut() = (pod, false);
                        // A parser cannot be left in the middle but by an error.
                        return Err(A::Error::custom("the rest is not wanted"));
                    }
                }
                Field::Spec => pod.spec = map.next_value()?,
                Field::Status => pod.status = map.next_value()?,
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let is_wanted = read || (self.wanted)(&pod.metadata);
        *self.found.borrow_mut() = (pod, is_wanted);
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Field {
    Metadata,
    Spec,
    Status,
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<(PodWire, bool), serde_json::Error> {
        pod_if(json.as_bytes(), |metadata| metadata.namespace == "demo")
    }

    #[test]
    fn the_rest_is_read_if_the_metadata_is_wanted_wherever_that_stands() {
        let front = r#"{"kind":"Pod","metadata":{"namespace":"demo"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#;
        let back =
            r#"{"spec":{"nodeName":"n"},"status":{"phase":"Running"},"metadata":{"namespace":"demo"}}"#;
        for json in [front, back] {
            let (pod, wanted) = read(json).unwrap();
            assert_eq!(
                (pod.spec.node_name.as_str(), pod.status.phase.as_str(), wanted),
                ("n", "Running", true)
            );
        }
        assert!(!read("{}").unwrap().1);
    }

    #[test]
    fn of_others_the_metadata_is_read_alone() {
        let (pod, wanted) = read(r#"{"metadata":{"namespace":"other","name":"a"},"spec": broken"#).unwrap();
        assert_eq!((pod.metadata.name.as_str(), wanted), ("a", false));
    }

    #[test]
    fn what_is_wrong_with_one_that_is_wanted_is_told() {
        for json in [
            r#"{"metadata":{"namespace":"demo"},"spec": broken"#,
            r#"{"metadata":{"namespace":"demo"},"spec":{"nodeName":7}}"#,
            r#"{"metadata":{"namespace":"demo"}} {}"#,
            r#"{"metadata":7}"#,
            "[]",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
