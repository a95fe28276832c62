//! Field errors, until `service_api::errors` is there.

use std::fmt;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Malformed or out of bounds.
    Invalid,
    /// Missing.
    Required,
    /// None of a fixed set.
    NotSupported,
    /// Not unique.
    Duplicate,
}

/// The refused value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadValue {
    /// Plain text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Ready JSON.
    Json(String),
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path.
    pub field: String,
    /// What is wrong.
    pub kind: ErrorKind,
    /// The refused value.
    pub bad: BadValue,
    /// Further words.
    pub detail: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.kind {
            ErrorKind::Invalid => "Invalid value",
            ErrorKind::Required => "Required value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Duplicate => "Duplicate value",
        };
        write!(f, "{}: {words}", self.field)?;
        if self.kind != ErrorKind::Required {
            match &self.bad {
                BadValue::Text(t) => write!(f, ": {t:?}")?,
                BadValue::Number(n) => write!(f, ": {n}")?,
                BadValue::Json(j) => write!(f, ": {j}")?,
            }
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i32> for BadValue {
    fn from(n: i32) -> Self {
        Self::Number(n.into())
    }
}

impl From<&[String]> for BadValue {
    fn from(list: &[String]) -> Self {
        let quoted: Vec<_> = list.iter().map(|t| format!("{t:?}")).collect();
        Self::Json(format!("[{}]", quoted.join(",")))
    }
}

/// Malformed or out of bounds.
pub fn invalid(field: impl Into<String>, bad: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
    FieldError { field: field.into(), kind: ErrorKind::Invalid, bad: bad.into(), detail: detail.into() }
}

/// Missing.
pub fn required(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
    FieldError { field: field.into(), kind: ErrorKind::Required, bad: "".into(), detail: detail.into() }
}

/// Not unique.
pub fn duplicate(field: impl Into<String>, bad: impl Into<BadValue>) -> FieldError {
    FieldError { field: field.into(), kind: ErrorKind::Duplicate, bad: bad.into(), detail: String::new() }
}

/// None of a fixed set.
pub fn not_supported(field: impl Into<String>, bad: impl Into<BadValue>, supported: &[&str]) -> FieldError {
    let quoted: Vec<_> = supported.iter().map(|t| format!("{t:?}")).collect();
    let detail = format!("supported values: {}", quoted.join(", "));
    FieldError { field: field.into(), kind: ErrorKind::NotSupported, bad: bad.into(), detail }
}

/// All errors as one message.
pub fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
