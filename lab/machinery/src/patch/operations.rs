//! The operations of a JSON patch as the API server reads them: RFC 6902, generously.
//!
//! A replaced member need not be there, a missing member is the same as `null`, an index below zero counts from the end
//! of a list, and only what stands behind a path's first slash counts. Each operation is put into the words of the RFC
//! for the document as it then is; carrying it out is the library's business. Knows nothing of kinds.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::Value;

/// Most bytes, as JSON, that all copies of one patch may add, as upstream: the limit of a request's body.
const MAX_COPIED: usize = 3 << 20;
/// Deepest document, so that nothing that walks it needs more stack than there is.
const MAX_DEPTH: usize = 256;
/// How many values all operations together may move, and look at to do so: a patch of ten thousand short operations
/// could shift a list of a million items each time.
const MAX_WORK: usize = 1 << 24;

/// An operation that cannot be carried out. Upstream does not tell its users why either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation does not apply")]
pub(super) struct NotApplicable;

/// Carries out all operations, in order. After an error `document` is of no more use.
pub(super) fn apply(document: &mut Value, operations: &[Value]) -> Result<(), NotApplicable> {
    let mut patching = Patching { document, copied: 0, work: 0 };
    operations.iter().try_for_each(|operation| patching.apply(operation))
}

/// A document under change, and what that has cost.
struct Patching<'a> {
    document: &'a mut Value,
    /// Bytes of JSON.
    copied: usize,
    /// Values.
    work: usize,
}

impl Patching<'_> {
    fn apply(&mut self, operation: &Value) -> Result<(), NotApplicable> {
        let text = |member: &str| operation.get(member).and_then(Value::as_str).ok_or(NotApplicable);
        let value = operation.get("value");
        let given = || value.cloned().unwrap_or_default();
        match text("op")? {
            "add" => self.add(text("path")?, given()),
            "remove" => self.remove(text("path")?),
            "replace" => self.replace(text("path")?, given()),
            "test" => self.test(text("path")?, value.ok_or(NotApplicable)?),
            "move" => {
                let from = pointer(self.document, text("from")?, 0)?;
                let moved = self.document.pointer_mut(&from).ok_or(NotApplicable)?.take();
                self.remove(text("from")?)?;
                self.add(text("path")?, moved)
            }
            "copy" => {
                let from = pointer(self.document, text("from")?, 0)?;
                let source = read(self.document, &from)?.unwrap_or(&Value::Null);
                let left = MAX_COPIED.checked_sub(self.copied).ok_or(NotApplicable)?;
                self.copied += json_length(source, left).ok_or(NotApplicable)?;
                let copied = source.clone();
                self.add(text("path")?, copied)
            }
            _ => Err(NotApplicable),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), NotApplicable> {
        let path = pointer(self.document, path, 1)?;
        self.fits(&path, &value)?;
        self.shifts(&path)?;
        self.carry_out(PatchOperation::Add(AddOperation { path: parsed(path)?, value }))
    }

    fn remove(&mut self, path: &str) -> Result<(), NotApplicable> {
        let path = pointer(self.document, path, 0)?;
        self.shifts(&path)?;
        self.carry_out(PatchOperation::Remove(RemoveOperation { path: parsed(path)? }))
    }

    /// The whole document gives way to a map or a list only.
    fn replace(&mut self, path: &str, value: Value) -> Result<(), NotApplicable> {
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err(NotApplicable);
            }
            *self.document = value;
            return Ok(());
        }
        let path = pointer(self.document, path, 0)?;
        self.fits(&path, &value)?;
        let there = read(self.document, &path)?.is_some();
        let path = parsed(path)?;
        self.carry_out(if there {
            PatchOperation::Replace(ReplaceOperation { path, value })
        } else {
            PatchOperation::Add(AddOperation { path, value })
        })
    }

    fn test(&mut self, path: &str, value: &Value) -> Result<(), NotApplicable> {
        let path = if path.is_empty() { String::new() } else { pointer(self.document, path, 0)? };
        if value.is_null() && read(self.document, &path)?.is_none() {
            return Ok(());
        }
        let value = value.clone();
        self.carry_out(PatchOperation::Test(TestOperation { path: parsed(path)?, value }))
    }

    fn carry_out(&mut self, operation: PatchOperation) -> Result<(), NotApplicable> {
        json_patch::patch(self.document, &[operation]).map_err(|_| NotApplicable)
    }

    /// A value at that place must not make the document too deep.
    fn fits(&mut self, path: &str, value: &Value) -> Result<(), NotApplicable> {
        let above = path.matches('/').count();
        let (values, depth) = extent(value);
        self.spend(values)?;
        if above + depth > MAX_DEPTH { Err(NotApplicable) } else { Ok(()) }
    }

    /// What stands behind a place in a list moves when that place is made or goes.
    fn shifts(&mut self, path: &str) -> Result<(), NotApplicable> {
        let (parent, _) = path.rsplit_once('/').unwrap_or_default();
        let list = self.document.pointer(parent).and_then(Value::as_array);
        self.spend(list.map_or(1, Vec::len))
    }

    fn spend(&mut self, values: usize) -> Result<(), NotApplicable> {
        self.work = self.work.saturating_add(values);
        if self.work > MAX_WORK { Err(NotApplicable) } else { Ok(()) }
    }
}

/// How many values a value is made of, and how many levels.
fn extent(value: &Value) -> (usize, usize) {
    let below = |inner: &mut dyn Iterator<Item = &Value>| {
        inner.map(extent).fold((1, 1), |(values, depth), (more, deep)| (values + more, depth.max(deep + 1)))
    };
    match value {
        Value::Array(items) => below(&mut items.iter()),
        Value::Object(map) => below(&mut map.values()),
        _ => (1, 1),
    }
}

/// How long a value is as JSON; `None` beyond `most`.
fn json_length(value: &Value, most: usize) -> Option<usize> {
    struct Counter {
        length: usize,
        most: usize,
    }
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.length += bytes.len();
            if self.length > self.most { Err(std::io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter { length: 0, most };
    serde_json::to_writer(&mut counter, value).ok()?;
    Some(counter.length)
}

fn parsed(path: String) -> Result<PointerBuf, NotApplicable> {
    PointerBuf::parse(path).map_err(|_| NotApplicable)
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
    let mut out = String::with_capacity(path.len() + 1);
    let mut parts = path.split('/').peekable();
    let mut here = Some(document);
    while let Some(part) = parts.next() {
        let room = if parts.peek().is_none() { room } else { 0 };
        let start = out.len();
        out.push('/');
        match (here, part.parse::<i64>()) {
            (Some(Value::Array(list)), Ok(number)) => out += &index(number, list.len() + room)?.to_string(),
            _ => out += part,
        }
        here = here.and_then(|value| value.pointer(&out[start..]));
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
    #[case(json!({"op": "replace", "path": "", "value": 5}))]
    #[case(json!({"op": "replace", "path": "", "value": "x"}))]
    #[case(json!({"op": "replace", "path": "", "value": null}))]
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

    fn cost_of(operations: &[Value], document: &mut Value) -> (Result<(), NotApplicable>, usize) {
        let mut patching = Patching { document, copied: 0, work: 0 };
        let done = operations.iter().try_for_each(|operation| patching.apply(operation));
        (done, patching.work + patching.copied)
    }

    #[test]
    fn copies_that_double_the_document_end_at_a_bound() {
        let doubling = |copies: usize| {
            let copy = |at: usize| json!({"op": "copy", "from": "/m", "path": format!("/m/k{at}")});
            let mut document = json!({"m": {"x": "x".repeat(1000)}});
            let operations: Vec<Value> = (0..copies).map(copy).collect();
            cost_of(&operations, &mut document)
        };
        assert_eq!(doubling(5).0, Ok(()));
        for copies in [18, 30, 10_000] {
            let (done, cost) = doubling(copies);
            assert_eq!(done, Err(NotApplicable), "{copies}");
            assert!(cost < 2 * MAX_COPIED, "{cost}");
        }
    }

    #[rstest]
    #[case::inserts(json!({"op": "add", "path": "/l/0", "value": 1}))]
    #[case::removes(json!({"op": "remove", "path": "/l/0"}))]
    #[case::moves(json!({"op": "move", "from": "/l", "path": "/l"}))]
    fn shifting_a_long_list_again_and_again_ends_at_a_bound(#[case] operation: Value) {
        let mut document = json!({"l": vec![0; 100_000]});
        let (done, cost) = cost_of(&vec![operation; 10_000], &mut document);
        assert_eq!(done, Err(NotApplicable));
        assert!(cost <= MAX_WORK + 200_000, "{cost}");
    }

    #[rstest]
    #[case::adds(|_| vec![json!({"op": "add", "path": format!("{}/a", "/a".repeat(200)), "value": [[[[]]]]})])]
    #[case::moves(|at: usize| vec![
        json!({"op": "add", "path": format!("/n{at}"), "value": {}}),
        json!({"op": "move", "from": if at == 0 { "/a".to_owned() } else { format!("/n{}", at - 1) }, "path": format!("/n{at}/x")}),
    ])]
    fn no_document_becomes_too_deep(#[case] of: fn(usize) -> Vec<Value>) {
        let mut document = json!({"a": {}});
        let operations: Vec<Value> = (0..4000).flat_map(of).collect();
        assert!(apply(&mut document, &operations).is_err());
        assert!(extent(&document).1 <= MAX_DEPTH + 1);
    }

    #[test]
    fn a_path_of_a_million_parts_costs_its_length() {
        let path = "/a".repeat(1_000_000);
        assert_eq!(applied(json!([{"op": "add", "path": path, "value": 1}])), None);
    }
}
