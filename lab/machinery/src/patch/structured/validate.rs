//! Does an applied object fit the schema, in the words of upstream's structured merge.

use std::collections::HashSet;

use serde_json::Value;
use service_api::cut::cut;

use crate::managed_fields::compare::{item_element, key_default};
use crate::managed_fields::set::element_text;
use crate::patch::PatchFault;
use crate::patch::go::text as go_text;
use crate::schema::{KindSchema, ListKind, ListType, Scalar, Type};

/// Checks an object that a manager applies.
///
/// # Errors
/// The faults, in upstream's order.
pub(in crate::patch) fn validate(kind: &'static KindSchema, object: &Value) -> Result<(), Vec<PatchFault>> {
    let mut faults = Faults::default();
    for (name, value) in object.as_object().into_iter().flatten() {
        let path = At { above: None, part: Part::Member(name) };
        match kind.root().field(name) {
            Some((_, field)) => check(&field.ty, value, &path, &mut faults),
            None => faults.push(&path, INVALID, UNDECLARED),
        }
    }
    if faults.0.is_empty() { Ok(()) } else { Err(faults.0) }
}

const UNDECLARED: &str = "field not declared in schema";
const INVALID: &str = "FieldValueInvalid";
const TYPE: &str = "FieldValueTypeInvalid";
const DUPLICATE: &str = "FieldValueDuplicate";

/// All faults as upstream joins them.
pub(in crate::patch) fn joined(faults: &[PatchFault]) -> String {
    let text = |fault: &PatchFault| match fault.field.as_str() {
        "" => fault.words.clone(),
        field => format!(".{field}: {}", fault.words),
    };
    match faults {
        [one] => text(one),
        many => std::iter::once("errors:".to_owned())
            .chain(many.iter().map(|fault| format!("  {}", text(fault))))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// Most faults that are listed.
const MAX_FAULTS: usize = 100;

/// Where a check has got to. Written out for a fault only: most values have none.
struct At<'a> {
    above: Option<&'a At<'a>>,
    part: Part<'a>,
}

enum Part<'a> {
    Member(&'a str),
    Index(usize),
    /// A list item by its keys, as upstream prints it.
    Item(&'a str),
}

impl<'a> At<'a> {
    fn below(&'a self, part: Part<'a>) -> At<'a> {
        At { above: Some(self), part }
    }

    fn text(&self) -> String {
        let above = self.above.map_or_else(String::new, At::text);
        match self.part {
            Part::Member(name) => format!("{above}.{}", cut(name)),
            Part::Index(at) => format!("{above}[{at}]"),
            Part::Item(text) => format!("{above}{text}"),
        }
    }
}

#[derive(Default)]
struct Faults(Vec<PatchFault>);

impl Faults {
    fn push(&mut self, path: &At<'_>, reason: &'static str, words: &str) {
        match self.0.len() {
            ..MAX_FAULTS => {
                let field = path.text();
                let field = field.strip_prefix('.').unwrap_or(&field).to_owned();
                self.0.push(PatchFault { field, reason, words: cut(words).to_string() });
            }
            MAX_FAULTS => {
                let words = format!("there are more, of which only the first {MAX_FAULTS} are listed");
                self.0.push(PatchFault { field: String::new(), reason, words });
            }
            _ => {}
        }
    }
}

fn check(ty: &Type, value: &Value, path: &At<'_>, faults: &mut Faults) {
    if value.is_null() {
        return;
    }
    match (ty, value) {
        (Type::Scalar(scalar, _), _) => {
            if let Some(fault) = check_scalar(*scalar, value) {
                faults.push(path, TYPE, &fault);
            }
        }
        (Type::List(list), Value::Array(items)) => check_items(list, items, path, faults),
        (Type::List(_), _) => {
            faults.push(path, TYPE, &format!("expected list, got &{{{}}}", go_text(value)));
        }
        (Type::Struct(_), Value::Object(map)) => {
            let Some(strukt) = ty.as_struct() else { return };
            for (name, value) in map {
                let path = path.below(Part::Member(name));
                match strukt.field(name) {
                    Some((_, field)) => check(&field.ty, value, &path, faults),
                    None => faults.push(&path, INVALID, UNDECLARED),
                }
            }
        }
        (Type::Map(map), Value::Object(entries)) => {
            for (name, value) in entries {
                check(&map.value, value, &path.below(Part::Member(name)), faults);
            }
        }
        (Type::Struct(_) | Type::Map(_), _) => {
            faults.push(path, TYPE, &format!("expected map, got &{{{}}}", go_text(value)));
        }
    }
}

fn check_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::String | Scalar::Bytes if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)))
        }
        Scalar::Int32 | Scalar::Int64 | Scalar::Double if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Bool if !value.is_boolean() => Some(format!("expected boolean, got &{{{}}}", go_text(value))),
        Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime
            if value.is_object() || value.is_array() =>
        {
            Some(format!("expected any scalar, got &{{{}}}", go_text(value)))
        }
        _ => None,
    }
}

/// The Go type of a decoded JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(k, v)| format!("{k:?}:{}", go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn check_items(list: &ListType, items: &[Value], path: &At<'_>, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        if list.kind == ListKind::Atomic {
            check(&list.item, item, &path.below(Part::Index(at)), faults);
            continue;
        }
        if let Some(fault) = unkeyed(list, item) {
            faults.push(path, TYPE, &format!("element {at}: {fault}"));
            continue;
        }
        let element = item_element(list, item);
        let text = element_text(&element);
        if !seen.insert(element) {
            faults.push(path, DUPLICATE, &format!("duplicate entries for key {text}"));
        }
        check(&list.item, item, &path.below(Part::Item(&text)), faults);
    }
}

/// Why an item has no key, if it has none.
fn unkeyed(list: &ListType, item: &Value) -> Option<String> {
    match (&list.kind, item) {
        (ListKind::Map(keys), Value::Object(map)) => {
            let strukt = list.item.as_struct()?;
            let missing =
                keys.iter().find(|key| !map.contains_key(**key) && key_default(strukt, key).is_none())?;
            Some(format!(
                "associative list with keys has an element that omits key field {missing:?} (and doesn't have default value)"
            ))
        }
        (ListKind::Map(_), Value::Null) => {
            Some("associative list with keys may not have a null element".to_owned())
        }
        (ListKind::Map(_), _) => Some("associative list with keys may not have non-map elements".to_owned()),
        (_, Value::Object(_)) => {
            Some("associative list without keys has an element that's a map type".to_owned())
        }
        (_, Value::Array(_)) => Some("not supported: associative list with lists as elements".to_owned()),
        (_, Value::Null) => {
            Some("associative list without keys has an element that's an explicit null".to_owned())
        }
        _ => None,
    }
}
