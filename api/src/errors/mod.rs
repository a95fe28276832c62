//! Field errors: what is wrong with which field of an object, in upstream's words.
//!
//! Owns the kinds of errors, how one is printed, and how a list of them becomes one message.
//! It does not know any API object.

mod list;

use std::collections::HashSet;
use std::fmt;

pub use self::list::{FieldErrors, MAX_ERRORS};
pub use crate::bad_value::BadValue;
use crate::cut::cut_owned;
pub use crate::path::Path;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The value is malformed or out of bounds.
    Invalid,
    /// A value is missing.
    Required,
    /// The value is none of a fixed set.
    NotSupported,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is well-formed but not allowed here.
    Forbidden,
    /// The value is too long; it is not printed.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// The value names something that does not exist.
    NotFound,
    /// A fault that the user did not cause.
    InternalError,
}

impl ErrorKind {
    /// The machine-readable reason of a `StatusCause`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::InternalError => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::InternalError => "Internal error",
        }
    }

    fn prints_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::InternalError)
    }
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The field's path, such as `spec.ports[0].name`.
    pub field: String,
    /// What is wrong.
    pub kind: ErrorKind,
    /// The refused value; not printed for some kinds.
    pub bad: BadValue,
    /// Further words; may be empty.
    pub detail: String,
}

impl FieldError {
    /// The message of a `StatusCause`: everything but the field.
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if self.kind.prints_value()
            && let Some(value) = self.bad.render()
        {
            out.push_str(": ");
            out.push_str(&value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

fn new(
    field: impl Into<String>,
    kind: ErrorKind,
    bad: impl Into<BadValue>,
    detail: impl Into<String>,
) -> FieldError {
    // A path may have a key in it, and a detail a list, that the client chose.
    FieldError { field: cut_owned(field.into()), kind, bad: bad.into(), detail: cut_owned(detail.into()) }
}

/// The value is malformed or out of bounds.
pub fn invalid(field: impl Into<String>, bad: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
    new(field, ErrorKind::Invalid, bad, detail)
}

/// A value is missing.
pub fn required(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    new(field, ErrorKind::Required, "", detail)
}

/// The value must be unique and is not.
pub fn duplicate(field: impl Into<String>, bad: impl Into<BadValue>) -> FieldError {
    new(field, ErrorKind::Duplicate, bad, "")
}

/// The value may not be set here.
pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    new(field, ErrorKind::Forbidden, "", detail)
}

/// The value names something that does not exist.
pub fn not_found(field: impl Into<String>, bad: impl Into<BadValue>) -> FieldError {
    new(field, ErrorKind::NotFound, bad, "")
}

/// The value is none of `supported`, which are printed in the given order.
pub fn not_supported(field: impl Into<String>, bad: impl Into<BadValue>, supported: &[&str]) -> FieldError {
    let quoted: Vec<_> = supported.iter().map(|s| crate::bad_value::go_quote(s)).collect();
    let detail =
        if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
    new(field, ErrorKind::NotSupported, bad, detail)
}

/// The value is longer than `max` bytes.
pub fn too_long(field: impl Into<String>, max: usize) -> FieldError {
    let detail = format!("may not be more than {max} bytes");
    new(field, ErrorKind::TooLong, "", detail)
}

/// A list has `actual` items and may have `max`.
pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> FieldError {
    let items = if max == 1 { "item" } else { "items" };
    let actual = i64::try_from(actual).unwrap_or(i64::MAX);
    let detail = format!("must have at most {max} {items}");
    new(field, ErrorKind::TooMany, actual, detail)
}

/// A fault that the user did not cause.
pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    new(field, ErrorKind::InternalError, BadValue::Omitted, detail)
}

/// What stands at the end of a list that was cut.
pub(crate) fn cut_notice() -> String {
    format!("there are more errors, of which only the first {MAX_ERRORS} are listed")
}

/// All errors as one message: a single one bare, several in brackets, equal ones once. Of more than [`MAX_ERRORS`] it has
/// the first, and says so.
pub fn aggregate(errors: &FieldErrors) -> String {
    let mut seen = HashSet::new();
    let mut messages: Vec<String> = errors.listed().iter().map(ToString::to_string).collect();
    messages.retain(|message| seen.insert(message.clone()));
    if errors.is_cut() {
        messages.push(cut_notice());
    }
    match messages.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(invalid("a", 0, "must be 1"), "a: Invalid value: 0: must be 1")]
    #[case(required("a.b", ""), "a.b: Required value")]
    #[case(forbidden("a", "no"), "a: Forbidden: no")]
    #[case(duplicate("a[1]", "x"), "a[1]: Duplicate value: \"x\"")]
    #[case(too_many("e", 9, 8), "e: Too many: 9: must have at most 8 items")]
    #[case(too_long("m", 128), "m: Too long: may not be more than 128 bytes")]
    #[case(not_found("v", "x"), "v: Not found: \"x\"")]
    #[case(
        not_supported("p", "X", &["A", "B"]),
        "p: Unsupported value: \"X\": supported values: \"A\", \"B\""
    )]
    fn messages(#[case] error: FieldError, #[case] expected: &str) {
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn several_errors_stand_in_brackets_and_equal_ones_once() {
        let a = required("a", "");
        let b = required("b", "");
        assert_eq!(aggregate(&[a.clone(), b, a.clone()].into()), "[a: Required value, b: Required value]");
        assert_eq!(aggregate(&[a.clone(), a].into()), "a: Required value");
    }

    #[test]
    fn a_message_lists_so_many_errors_and_says_so() {
        let errors: FieldErrors = (0..=MAX_ERRORS).map(|at| required(format!("a[{at}]"), "")).collect();
        let message = aggregate(&errors);
        assert!(message.contains("a[99]: Required value, there are more errors"), "{message}");
        assert!(!message.contains("a[100]"), "{message}");
        assert!(message.ends_with("only the first 100 are listed]"), "{message}");
    }

    #[test]
    fn an_error_is_of_bounded_length() {
        let long = "\u{1}".repeat(1 << 20);
        let error = invalid(long.as_str(), long.as_str(), long.as_str());
        assert!(error.to_string().len() < 8 * crate::cut::MAX_PIECE, "{}", error.to_string().len());
        let list = vec!["x".repeat(100); 100_000];
        let error = invalid("a", list.as_slice(), "");
        assert!(error.to_string().ends_with("... (cut)"), "{error}");
    }
}
