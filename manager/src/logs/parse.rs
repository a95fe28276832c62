//! From the bytes of a line to what it says, whichever of the three forms it has.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::Level;

use super::Line;
use crate::logfmt::unquoted;

/// The fields of lines for people that may stand without quotes: their values end where the next one begins.
const FIELDS: [&str; 45] = [
    "address",
    "affected",
    "again",
    "controller",
    "decision",
    "dropped",
    "endpoint",
    "error",
    "failed",
    "gathering",
    "id",
    "key",
    "kind",
    "lacked",
    "lacks",
    "lasted",
    "leader",
    "lease",
    "level",
    "lost",
    "name",
    "namespace",
    "nodeportrange",
    "object",
    "objects",
    "planning",
    "queued",
    "reason",
    "service",
    "servicecidr",
    "servicepool",
    "sizes",
    "slices",
    "span",
    "tries",
    "trigger",
    "verb",
    "versions",
    "watch",
    "why",
    "writes",
    "writing",
    "grace",
    "port",
    "path",
];

/// What a line says; nothing if it is none of this program's.
#[must_use]
pub fn parse(text: &str) -> Option<Line> {
    let text = without_colours(text.trim_end());
    let text = without_pod(&text);
    let json = text.find('{').filter(|at| *at == 0 || text[..*at].trim().parse::<Timestamp>().is_ok());
    if let Some(line) = json.and_then(|at| of_json(&text[at..])) {
        return Some(line);
    }
    // `kubectl logs --timestamps` puts a time in front.
    let behind =
        text.split_once(' ').filter(|(time, _)| time.parse::<Timestamp>().is_ok()).map(|(_, rest)| rest);
    [Some(text), behind].into_iter().flatten().find_map(|text| of_logfmt(text).or_else(|| of_text(text)))
}

/// A text without the sequences by which terminals colour it.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
        rest = &sequence[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A text without the `[pod/NAME/CONTAINER] ` that `kubectl logs --prefix` puts in front.
fn without_pod(text: &str) -> &str {
    let prefixed = text.strip_prefix("[pod/").and_then(|rest| rest.split_once("] "));
    prefixed.map_or(text, |(_, rest)| rest)
}

fn of_json(text: &str) -> Option<Line> {
    let value: Map<String, Value> = serde_json::from_str(text).ok()?;
    let time = value.get("timestamp")?.as_str()?.parse().ok()?;
    let level = level(value.get("level")?.as_str()?)?;
    let fields = value.get("fields")?.as_object()?;
    let message = fields.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut line = Line { time, level, message, fields: Vec::new() };
    let spans =
        value.get("spans").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    for (name, value) in std::iter::once(fields).chain(spans).flatten() {
        if name != "message" {
            line.add(name, value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
        }
    }
    Some(line)
}

fn of_logfmt(text: &str) -> Option<Line> {
    let rest = text.strip_prefix("ts=")?;
    let (time, rest) = unquoted(rest)?;
    let (level_name, rest) = unquoted(rest.strip_prefix(" level=")?)?;
    let (message, mut rest) = unquoted(rest.strip_prefix(" msg=")?)?;
    let mut line = Line { time: time.parse().ok()?, level: level(&level_name)?, message, fields: Vec::new() };
    while let Some(next) = rest.strip_prefix(' ') {
        let (name, value) = next.split_once('=').filter(|(name, _)| is_name(name))?;
        let (value, behind) = unquoted(value)?;
        line.add(name, value);
        rest = behind;
    }
    rest.is_empty().then_some(line)
}

fn of_text(text: &str) -> Option<Line> {
    let (time, rest) = text.split_once(' ')?;
    let (level_name, rest) = rest.trim_start().split_once(' ')?;
    let (time, level) = (time.parse().ok()?, level(level_name)?);
    let (spans, rest) = spans(rest);
    let (message, mut rest) = rest.split_at(next_field(rest).unwrap_or(rest.len()));
    let mut line = Line { time, level, message: message.to_owned(), fields: Vec::new() };
    while let Some((name, value, behind)) = field(rest) {
        line.add(name, value);
        rest = behind;
    }
    for mut of_span in spans {
        while let Some((name, value, behind)) = field(of_span) {
            line.add(name, value);
            of_span = behind;
        }
    }
    Some(line)
}

/// The fields of the spans in front of a line for people, each with a blank in front, and what comes behind them.
fn spans(text: &str) -> (Vec<&str>, &str) {
    let (mut spans, mut rest) = (Vec::new(), text);
    while let Some((name, inside)) = rest.split_once('{')
        && is_name(name)
        && let Some(end) = inside.find("}:")
    {
        let begins = rest.len() - inside.len();
        spans.push(&rest[begins..begins + end]);
        rest = inside[end + 2..].trim_start();
    }
    (spans, rest)
}

/// A field at the front of a text, which may begin with a blank: name, value and what is left.
fn field(text: &str) -> Option<(&str, String, &str)> {
    let (name, value) = text.trim_start().split_once('=').filter(|(name, _)| is_name(name))?;
    if value.starts_with('"') {
        let (value, rest) = unquoted(value)?;
        return Some((name, value, rest));
    }
    let end = next_field(value).unwrap_or(value.len());
    Some((name, value[..end].to_owned(), &value[end..]))
}

/// Where the next field begins, with the blank in front of it.
fn next_field(text: &str) -> Option<usize> {
    text.match_indices(' ').map(|(at, _)| at).find(|at| {
        let name = text[at + 1..].split_once('=');
        name.is_some_and(|(name, value)| FIELDS.contains(&name) || (is_name(name) && value.starts_with('"')))
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.')
}

fn level(text: &str) -> Option<Level> {
    ["error", "warn", "info", "debug", "trace"]
        .iter()
        .any(|level| text.eq_ignore_ascii_case(level))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TEXT: &str = r#"2026-11-30T13:59:57.903820Z  INFO wrote slices controller="endpointslice-controller" namespace="demo" service="hello" trigger="pod web-1 not ready and 2 more events" decision="1 endpoint no longer ready; 1 slice updated, 3/100 full" writes=1 slices="hello-x" versions="7->9" queued=87µs planning=12µs writing=1.23ms id=00c0ffee00c0ffee"#;
    const JSON: &str = r#"{"timestamp":"2026-11-30T13:59:57.903820Z","level":"INFO","fields":{"message":"wrote slices","controller":"endpointslice-controller","namespace":"demo","service":"hello","trigger":"pod web-1 not ready and 2 more events","decision":"1 endpoint no longer ready; 1 slice updated, 3/100 full","writes":1,"slices":"hello-x","versions":"7->9","queued":"87µs","planning":"12µs","writing":"1.23ms","id":"00c0ffee00c0ffee"},"target":"service_controllers::endpointslice"}"#;
    const LOGFMT: &str = r#"ts=2026-11-30T13:59:57.903820Z level=info msg="wrote slices" controller=endpointslice-controller namespace=demo service=hello trigger="pod web-1 not ready and 2 more events" decision="1 endpoint no longer ready; 1 slice updated, 3/100 full" writes=1 slices=hello-x versions=7->9 queued=87µs planning=12µs writing=1.23ms id=00c0ffee00c0ffee"#;

    fn sorted(text: &str) -> Option<Line> {
        let mut line = parse(text)?;
        line.fields.sort();
        Some(line)
    }

    #[test]
    fn the_same_line_says_the_same_in_every_form() {
        let line = sorted(TEXT).unwrap();
        assert_eq!((line.level, line.message.as_str()), (Level::INFO, "wrote slices"));
        assert_eq!(line.object().as_deref(), Some("demo/hello"));
        assert_eq!(line.field("trigger"), Some("pod web-1 not ready and 2 more events"));
        assert_eq!(line.field("id"), Some("00c0ffee00c0ffee"));
        assert_eq!(sorted(JSON).as_ref(), Some(&line));
        assert_eq!(sorted(LOGFMT).as_ref(), Some(&line));
    }

    #[rstest]
    #[case("")]
    #[case("[pod/scm-0/manager] ")]
    #[case("2026-11-30T13:59:58.000000001Z ")]
    #[case("[pod/scm-0/manager] 2026-11-30T13:59:58Z ")]
    fn what_kubectl_puts_in_front_is_left_out(#[case] prefix: &str) {
        for line in [TEXT, JSON, LOGFMT] {
            assert_eq!(parse(&format!("{prefix}{line}\n")), parse(line), "{prefix}{line}");
        }
    }

    #[test]
    fn a_text_without_quotes_ends_where_the_next_field_begins() {
        let text = "2026-11-30T13:59:57Z  WARN the role lacks a right watch=\"pods\" why=rejected with code 403: a = b again=1.5s";
        let line = parse(text).unwrap();
        assert_eq!(line.message, "the role lacks a right");
        assert_eq!(line.field("why"), Some("rejected with code 403: a = b"));
        assert_eq!(line.field("again"), Some("1.5s"));
    }

    #[test]
    fn colours_and_spans_do_not_matter() {
        let text = "\u{1b}[2m2026-11-30T13:59:57Z\u{1b}[0m \u{1b}[34mDEBUG\u{1b}[0m \u{1b}[1mreconcile\u{1b}[0m{controller=\"c\" namespace=demo name=hello}: sent \u{1b}[3mverb\u{1b}[0m\u{1b}[2m=\u{1b}[0m\"create\"";
        let line = parse(text).unwrap();
        assert_eq!((line.level, line.message.as_str()), (Level::DEBUG, "sent"));
        assert_eq!(line.field("namespace"), Some("demo"));
        assert_eq!(line.field("verb"), Some("create"));
    }

    #[rstest]
    #[case("")]
    #[case("thread 'main' panicked at src/main.rs:1")]
    #[case("2026-11-30T13:59:57Z")]
    #[case("{\"level\":\"INFO\"}")]
    #[case("{\"timestamp\":\"2026-11-30T13:59:57Z\",\"level\":\"INFO\",\"fie")]
    #[case("ts=2026-11-30T13:59:57Z level=info msg=\"open")]
    #[case("ts=yesterday level=info msg=x")]
    #[case("I1130 13:59:57.903820       1 controller.go:1] klog")]
    fn what_is_no_line_is_none(#[case] text: &str) {
        assert_eq!(parse(text), None);
    }
}
