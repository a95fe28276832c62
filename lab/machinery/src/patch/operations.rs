//! The operations of a JSON patch as the API server reads them: RFC 6902, generously.
//!
//! A replaced member need not be there, a missing member is the same as `null`, an index below zero counts from the end
//! of a list, and only what stands behind a path's first slash counts. Each operation is put into the words of the RFC
//! for the document as it then is; carrying it out is the library's business. Knows nothing of kinds.

use json_patch::PatchOperation;
use serde_json::{Value, json};

/// An operation that cannot be carried out. Upstream does not tell its users why either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation does not apply")]
pub(super) struct NotApplicable;

/// Carries out all operations, in order. After an error `document` is of no more use.
pub(super) fn apply(document: &mut Value, operations: &[Value]) -> Result<(), NotApplicable> {
    operations.iter().try_for_each(|operation| apply_one(document, operation))
}

fn apply_one(document: &mut Value, operation: &Value) -> Result<(), NotApplicable> {
    let text = |member: &str| operation.get(member).and_then(Value::as_str).ok_or(NotApplicable);
    let value = operation.get("value");
    let given = || value.cloned().unwrap_or_default();
    match text("op")? {
        "add" => add(document, text("path")?, &given()),
        "remove" => remove(document, text("path")?),
        "replace" => replace(document, text("path")?, &given()),
        "test" => test(document, text("path")?, value.ok_or(NotApplicable)?),
        "move" => {
            let moved =
                document.pointer(&pointer(document, text("from")?, 0)?).cloned().ok_or(NotApplicable)?;
            remove(document, text("from")?)?;
            add(document, text("path")?, &moved)
        }
        "copy" => {
            let copied = read(document, &pointer(document, text("from")?, 0)?)?.cloned().unwrap_or_default();
            add(document, text("path")?, &copied)
        }
        _ => Err(NotApplicable),
    }
}

fn add(document: &mut Value, path: &str, value: &Value) -> Result<(), NotApplicable> {
    let path = pointer(document, path, 1)?;
    carry_out(document, json!({"op": "add", "path": path, "value": value}))
}

fn remove(document: &mut Value, path: &str) -> Result<(), NotApplicable> {
    let path = pointer(document, path, 0)?;
    carry_out(document, json!({"op": "remove", "path": path}))
}

/// The whole document gives way to a map or a list only; to anything else it does not, and that is no error.
fn replace(document: &mut Value, path: &str, value: &Value) -> Result<(), NotApplicable> {
    if path.is_empty() {
        if value.is_object() || value.is_array() {
            value.clone_into(document);
        }
        return Ok(());
    }
    let path = pointer(document, path, 0)?;
    let op = if read(document, &path)?.is_some() { "replace" } else { "add" };
    carry_out(document, json!({"op": op, "path": path, "value": value}))
}

fn test(document: &mut Value, path: &str, value: &Value) -> Result<(), NotApplicable> {
    let path = if path.is_empty() { String::new() } else { pointer(document, path, 0)? };
    if value.is_null() && read(document, &path)?.is_none() {
        return Ok(());
    }
    carry_out(document, json!({"op": "test", "path": path, "value": value}))
}

fn carry_out(document: &mut Value, operation: Value) -> Result<(), NotApplicable> {
    let operation: PatchOperation = serde_json::from_value(operation).map_err(|_| NotApplicable)?;
    json_patch::patch(document, &[operation]).map_err(|_| NotApplicable)
}

/// What a pointer leads to; none if it is a member that its map does not have.
fn read<'a>(document: &'a Value, pointer: &str) -> Result<Option<&'a Value>, NotApplicable> {
    let (parent, _) = pointer.rsplit_once('/').unwrap_or_default();
    match (document.pointer(pointer), document.pointer(parent)) {
        (Some(value), _) => Ok(Some(value)),
        (None, Some(Value::Object(_))) => Ok(None),
        (None, _) => Err(NotApplicable),
    }
}

/// A path as the RFC has it. In the list that its last part is about, `room` more items count.
fn pointer(document: &Value, path: &str, room: usize) -> Result<String, NotApplicable> {
    let (_, path) = path.split_once('/').ok_or(NotApplicable)?;
    let mut out = String::new();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let room = if parts.peek().is_none() { room } else { 0 };
        let at = match (document.pointer(&out), part.parse::<i64>()) {
            (Some(Value::Array(list)), Ok(number)) => Some(index(number, list.len() + room)?),
            _ => None,
        };
        out.push('/');
        match at {
            Some(at) => out += &at.to_string(),
            None => out += part,
        }
    }
    Ok(out)
}

/// The index in a list of `length` items.
fn index(number: i64, length: usize) -> Result<usize, NotApplicable> {
    let length = i64::try_from(length).map_err(|_| NotApplicable)?;
    usize::try_from(if number < 0 { number + length } else { number }).map_err(|_| NotApplicable)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // values are written inline
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn applied(operations: Value) -> Option<Value> {
        let mut document = json!({"a": {"b": "1", "n": null}, "l": [1, 2, 3], "x/y": {"~": 1}});
        apply(&mut document, operations.as_array().unwrap()).ok().map(|()| document)
    }

    #[rstest]
    #[case::adds(json!({"op": "add", "path": "/a/c", "value": "2"}), "/a/c", json!("2"))]
    #[case::adds_null_when_it_says_nothing(json!({"op": "add", "path": "/a/b"}), "/a/b", Value::Null)]
    #[case::appends(json!({"op": "add", "path": "/l/-", "value": 4}), "/l", json!([1, 2, 3, 4]))]
    #[case::inserts(json!({"op": "add", "path": "/l/1", "value": 9}), "/l", json!([1, 9, 2, 3]))]
    #[case::inserts_from_the_end(json!({"op": "add", "path": "/l/-1", "value": 9}), "/l", json!([1, 2, 3, 9]))]
    #[case::inserts_at_the_end(json!({"op": "add", "path": "/l/3", "value": 9}), "/l", json!([1, 2, 3, 9]))]
    #[case::removes_from_the_end(json!({"op": "remove", "path": "/l/-1"}), "/l", json!([1, 2]))]
    #[case::replaces(json!({"op": "replace", "path": "/l/0", "value": 9}), "/l", json!([9, 2, 3]))]
    #[case::replaces_what_is_missing(json!({"op": "replace", "path": "/a/c", "value": "2"}), "/a/c", json!("2"))]
    #[case::keeps_the_document(json!({"op": "replace", "path": "", "value": 5}), "/a/b", json!("1"))]
    #[case::replaces_the_document(json!({"op": "replace", "path": "", "value": {"z": 1}}), "", json!({"z": 1}))]
    #[case::moves(json!({"op": "move", "from": "/a/b", "path": "/l/0"}), "/l", json!(["1", 1, 2, 3]))]
    #[case::copies_what_is_missing(json!({"op": "copy", "from": "/a/c", "path": "/a/b"}), "/a/b", Value::Null)]
    #[case::reads_escapes(json!({"op": "copy", "from": "/x~1y/~0", "path": "/a/b"}), "/a/b", json!(1))]
    #[case::skips_what_stands_before_the_slash(json!({"op": "add", "path": "q/a/c", "value": 1}), "/a/c", json!(1))]
    #[case::tests_what_is_missing(json!({"op": "test", "path": "/a/c", "value": null}), "/a/b", json!("1"))]
    #[case::tests_null(json!({"op": "test", "path": "/a/n", "value": null}), "/a/b", json!("1"))]
    #[case::tests_a_list(json!({"op": "test", "path": "/l", "value": [1, 2, 3]}), "/a/b", json!("1"))]
    fn applies(#[case] operation: Value, #[case] pointer: &str, #[case] expected: Value) {
        let document = applied(json!([operation])).unwrap();
        assert_eq!(document.pointer(pointer), Some(&expected));
    }

    #[rstest]
    #[case(json!({"op": "add", "path": "", "value": {}}))]
    #[case(json!({"op": "add", "path": "a", "value": 1}))]
    #[case(json!({"op": "add", "path": "/c/d", "value": 1}))]
    #[case(json!({"op": "add", "path": "/a/b/c", "value": 1}))]
    #[case(json!({"op": "add", "path": "/a/n/c", "value": 1}))]
    #[case(json!({"op": "add", "path": "/l/4", "value": 1}))]
    #[case(json!({"op": "add", "path": "/l/-5", "value": 1}))]
    #[case(json!({"op": "add", "path": "/l/x", "value": 1}))]
    #[case(json!({"op": "add", "value": 1}))]
    #[case(json!({"op": "remove", "path": "/a/c"}))]
    #[case(json!({"op": "remove", "path": "/l/3"}))]
    #[case(json!({"op": "remove", "path": ""}))]
    #[case(json!({"op": "replace", "path": "/c/d", "value": 1}))]
    #[case(json!({"op": "replace", "path": "/l/3", "value": 1}))]
    #[case(json!({"op": "replace", "path": "/l/-", "value": 1}))]
    #[case(json!({"op": "move", "from": "/a/c", "path": "/a/b"}))]
    #[case(json!({"op": "move", "from": "/a", "path": "/a/b"}))]
    #[case(json!({"op": "copy", "from": "/c/d", "path": "/a/b"}))]
    #[case(json!({"op": "copy", "path": "/a/b"}))]
    #[case(json!({"op": "test", "path": "/a/b", "value": "2"}))]
    #[case(json!({"op": "test", "path": "/l/0", "value": 1.0}))]
    #[case(json!({"op": "test", "path": "/a/b"}))]
    #[case(json!({"op": "jump", "path": "/a"}))]
    #[case(json!({"path": "/a"}))]
    #[case(Value::Null)]
    fn refuses(#[case] operation: Value) {
        assert_eq!(applied(json!([operation])), None);
    }
}
