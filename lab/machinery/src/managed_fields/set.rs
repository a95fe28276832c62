//! Sets of field paths in the form that `fieldsV1` has: nested maps whose keys are path elements.
//!
//! An element is `f:<name>` (a field), `k:<json>` (a list item by its keys), `v:<json>` (an item of a set) or `i:<n>`.
//! Its value holds the elements below it; `"."` among them says that the element itself is in the set, and so does an
//! empty value. Working on this form spares a conversion for every write.

use serde_json::{Map, Value};
use service_api::cut::cut_to;

/// A set of field paths: the elements below the root.
pub(crate) type FieldSet = Map<String, Value>;

const SELF: &str = ".";
/// Of a longer element a message has the beginning: what is below it has messages too.
const MAX_ELEMENT: usize = 512;

/// A path element with what is below it, while a set is being built.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The element itself is in the set.
    pub(crate) member: bool,
    /// The elements below it.
    pub(crate) children: FieldSet,
}

impl Node {
    /// An element that is in the set and has nothing below it.
    pub(crate) fn leaf() -> Self {
        Node { member: true, children: FieldSet::new() }
    }

    /// Nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Adds the node to a set under the name `element`, unless it is empty.
    pub(crate) fn put(self, set: &mut FieldSet, element: impl Into<String>) {
        if let Some(value) = self.into_value() {
            set.insert(element.into(), value);
        }
    }

    fn into_value(mut self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        if self.member && !self.children.is_empty() {
            self.children.insert(SELF.to_owned(), Value::Object(Map::new()));
        }
        Some(Value::Object(self.children))
    }
}

/// Is the element itself in the set?
pub(crate) fn is_member(value: &Value) -> bool {
    value.as_object().is_none_or(|m| m.is_empty() || m.contains_key(SELF))
}

/// The elements below an element.
pub(crate) fn children(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten().filter(|(name, _)| *name != SELF)
}

/// Adds all of `other` to `set`.
pub(crate) fn union(set: &mut FieldSet, other: &FieldSet) {
    for (element, theirs) in other {
        match set.get_mut(element) {
            None => {
                set.insert(element.clone(), theirs.clone());
            }
            Some(ours) => union_value(ours, theirs),
        }
    }
}

fn union_value(ours: &mut Value, theirs: &Value) {
    let member = is_member(ours) || is_member(theirs);
    let Value::Object(map) = ours else { return };
    map.remove(SELF);
    for (element, theirs) in children(theirs) {
        match map.get_mut(element) {
            None => {
                map.insert(element.clone(), theirs.clone());
            }
            Some(ours) => union_value(ours, theirs),
        }
    }
    if member && !map.is_empty() {
        map.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
}

/// Takes the members of `other` out of `set`; says whether anything was taken.
pub(crate) fn subtract(set: &mut FieldSet, other: &FieldSet) -> bool {
    let mut taken = false;
    let mut take = |ours: &mut Value, theirs: &Value| {
        let (changed, empty) = subtract_value(ours, theirs);
        taken |= changed;
        !empty
    };
    // The shorter side leads: an object may have many managers with few fields each.
    if set.len() < other.len() {
        set.retain(|element, ours| {
            element == SELF || other.get(element).is_none_or(|theirs| take(ours, theirs))
        });
        return taken;
    }
    for (element, theirs) in other.iter().filter(|(element, _)| *element != SELF) {
        let Some(ours) = set.get_mut(element) else { continue };
        if !take(ours, theirs) {
            set.remove(element);
        }
    }
    taken
}

/// Whether something was taken, and whether nothing is left.
fn subtract_value(ours: &mut Value, theirs: &Value) -> (bool, bool) {
    let was_member = is_member(ours);
    let member = was_member && !is_member(theirs);
    let mut taken = was_member != member;
    let Value::Object(map) = ours else { return (true, true) };
    if let Value::Object(theirs) = theirs {
        taken |= subtract(map, theirs);
    }
    if !taken {
        return (false, false);
    }
    map.remove(SELF);
    if map.is_empty() {
        return (true, !member);
    }
    if member {
        map.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    (true, false)
}

/// Takes everything at and below `path` out of `set`.
pub(crate) fn remove_below(set: &mut FieldSet, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        set.remove(*first);
    } else if let Some(Value::Object(inner)) = set.get_mut(*first) {
        let member = inner.is_empty() || inner.contains_key(SELF);
        remove_below(inner, rest);
        inner.remove(SELF);
        if inner.is_empty() && !member {
            set.remove(*first);
        } else if member && !inner.is_empty() {
            inner.insert(SELF.to_owned(), Value::Object(Map::new()));
        }
    }
}

/// What is in both sets.
pub(crate) fn intersection(a: &FieldSet, b: &FieldSet) -> FieldSet {
    let mut out = FieldSet::new();
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    for (element, ours) in few.iter().filter(|(element, _)| *element != SELF) {
        if let Some(theirs) = many.get(element) {
            intersect_value(ours, theirs).put(&mut out, element.as_str());
        }
    }
    out
}

fn intersect_value(a: &Value, b: &Value) -> Node {
    let children = match (a, b) {
        (Value::Object(a), Value::Object(b)) => intersection(a, b),
        _ => FieldSet::new(),
    };
    Node { member: is_member(a) && is_member(b), children }
}

/// Visits the paths of all members: at each level the members first, then what is below them, as upstream lists them.
pub(crate) fn each_member<'a>(set: &'a FieldSet, visit: &mut dyn FnMut(&[&'a str])) {
    fn walk<'a>(
        path: &mut Vec<&'a str>,
        below: &[(&'a String, &'a Value)],
        visit: &mut dyn FnMut(&[&'a str]),
    ) {
        for (element, value) in below {
            if is_member(value) {
                path.push(element.as_str());
                visit(path);
                path.pop();
            }
        }
        for (element, value) in below {
            let inner: Vec<_> = children(value).collect();
            if !inner.is_empty() {
                path.push(element.as_str());
                walk(path, &inner, visit);
                path.pop();
            }
        }
    }
    let below: Vec<_> = set.iter().collect();
    walk(&mut Vec::new(), &below, visit);
}

/// Reads a `fieldsV1` that a client sent: checks the elements and writes list keys in their canonical form.
///
/// # Errors
/// What is wrong with an element.
pub(crate) fn parse(fields: &Value) -> Result<FieldSet, String> {
    let Value::Object(map) = fields else { return Err("fieldsV1 must be an object".to_owned()) };
    let mut set = FieldSet::new();
    for (element, value) in map {
        if element == SELF {
            continue;
        }
        parse_value(value)?.put(&mut set, canonical(element)?);
    }
    Ok(set)
}

fn parse_value(value: &Value) -> Result<Node, String> {
    let Value::Object(map) = value else { return Err("path elements must hold objects".to_owned()) };
    Ok(Node {
        member: is_member(value),
        children: if map.is_empty() { FieldSet::new() } else { parse(value)? },
    })
}

fn canonical(element: &str) -> Result<String, String> {
    let Some((kind, text)) = element.split_once(':') else {
        return Err(format!("missing colon in {element:?}"));
    };
    let json = || serde_json::from_str::<Value>(text).map_err(|e| format!("{element:?}: {e}"));
    match kind {
        "f" => Ok(element.to_owned()),
        // Parsing sorts the keys of an object.
        "k" | "v" => Ok(format!("{kind}:{}", json()?)),
        "i" => text.parse::<i64>().map(|n| format!("i:{n}")).map_err(|e| format!("{element:?}: {e}")),
        _ => Err(format!("unknown path element {element:?}")),
    }
}

/// A path as upstream prints it: `.spec.ports[port=80,protocol="TCP"].targetPort`.
pub(crate) fn path_text(path: &[&str]) -> String {
    path.iter().map(|element| element_text(element)).collect()
}

/// One element as upstream prints it.
pub(crate) fn element_text(element: &str) -> String {
    let (kind, text) = element.split_once(':').unwrap_or(("f", element));
    if text.len() > MAX_ELEMENT {
        return format!("[{}]", cut_to(text, MAX_ELEMENT));
    }
    match kind {
        "f" => format!(".{text}"),
        "v" => format!("[={text}]"),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        _ => format!("[{text}]"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn members(set: &FieldSet) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        each_member(set, &mut |path| {
            out.insert(path.join("/"));
        });
        out
    }

    fn of(value: &Value) -> FieldSet {
        value.as_object().cloned().unwrap_or_default()
    }

    /// Sets over a small alphabet, so that they meet.
    pub(in crate::managed_fields) fn sets() -> impl Strategy<Value = FieldSet> {
        Just(FieldSet::new()).prop_recursive(4, 24, 3, |inner| {
            prop::collection::btree_map(
                prop::sample::select(vec!["f:a", "f:b", "k:{\"n\":1}", "v:\"x\""]),
                (any::<bool>(), inner),
                0..4,
            )
            .prop_map(|map| {
                let mut set = FieldSet::new();
                for (element, (member, children)) in map {
                    Node { member, children }.put(&mut set, element);
                }
                set
            })
        })
    }

    proptest! {
        #[test]
        fn set_algebra(a in sets(), b in sets()) {
            let (ma, mb) = (members(&a), members(&b));
            let mut union_ = a.clone();
            union(&mut union_, &b);
            prop_assert_eq!(members(&union_), &ma | &mb);
            let both = intersection(&a, &b);
            prop_assert_eq!(members(&both), &ma & &mb);
            let mut rest = a.clone();
            let taken = subtract(&mut rest, &b);
            prop_assert_eq!(members(&rest), &ma - &mb);
            prop_assert_eq!(taken, !both.is_empty());
            // Two forms of the same set are equal.
            union(&mut rest, &both);
            prop_assert_eq!(&rest, &a);
        }

        #[test]
        fn the_wire_form_comes_back(a in sets()) {
            let text = serde_json::to_string(&a).unwrap();
            let back = parse(&serde_json::from_str(&text).unwrap()).unwrap();
            prop_assert_eq!(back, a);
        }
    }

    #[rstest]
    #[case(&["f:spec", "f:ports", "k:{\"port\":80,\"protocol\":\"TCP\"}", "f:targetPort"], r#".spec.ports[port=80,protocol="TCP"].targetPort"#)]
    #[case(&["f:metadata", "f:finalizers", "v:\"a/b\""], r#".metadata.finalizers[="a/b"]"#)]
    #[case(&["f:metadata", "f:labels", "f:app.kubernetes.io/name"], ".metadata.labels.app.kubernetes.io/name")]
    #[case(&["f:x", "i:3"], ".x[3]")]
    fn paths_print_as_upstream_prints_them(#[case] path: &[&str], #[case] text: &str) {
        assert_eq!(path_text(path), text);
    }

    #[test]
    fn list_keys_are_brought_into_one_form() {
        let set = parse(&json!({"k:{ \"b\": 2, \"a\": \"x\" }": {".": {}, "f:c": {}}})).unwrap();
        assert_eq!(set, of(&json!({"k:{\"a\":\"x\",\"b\":2}": {".": {}, "f:c": {}}})));
        assert!(parse(&json!({"x": {}})).is_err());
        assert!(parse(&json!({"k:{": {}})).is_err());
    }

    #[test]
    fn a_path_is_removed_with_all_below() {
        let mut set = of(
            &json!({"f:status": {"f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:uid": {}}}),
        );
        remove_below(&mut set, &["f:status"]);
        remove_below(&mut set, &["f:metadata", "f:labels"]);
        assert_eq!(set, of(&json!({"f:metadata": {"f:uid": {}}})));
    }
}
