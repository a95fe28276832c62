//! Field selectors: `metadata.name=a,spec.type!=ClusterIP`.
//!
//! Rules: <https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/>.

use serde_json::Value;

use crate::registry::entry::Entry;
use crate::store::Stored;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// A conjunction of comparisons of fields with fixed values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Comparison>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses a selector; an empty one selects everything. The error is the text of the answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut out = Vec::new();
        for term in split_terms(text).into_iter().filter(|term| !term.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            out.push(Comparison { field: field.to_owned(), equal, value: unescape(value)? });
        }
        Ok(Self(out))
    }

    /// May all its fields be selected in that kind?
    pub fn check(&self, entry: &Entry) -> Result<(), String> {
        let known = |field: &str| {
            field == NAME || field == NAMESPACE || entry.fields.iter().any(|known| known.label == field)
        };
        match self.0.iter().find(|comparison| !known(&comparison.field)) {
            None => Ok(()),
            Some(unknown) if entry.fields.is_empty() => Err(format!(
                "{:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                unknown.field
            )),
            Some(unknown) => Err(format!("field label not supported: {}", unknown.field)),
        }
    }

    /// Does it let everything through?
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name it selects, if it does so: a read of one object instead of a scan.
    pub fn single_name(&self) -> Option<&str> {
        self.0.iter().find(|c| c.equal && c.field == NAME).map(|c| c.value.as_str())
    }

    /// Are all comparisons met?
    pub fn matches(&self, entry: &Entry, object: &Stored) -> bool {
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|comparison| {
            let same = match comparison.field.as_str() {
                NAME => *object.name == *comparison.value,
                NAMESPACE => *object.namespace == *comparison.value,
                other => {
                    let body = parsed
                        .get_or_insert_with(|| serde_json::from_slice(&object.body).unwrap_or_default());
                    let field = entry.fields.iter().find(|known| known.label == other);
                    field.is_some_and(|field| (field.value)(body) == comparison.value)
                }
            };
            same == comparison.equal
        })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

/// Field, "is it `=`", value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!']).filter(|at| term[*at..].starts_with("!=") || term[*at..].starts_with('='));
    let at = at.or_else(|| term.find('='))?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).map(|value| (field, true, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {}", c as u32));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a=b", &[("a", true, "b")])]
    #[case("a==b,c!=d", &[("a", true, "b"), ("c", false, "d")])]
    #[case("a=", &[("a", true, "")])]
    #[case("a=b\\,c", &[("a", true, "b,c")])]
    #[case(",,", &[])]
    fn selectors_are_split(#[case] text: &str, #[case] expected: &[(&str, bool, &str)]) {
        let parsed = FieldSelector::parse(text).unwrap();
        let got: Vec<_> = parsed.0.iter().map(|c| (c.field.as_str(), c.equal, c.value.as_str())).collect();
        assert_eq!(got, expected);
    }

    #[rstest]
    #[case("a", "invalid selector: 'a'; can't understand 'a'")]
    #[case("a=b\\x", "invalid field selector: invalid escape sequence: \\x")]
    #[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
    fn faults_are_named(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(FieldSelector::parse(text).unwrap_err(), expected);
    }
}
