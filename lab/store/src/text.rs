//! How an object is written: `kind` and `apiVersion` first, so that a list can cut them off by their length.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

const FIRST: [&str; 2] = ["kind", "apiVersion"];

/// An object in the order it is stored in.
pub(super) struct KindFirst<'a>(pub(super) &'a Value);

impl Serialize for KindFirst<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(object) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(object.len()))?;
        for key in FIRST {
            if let Some(value) = object.get(key) {
                map.serialize_entry(key, value)?;
            }
        }
        for (key, value) in object.iter().filter(|(key, _)| !FIRST.contains(&key.as_str())) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_kind_comes_first() {
        let object =
            json!({"addressType": "IPv4", "apiVersion": "v1", "kind": "K", "z": {"kind": 1, "a": 2}});
        let text = serde_json::to_string(&KindFirst(&object)).unwrap();
        assert_eq!(text, r#"{"kind":"K","apiVersion":"v1","addressType":"IPv4","z":{"a":2,"kind":1}}"#);
    }
}
