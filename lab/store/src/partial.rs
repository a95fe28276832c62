//! Parsing an object at load without its `metadata.managedFields`: about half of its bytes, and no index wants them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The object in `json`, but for `metadata.managedFields`.
pub(super) fn without_managed_fields(json: &[u8]) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let object = Level::Object.deserialize(&mut reader)?;
    reader.end()?;
    Ok(object)
}

/// Where in the object a map is.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match (self, &*key) {
                (Self::Metadata, "managedFields") => {
                    entries.next_value::<IgnoredAny>()?;
                }
                (Self::Object, "metadata") => {
                    let metadata = entries.next_value_seed(Self::Metadata)?;
                    map.insert(key, metadata);
                }
                _ => {
                    let value = entries.next_value()?;
                    map.insert(key, value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(r#"{"a":[{"managedFields":1}],"metadata":{"managedFields":[{"x":{"y":[]}}],"name":"n","labels":{}}}"#,
        json!({"a": [{"managedFields": 1}], "metadata": {"name": "n", "labels": {}}}))]
    #[case(r#"{"managedFields":{"metadata":{"managedFields":2}}}"#,
        json!({"managedFields": {"metadata": {"managedFields": 2}}}))]
    fn only_the_managed_fields_are_left_out(#[case] json: &str, #[case] expected: Value) {
        assert_eq!(without_managed_fields(json.as_bytes()).unwrap(), expected);
    }

    #[rstest]
    #[case("[]")]
    #[case(r#"{"metadata":{}"#)]
    #[case(r#"{"metadata":{}} {}"#)]
    #[case(r#"{"metadata":{"managedFields":[}}"#)]
    #[case(r#"{"metadata":7}"#)]
    fn what_is_not_an_object_is_refused(#[case] json: &str) {
        assert!(without_managed_fields(json.as_bytes()).is_err());
    }
}
