//! How a refused value is printed inside an error message: text quoted as Go quotes it,
//! numbers bare, everything else as the JSON that Go's encoder writes.

use serde::Serialize;
use serde_json::Value;

use crate::cut::{Beginning, cut, cut_owned};

/// The value a [`crate::errors::FieldError`] complains about; of a long one the beginning (see [`crate::cut`]).
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// Nothing is printed.
    Omitted,
    /// `null`: an unset pointer or list.
    Null,
    /// A plain string; printed in Go's quotes.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A boolean.
    Bool(bool),
    /// Ready JSON, with the keys in the order they are printed in.
    Json(String),
}

impl BadValue {
    /// A value printed as JSON. Keys keep the order of `T`'s fields, which upstream's messages
    /// depend on. A value that can not be written as JSON is printed as `null`.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        let mut beginning = Beginning::default();
        let written = serde_json::to_writer(&mut beginning, value);
        let json = String::from_utf8_lossy(&beginning.bytes);
        match written {
            Ok(()) => Self::Json(json.into_owned()),
            Err(error) if error.is_io() => Self::Json(format!("{json}... (cut)")),
            Err(_) => Self::Null,
        }
    }

    /// A string of an enumeration. Upstream gives these types of their own and therefore prints
    /// them as JSON, which differs from Go's quotes for odd characters.
    pub fn named(value: &str) -> Self {
        Self::json(value)
    }

    /// The text inside a message, or `None` when the message has no value.
    pub fn render(&self) -> Option<String> {
        match self {
            Self::Omitted => None,
            Self::Null => Some("null".to_owned()),
            Self::Text(text) => Some(go_quote(text)),
            Self::Number(n) => Some(n.to_string()),
            Self::Bool(b) => Some(b.to_string()),
            Self::Json(json) => Some(escape_html(json)),
        }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Text(cut(text).into_owned())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self::Text(cut_owned(text))
    }
}

impl From<&String> for BadValue {
    fn from(text: &String) -> Self {
        Self::Text(cut(text).into_owned())
    }
}

impl From<i32> for BadValue {
    fn from(n: i32) -> Self {
        Self::Number(i64::from(n))
    }
}

impl From<i64> for BadValue {
    fn from(n: i64) -> Self {
        Self::Number(n)
    }
}

impl From<bool> for BadValue {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::String(text) => text.into(),
            Value::Bool(b) => Self::Bool(b),
            other => Self::json(&other),
        }
    }
}

impl<T: Into<BadValue>> From<Option<T>> for BadValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&[String]> for BadValue {
    fn from(list: &[String]) -> Self {
        Self::json(list)
    }
}

/// Go's JSON encoder writes these characters as escapes, so that JSON can stand inside HTML.
fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Quotes `text` as Go's `%q` does.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c);
    }
    out.push('"');
    out
}

fn push_quoted(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if is_printable(c) => out.push(c),
        c => out.push_str(&escaped(c)),
    }
}

fn escaped(c: char) -> String {
    let code = u32::from(c);
    match code {
        0..0x20 | 0x7f => format!("\\x{code:02x}"),
        0x80..0x1_0000 => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space; no other space, no control
/// or format character, nothing for private use.
fn is_printable(c: char) -> bool {
    if c == ' ' {
        return true;
    }
    let invisible = c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{e007f}'
            | '\u{f0000}'..='\u{10ffff}');
    !invisible
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(BadValue::from("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\x01\"")]
    #[case(BadValue::from("é漢\u{a0}\u{1f600}"), "\"é漢\\u00a0\u{1f600}\"")]
    #[case(BadValue::from(-5), "-5")]
    #[case(BadValue::from(true), "true")]
    #[case(BadValue::from(None::<&str>), "null")]
    #[case(BadValue::from(Some("x")), "\"x\"")]
    #[case(BadValue::from(json!(["<a>", "&"])), "[\"\\u003ca\\u003e\",\"\\u0026\"]")]
    #[case(BadValue::from(None::<&[String]>), "null")]
    #[case(BadValue::named("<\u{1}"), "\"\\u003c\\u0001\"")]
    fn values_are_printed_as_go_prints_them(#[case] value: BadValue, #[case] expected: &str) {
        assert_eq!(value.render().as_deref(), Some(expected));
    }
}
