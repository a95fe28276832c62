//! Lines in the form of logfmt: `ts=... level=info msg="..." key=value ...`.
//!
//! Owns how a value is quoted; `unquoted` takes that back. (Form: as Go's `kr/logfmt` reads it; values with blanks, quotes,
//! `=` or control characters stand in quotes, with the escapes of JSON.)

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes lines and fields in that form.
#[derive(Debug, Clone, Copy, Default)]
pub struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("ts=")?;
        SystemTime.format_time(&mut writer)?;
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        write!(writer, " level={level}")?;
        let mut message = Message(String::new());
        event.record(&mut message);
        pair(&mut writer, "msg", &message.0)?;
        let mut fields = Fields { writer: &mut writer, first: false, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            pair(&mut writer, "span", span.name())?;
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>().filter(|fields| !fields.is_empty()) {
                write!(writer, " {fields}")?;
            }
        }
        writeln!(writer)
    }
}

impl<'a> FormatFields<'a> for Logfmt {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut visitor = Fields { writer: &mut writer, first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Writes all fields but the message.
struct Fields<'a, 'w> {
    writer: &'a mut Writer<'w>,
    first: bool,
    result: fmt::Result,
}

impl Fields<'_, '_> {
    fn write(&mut self, field: &Field, value: &str) {
        if field.name() == "message" || self.result.is_err() {
            return;
        }
        let first = std::mem::take(&mut self.first);
        self.result = if first {
            write!(self.writer, "{}=", field.name()).and_then(|()| quoted(self.writer, value))
        } else {
            pair(self.writer, field.name(), value)
        };
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

/// Writes a key and its value, after a blank.
pub fn pair(out: &mut impl fmt::Write, key: &str, value: &str) -> fmt::Result {
    write!(out, " {key}=")?;
    quoted(out, value)
}

/// Writes a value, in quotes if it needs them.
pub fn quoted(out: &mut impl fmt::Write, value: &str) -> fmt::Result {
    let plain = |c: char| c > ' ' && !c.is_whitespace() && !matches!(c, '"' | '=' | '\\' | '\u{7f}');
    if !value.is_empty() && value.chars().all(plain) {
        return out.write_str(value);
    }
    out.write_char('"')?;
    for c in value.chars() {
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            c if c < ' ' || c == '\u{7f}' => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

/// Takes a value off the front of a text: what it says, and what is left. None if quotes are not closed, or an escape is
/// none.
#[must_use]
pub fn unquoted(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(' ').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let (mut value, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                '0' => value.push('\0'),
                c @ ('"' | '\\' | '\'') => value.push(c),
                'u' => value.push(escaped(&mut chars)?),
                _ => return None,
            },
            c => value.push(c),
        }
    }
}

/// What stands behind `\u`: four digits, or as Rust writes it up to six in braces.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let text = chars.as_str();
    let (digits, rest) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => text.split_at_checked(4)?,
    };
    *chars = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn written(value: &str) -> String {
        let mut out = String::new();
        quoted(&mut out, value).unwrap();
        out
    }

    #[rstest]
    #[case("plain", "plain")]
    // Whoever reads a line takes white space off its end.
    #[case("\u{a0}", "\"\u{a0}\"")]
    #[case("10.0.0.1:80", "10.0.0.1:80")]
    #[case("", "\"\"")]
    #[case("two words", "\"two words\"")]
    #[case("a=b", "\"a=b\"")]
    #[case("he said \"no\"\\", r#""he said \"no\"\\""#)]
    #[case("a\nb\tc\u{1}", "\"a\\nb\\tc\\u0001\"")]
    #[case("größer", "größer")]
    fn values_are_quoted_if_they_need_it_and_read_back(#[case] value: &str, #[case] expected: &str) {
        let text = written(value);
        assert_eq!(text, expected);
        assert_eq!(unquoted(&format!("{text} rest=1")), Some((value.to_owned(), " rest=1")));
    }

    #[test]
    fn what_is_cut_off_or_no_escape_is_no_value() {
        for text in ["\"open", "\"a\\", "\"a\\q\"", "\"\\u12\"", "\"\\ud800\"", "\"\\u{zz}\""] {
            assert_eq!(unquoted(text), None, "{text}");
        }
        assert_eq!(unquoted("\"\\u{e4}\\'\""), Some(("ä'".to_owned(), "")));
    }
}
