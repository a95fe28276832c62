//! Field selectors: the text form of list and watch requests, and matching.
//!
//! Which fields a kind can be selected by is fixed per kind; [`Selector::check`] knows them.

use std::borrow::Cow;

/// Why a field selector can not be read; its text is what upstream answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A part has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{part}'")]
    NoOperator {
        /// The whole text.
        selector: String,
        /// The part without an operator.
        part: String,
    },
    /// A backslash stands before something else than `\`, `,` or `=`.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// `,` or `=` in a value has to be escaped; the number is its code point.
    #[error("invalid field selector: unescaped character in value: {0}")]
    Unescaped(u32),
    /// Objects of this kind can not be selected by this field.
    #[error("field label not supported: {0}")]
    NotSupported(String),
    /// The kind knows the two fields of metadata only.
    #[error(
        "{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        quoted = crate::bad_value::go_quote(.0)
    )]
    OnlyMetadata(String),
}

/// One condition of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The field, such as `spec.clusterIP`.
    pub field: String,
    /// The value to compare with.
    pub value: String,
    /// Whether the field must differ (`!=`).
    pub negated: bool,
}

/// Conditions that all have to be met; without any, everything matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// The conditions.
    pub terms: Vec<Term>,
}

impl Selector {
    /// Reads the text form.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut parts = split_parts(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            let Some((field, negated, value)) = split_term(part) else {
                return Err(FieldSelectorError::NoOperator {
                    selector: text.to_owned(),
                    part: part.to_owned(),
                });
            };
            let value = unescape(value)?;
            // A term without field and value says nothing.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field: field.to_owned(), value, negated });
            }
        }
        Ok(Self { terms })
    }

    /// Checks that objects of `kind` can be selected by all the fields, and replaces old names
    /// of fields by today's.
    pub fn check(&mut self, kind: &str) -> Result<(), FieldSelectorError> {
        for term in &mut self.terms {
            if kind == "Pod" && term.field == "spec.host" {
                "spec.nodeName".clone_into(&mut term.field);
            }
            check_field(kind, &term.field)?;
        }
        Ok(())
    }

    /// Whether an object matches; `value` reads one of its fields, a missing one as `""`.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.terms.iter().all(|term| (value(&term.field) == term.value.as_str()) != term.negated)
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `field` must have, if the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.field == field && !t.negated).map(|t| t.value.as_str())
    }
}

/// The fields of `kind` beside name and namespace, or `None` for kinds without any.
fn fields_of(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "Service" => &["spec.clusterIP", "spec.type"],
        "Secret" => &["type"],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "Event" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "ReplicaSet" => &["status.replicas"],
        _ => return None,
    })
}

fn check_field(kind: &str, field: &str) -> Result<(), FieldSelectorError> {
    let in_metadata = match field {
        "metadata.name" => true,
        "metadata.namespace" => kind != "Node" && kind != "Namespace",
        _ => false,
    };
    if in_metadata {
        return Ok(());
    }
    match fields_of(kind) {
        Some(fields) if fields.contains(&field) => Ok(()),
        Some(_) => Err(FieldSelectorError::NotSupported(field.to_owned())),
        None => Err(FieldSelectorError::OnlyMetadata(field.to_owned())),
    }
}

/// Splits at commas that no backslash escapes.
fn split_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    for (i, _) in part.char_indices() {
        let rest = &part[i..];
        for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&part[..i], negated, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, FieldSelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                out.push(c);
                escaped = false;
            }
            (true, other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
            (false, '\\') => escaped = true,
            (false, ',' | '=') => return Err(FieldSelectorError::Unescaped(u32::from(c))),
            (false, other) => out.push(other),
        }
    }
    if escaped {
        return Err(FieldSelectorError::Escape("\\".to_owned()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", true)]
    #[case("metadata.name=a", true)]
    #[case("metadata.name==a", true)]
    #[case("metadata.name!=a", false)]
    #[case("spec.type=,metadata.name=a", true)]
    #[case("spec.type!=,metadata.name=a", false)]
    #[case("=", true)]
    #[case("metadata.name=a,,=,!=", true)]
    fn matching(#[case] text: &str, #[case] expected: bool) {
        let selector = Selector::parse(text).unwrap();
        let read = |field: &str| Cow::Borrowed(if field == "metadata.name" { "a" } else { "" });
        assert_eq!(selector.matches(read), expected);
    }

    #[rstest]
    #[case("a", "invalid selector: 'a'; can't understand 'a'")]
    #[case("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'")]
    #[case("a=\\x", "invalid field selector: invalid escape sequence: \\x")]
    #[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
    fn messages(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn escaped_characters_belong_to_the_value() {
        let selector = Selector::parse("a=x\\,y\\=z").unwrap();
        assert_eq!(selector.exact("a"), Some("x,y=z"));
    }

    #[rstest]
    #[case("Service", "spec.clusterIP=None", None)]
    #[case("Service", "spec.sessionAffinity=None", Some("field label not supported: spec.sessionAffinity"))]
    #[case(
        "ConfigMap",
        "data=x",
        Some("\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    )]
    #[case("Pod", "spec.host=n", None)]
    fn fields_of_kinds(#[case] kind: &str, #[case] text: &str, #[case] expected: Option<&str>) {
        let mut selector = Selector::parse(text).unwrap();
        let found = selector.check(kind).err().map(|e| e.to_string());
        assert_eq!(found.as_deref(), expected);
    }
}
