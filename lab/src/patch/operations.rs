//! The operations of a JSON patch as the API server carries them out: RFC 6902, read generously.
//!
//! A replaced member need not be there, a missing member is the same as `null`, an index below zero counts from the end
//! of a list, and only what stands behind a path's first slash counts. It knows nothing of kinds and decodes nothing.

use serde_json::{Map, Value};

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
        "add" => add(place(document, text("path")?)?, given()),
        "remove" => remove(place(document, text("path")?)?).map(drop),
        "replace" => replace(document, text("path")?, given()),
        "test" => test(document, text("path")?, value.ok_or(NotApplicable)?),
        "move" => {
            let moved = remove(place(document, text("from")?)?)?;
            add(place(document, text("path")?)?, moved)
        }
        "copy" => {
            let copied = read(&place(document, text("from")?)?)?;
            add(place(document, text("path")?)?, copied)
        }
        _ => Err(NotApplicable),
    }
}

/// What holds the value that a path names.
enum Holder<'a> {
    Map(&'a mut Map<String, Value>),
    List(&'a mut Vec<Value>),
}

impl<'a> Holder<'a> {
    fn of(value: &'a mut Value) -> Result<Self, NotApplicable> {
        match value {
            Value::Object(map) => Ok(Self::Map(map)),
            Value::Array(list) => Ok(Self::List(list)),
            _ => Err(NotApplicable),
        }
    }

    fn into_member(self, key: &str) -> Result<&'a mut Value, NotApplicable> {
        match self {
            Self::Map(map) => map.get_mut(key).ok_or(NotApplicable),
            Self::List(list) => {
                let at = index(key, list.len())?;
                list.get_mut(at).ok_or(NotApplicable)
            }
        }
    }
}

/// A holder and the last part of a path, which need not be there yet.
struct Place<'a> {
    holder: Holder<'a>,
    key: String,
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Where a path leads; everything but its last part must be there.
fn place<'a>(document: &'a mut Value, path: &str) -> Result<Place<'a>, NotApplicable> {
    let (_, path) = path.split_once('/').ok_or(NotApplicable)?;
    let (parents, key) = path.rsplit_once('/').map_or((None, path), |(parents, key)| (Some(parents), key));
    let mut holder = Holder::of(document)?;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        holder = Holder::of(holder.into_member(&unescaped(part))?)?;
    }
    Ok(Place { holder, key: unescaped(key) })
}

/// The index that a part of a path means in a list of `length` items.
fn index(part: &str, length: usize) -> Result<usize, NotApplicable> {
    let number: i64 = part.parse().map_err(|_| NotApplicable)?;
    let length = i64::try_from(length).map_err(|_| NotApplicable)?;
    let number = if number < 0 { number + length } else { number };
    if number >= length {
        return Err(NotApplicable);
    }
    usize::try_from(number).map_err(|_| NotApplicable)
}

fn read(place: &Place<'_>) -> Result<Value, NotApplicable> {
    match &place.holder {
        Holder::Map(map) => Ok(map.get(&place.key).cloned().unwrap_or_default()),
        Holder::List(list) => list.get(index(&place.key, list.len())?).cloned().ok_or(NotApplicable),
    }
}

fn add(place: Place<'_>, value: Value) -> Result<(), NotApplicable> {
    match place.holder {
        Holder::Map(map) => {
            map.insert(place.key, value);
        }
        Holder::List(list) if place.key == "-" => list.push(value),
        Holder::List(list) => list.insert(index(&place.key, list.len() + 1)?, value),
    }
    Ok(())
}

fn remove(place: Place<'_>) -> Result<Value, NotApplicable> {
    match place.holder {
        Holder::Map(map) => map.remove(&place.key).ok_or(NotApplicable),
        Holder::List(list) => Ok(list.remove(index(&place.key, list.len())?)),
    }
}

/// The whole document gives way to a map or a list only; to anything else it does not, and that is no error.
fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), NotApplicable> {
    if path.is_empty() {
        if value.is_object() || value.is_array() {
            *document = value;
        }
        return Ok(());
    }
    let place = place(document, path)?;
    match place.holder {
        Holder::Map(map) => {
            map.insert(place.key, value);
        }
        Holder::List(_) => *place.holder.into_member(&place.key)? = value,
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, value: &Value) -> Result<(), NotApplicable> {
    let found = if path.is_empty() { document.clone() } else { read(&place(document, path)?)? };
    if found == *value { Ok(()) } else { Err(NotApplicable) }
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
