//! The metadata of JSON objects: what the generic verbs read and set, whatever the kind.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The characters of generated name suffixes: no vowels and nothing that is easily taken for another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A text member of the metadata, empty if it is missing.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// A numeric member of the metadata.
pub fn meta_number(object: &Value, field: &str) -> Option<i64> {
    object.get("metadata")?.get(field)?.as_i64()
}

/// A list of texts in the metadata (`finalizers`), empty if it is missing.
pub fn meta_list<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    let list = object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// The metadata to write to; made where it is missing.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    match metadata {
        Value::Object(map) => map,
        // Made an object just above.
        _ => unreachable!("metadata is an object"),
    }
}

/// Sets a member of the metadata, or removes it.
pub fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    let metadata = meta_mut(object);
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Copies a member of the metadata from another object, its absence included.
pub fn carry_meta(to: &mut Value, from: &Value, field: &str) {
    set_meta(to, field, from.get("metadata").and_then(|m| m.get(field)).cloned());
}

/// Carries over what no update changes: identity, and a deletion that has begun.
pub fn carry_system_fields(new: &mut Value, old: &Value) {
    if meta(new, "uid").is_empty() {
        carry_meta(new, old, "uid");
    }
    carry_meta(new, old, "creationTimestamp");
    if is_deleting(old) {
        carry_meta(new, old, "deletionTimestamp");
    }
    if meta_number(new, "deletionGracePeriodSeconds").is_none() {
        carry_meta(new, old, "deletionGracePeriodSeconds");
    }
    set_meta(new, "selfLink", None);
}

/// Is the object marked for deletion?
pub fn is_deleting(object: &Value) -> bool {
    object.get("metadata").and_then(|m| m.get("deletionTimestamp")).is_some_and(|time| !time.is_null())
}

/// A resource version, as a client writes one.
///
/// # Errors
/// What Go says to text that is none.
pub fn parse_version(text: &str) -> Result<u64, String> {
    let numeric = text.bytes().all(|b| b.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| numeric);
    parsed.ok_or_else(|| {
        let why = if numeric && !text.is_empty() { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {text:?}: {why}")
    })
}

/// The resource version in a query.
///
/// # Errors
/// What Kubernetes says to text that is none.
pub fn queried_version(text: &str) -> Result<u64, String> {
    parse_version(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

/// A time as the API writes it: RFC 3339 in UTC, whole seconds.
pub fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as [`time_text`] writes it, read back.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Five random characters for a generated name.
pub fn name_suffix(rng: &mut impl rand::RngExt) -> String {
    (0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// The object as it stands in the store, parsed.
pub fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("7", Ok(7))]
    #[case("007", Ok(7))]
    #[case("", Err("strconv.ParseUint: parsing \"\": invalid syntax"))]
    #[case("+7", Err("strconv.ParseUint: parsing \"+7\": invalid syntax"))]
    #[case("-1", Err("strconv.ParseUint: parsing \"-1\": invalid syntax"))]
    #[case(
        "18446744073709551616",
        Err("strconv.ParseUint: parsing \"18446744073709551616\": value out of range")
    )]
    fn versions_are_read_as_go_reads_them(#[case] text: &str, #[case] expected: Result<u64, &str>) {
        assert_eq!(parse_version(text), expected.map_err(ToOwned::to_owned));
    }
}
