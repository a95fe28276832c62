//! A difference in words: what would be written, against what is there. Pure.

use std::fmt::Write as _;

use http::Method;
use serde_json::Value;

use super::Withheld;

/// So many fields of one object are shown.
const FIELDS: usize = 20;
/// What an API server writes, which differs always.
const OF_THE_SERVER: [&str; 6] =
    ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"];

/// A line about a write that was withheld, with the row of `docs/differences.md` that explains it, and a line for each field
/// that it would change in `live`.
#[must_use]
pub(crate) fn describe(write: &Withheld, live: Option<&Value>, row: Option<&str>) -> String {
    let verb = match write.method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ => "patch",
    };
    let mut text = format!("would {verb} {}", write.path);
    if let Some(row) = row {
        let _ = write!(text, " (docs/differences.md: {row})");
    }
    let mut fields = Vec::new();
    match (&write.method, live) {
        (&Method::DELETE, _) => {}
        (&Method::PUT, Some(live)) => compare("", live, &write.body, false, &mut fields),
        (&Method::PATCH, live) if write.body.is_array() => {
            operations(live.unwrap_or(&Value::Null), &write.body, &mut fields);
        }
        (&Method::PATCH, Some(live)) => compare("", live, &write.body, true, &mut fields),
        _ => compare("", &Value::Null, &write.body, true, &mut fields),
    }
    for field in fields.iter().take(FIELDS) {
        let _ = write!(text, "\n  {field}");
    }
    if fields.len() > FIELDS {
        let _ = write!(text, "\n  and {} more fields", fields.len() - FIELDS);
    }
    text
}

/// The fields that a JSON patch (RFC 6902) changes; one that it only tests is none.
fn operations(live: &Value, patch: &Value, fields: &mut Vec<String>) {
    for operation in patch.as_array().into_iter().flatten() {
        let pointer = operation["path"].as_str().unwrap_or_default();
        let path = pointer.replace('/', ".").replace("~1", "/").replace("~0", "~");
        let old = live.pointer(pointer).unwrap_or(&Value::Null);
        match operation["op"].as_str() {
            Some("test") => {}
            Some("remove") => fields.push(format!("{path}: {old} -> nothing")),
            _ => compare(&path, old, &operation["value"], false, fields),
        }
    }
}

/// The fields in which `new` differs from `old`; of a patch, what it leaves out stays.
fn compare(path: &str, old: &Value, new: &Value, partial: bool, fields: &mut Vec<String>) {
    match (old, new) {
        (_, Value::Object(after)) if !after.is_empty() => {
            for (key, value) in after.iter().filter(|(key, _)| !OF_THE_SERVER.contains(&key.as_str())) {
                compare(&format!("{path}.{key}"), &old[key], value, partial, fields);
            }
            let gone = old.as_object().filter(|_| !partial).into_iter().flatten();
            for (key, value) in gone.filter(|(key, _)| !after.contains_key(*key)) {
                if !OF_THE_SERVER.contains(&key.as_str()) {
                    fields.push(format!("{path}.{key}: {value} -> nothing"));
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (i, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{i}]"), before, after, partial, fields);
            }
        }
        (old, new) if old == new => {}
        (Value::Null, new) => fields.push(format!("{path}: {new}")),
        (old, new) => fields.push(format!("{path}: {old} -> {new}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_says_what_it_changes() {
        let live = json!({"metadata": {"name": "s", "resourceVersion": "7", "labels": {"a": "1"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]});
        let body = json!({"metadata": {"name": "s", "resourceVersion": "6"},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]});
        let write = Withheld { method: Method::PUT, path: "/s".into(), body };
        assert_eq!(
            describe(&write, Some(&live), None),
            "would update /s\n  .endpoints[0].conditions.ready: true -> false\n  .metadata.labels: {\"a\":\"1\"} -> nothing"
        );
    }

    #[test]
    fn a_patch_leaves_the_rest_and_a_delete_says_no_more() {
        let live = json!({"a": 1, "b": {"c": 2}});
        let patch = Withheld { method: Method::PATCH, path: "/s".into(), body: json!({"b": {"d": 3}}) };
        assert_eq!(describe(&patch, Some(&live), None), "would patch /s\n  .b.d: 3");
        let delete =
            Withheld { method: Method::DELETE, path: "/s".into(), body: json!({"preconditions": {}}) };
        assert_eq!(
            describe(&delete, Some(&live), Some("It is meant")),
            "would delete /s (docs/differences.md: It is meant)"
        );
    }

    #[test]
    fn a_json_patch_says_what_it_changes() {
        let live = json!({"metadata": {"labels": {"a/b": "1"}, "finalizers": ["f", "g"]}});
        let body = json!([{"op": "test", "path": "/metadata/finalizers/1", "value": "g"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "2"},
            {"op": "add", "path": "/metadata/annotations", "value": {"c": "d"}}]);
        let write = Withheld { method: Method::PATCH, path: "/s".into(), body };
        assert_eq!(
            describe(&write, Some(&live), None),
            "would patch /s\n  .metadata.finalizers.1: \"g\" -> nothing\n  .metadata.labels.a/b: \"1\" -> \"2\"\n  .metadata.annotations.c: \"d\""
        );
    }

    #[test]
    fn much_is_cut() {
        let body: Value =
            (0..30).map(|i| (format!("f{i:02}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
        let write = Withheld { method: Method::POST, path: "/s".into(), body };
        let text = describe(&write, None, None);
        assert!(text.ends_with("and 10 more fields") && text.lines().count() == 22, "{text}");
    }
}
