//! Compares an expected value with an answer: placeholders, bindings, references. Lists are in order; see [`crate::listing`]
//! for lists without one. Never talks to a server.

use serde_json::{Map, Value};

use crate::{
    bindings::{Bindings, has_reference},
    placeholder::{Placeholder, PortRange},
};

/// One place where the answer is not as expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// JSON path, empty for the whole.
    pub path: String,
    /// What was expected; `None` for a key that must be absent.
    pub expected: Option<Value>,
    /// What came; `None` for an absent key.
    pub got: Option<Value>,
    /// More about it, if the two do not say it all.
    pub note: String,
}

/// A comparison in progress: the values bound so far and the places that differ.
#[derive(Debug, Clone)]
pub struct Matcher {
    /// Values bound in earlier steps and in this answer.
    pub bindings: Bindings,
    ports: PortRange,
    mismatches: Vec<Mismatch>,
    /// Expected strings with references that may be bound later in the same answer.
    deferred: Vec<(String, String, Value)>,
}

impl Matcher {
    /// Starts a comparison; `ports` is the server's node port range.
    pub fn new(bindings: Bindings, ports: PortRange) -> Self {
        Self { bindings, ports, mismatches: Vec::new(), deferred: Vec::new() }
    }

    /// Whether nothing differs so far.
    pub fn matches(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// How many places differ so far.
    pub fn differences(&self) -> usize {
        self.mismatches.len()
    }

    /// Ends the comparison: resolves the references and says what differs.
    pub fn finish(mut self) -> (Bindings, Vec<Mismatch>) {
        self.resolve();
        (self.bindings, self.mismatches)
    }

    /// Compares the references kept for later with what is bound now.
    pub fn resolve(&mut self) {
        for (path, expected, got) in std::mem::take(&mut self.deferred) {
            match self.bindings.in_text(&expected) {
                Ok(value) if value == got => {}
                Ok(value) => self.differs(&path, Some(value), Some(got), format!("from {expected:?}")),
                Err(unbound) => self.differs(&path, Some(expected.into()), Some(got), unbound.to_string()),
            }
        }
    }

    /// Notes a difference.
    pub fn differs(
        &mut self,
        path: &str,
        expected: Option<Value>,
        got: Option<Value>,
        note: impl Into<String>,
    ) {
        self.mismatches.push(Mismatch { path: path.to_owned(), expected, got, note: note.into() });
    }

    /// Compares one value.
    pub fn value(&mut self, path: &str, expected: &Value, got: &Value) {
        match (expected, got) {
            (Value::String(text), _) => self.text(path, text, got),
            (Value::Object(expected), Value::Object(got)) => self.object(path, expected, got),
            (Value::Array(expected), Value::Array(got)) => self.list(path, expected, got),
            _ if expected == got => {}
            _ => self.differs(path, Some(expected.clone()), Some(got.clone()), ""),
        }
    }

    fn object(&mut self, path: &str, expected: &Map<String, Value>, got: &Map<String, Value>) {
        for (key, expected) in expected {
            let path = join(path, key);
            match got.get(key) {
                Some(got) => self.value(&path, expected, got),
                None => self.differs(&path, Some(expected.clone()), None, ""),
            }
        }
        for (key, got) in got.iter().filter(|(key, _)| !expected.contains_key(*key)) {
            self.differs(&join(path, key), None, Some(got.clone()), "");
        }
    }

    fn list(&mut self, path: &str, expected: &[Value], got: &[Value]) {
        for (index, pair) in pairs(expected, got).enumerate() {
            let path = format!("{path}[{index}]");
            match pair {
                (Some(expected), Some(got)) => self.value(&path, expected, got),
                (expected, got) => self.differs(&path, expected.cloned(), got.cloned(), ""),
            }
        }
    }

    fn text(&mut self, path: &str, expected: &str, got: &Value) {
        let placeholder = match Placeholder::parse(expected) {
            Ok(Some(placeholder)) => placeholder,
            Ok(None) => return self.plain_text(path, expected, got),
            Err(unknown) => {
                return self.differs(path, Some(expected.into()), Some(got.clone()), unknown.to_string());
            }
        };
        if !placeholder.kind.accepts(got, self.ports) {
            return self.differs(path, Some(expected.into()), Some(got.clone()), "");
        }
        if let Some(name) = &placeholder.binds
            && let Err(bound) = self.bindings.bind(name, got)
        {
            self.differs(path, Some(expected.into()), Some(got.clone()), format!("{name} is {bound}"));
        }
    }

    fn plain_text(&mut self, path: &str, expected: &str, got: &Value) {
        if has_reference(expected) {
            self.deferred.push((path.to_owned(), expected.to_owned(), got.clone()));
        } else if got != expected {
            self.differs(path, Some(expected.into()), Some(got.clone()), "");
        }
    }
}

/// The pairs of two lists, to the end of the longer one.
fn pairs<'v>(
    expected: &'v [Value],
    got: &'v [Value],
) -> impl Iterator<Item = (Option<&'v Value>, Option<&'v Value>)> + use<'v> {
    (0..expected.len().max(got.len())).map(|index| (expected.get(index), got.get(index)))
}

fn join(path: &str, key: &str) -> String {
    match (path, key.contains(['.', '/'])) {
        ("", false) => key.to_owned(),
        (path, false) => format!("{path}.{key}"),
        (path, true) => format!("{path}[{key}]"),
    }
}

/// Checks that the values of all references differ; says which two do not.
pub fn distinct(references: &[String], bindings: &Bindings) -> Result<(), String> {
    let mut seen: Vec<(&String, Value)> = Vec::with_capacity(references.len());
    for reference in references {
        let value = bindings.in_text(reference).map_err(|unbound| unbound.to_string())?;
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == value) {
            return Err(format!("{other} and {reference} are both {value}"));
        }
        seen.push((reference, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const PORTS: PortRange = PortRange { first: 30000, last: 32767 };

    fn compare(expected: &Value, got: &Value) -> (Bindings, Vec<Mismatch>) {
        let mut matcher = Matcher::new(Bindings::default(), PORTS);
        matcher.value("", expected, got);
        matcher.finish()
    }

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1, "b": null}), "b")]
    #[case(json!({"a": 1, "b": null}), json!({"a": 1}), "b")]
    #[case(json!({"a": 1}), json!({"a": "1"}), "a")]
    #[case(json!({"a": "1"}), json!({"a": 1}), "a")]
    #[case(json!({"a": {}}), json!({"a": []}), "a")]
    #[case(json!({"a": [1, 2]}), json!({"a": [2, 1]}), "a[0]")]
    #[case(json!({"a": [1]}), json!({"a": [1, 2]}), "a[1]")]
    #[case(json!({"a": [1, 2]}), json!({"a": [1]}), "a[1]")]
    #[case(json!({"x.y/z": 1}), json!({"x.y/z": 2}), "[x.y/z]")]
    #[case(json!({"a": "$rv"}), json!({"a": "x"}), "a")]
    #[case(json!({"a": "$rvs"}), json!({"a": "1"}), "a")]
    #[case(json!({"a": "$any"}), json!({}), "a")]
    #[case(json!({"a": "${gone}"}), json!({"a": "1"}), "a")]
    fn a_difference_has_its_path(#[case] expected: Value, #[case] got: Value, #[case] path: &str) {
        let (_, mismatches) = compare(&expected, &got);
        assert_eq!(mismatches.first().unwrap().path, path, "{mismatches:?}");
    }

    #[test]
    fn the_same_name_takes_the_same_value() {
        let expected = json!(["$port#p", "$port#p"]);
        assert!(compare(&expected, &json!([30001, 30001])).1.is_empty());
        let (bindings, mismatches) = compare(&expected, &json!([30001, 30002]));
        assert_eq!(mismatches.len(), 1);
        assert_eq!(bindings.get("p"), Some(&json!(30001)));
    }

    #[test]
    fn a_reference_may_stand_before_its_binding() {
        let expected = json!({"a message": "port ${p} is taken", "port": "$port#p", "same": "${p}"});
        assert!(
            compare(&expected, &json!({"a message": "port 30001 is taken", "port": 30001, "same": 30001}))
                .1
                .is_empty()
        );
        let (_, mismatches) =
            compare(&expected, &json!({"a message": "port 30001 is taken", "port": 30002, "same": "30002"}));
        let paths: Vec<&str> = mismatches.iter().map(|mismatch| mismatch.path.as_str()).collect();
        assert_eq!(paths, ["a message", "same"]);
    }

    #[test]
    fn distinct_names_the_equal_two() {
        let mut bindings = Bindings::default();
        for (name, value) in [("a", json!("x")), ("b", json!("y")), ("c", json!("x"))] {
            bindings.set(name, value);
        }
        let references = |names: &[&str]| names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>();
        assert_eq!(distinct(&references(&["a", "b"]), &bindings), Ok(()));
        assert_eq!(
            distinct(&references(&["a", "b", "c"]), &bindings),
            Err("${a} and ${c} are both \"x\"".into())
        );
        assert!(distinct(&references(&["d"]), &bindings).is_err());
    }
}
