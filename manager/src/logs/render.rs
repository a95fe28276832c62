//! How lines are shown: for people, or in a form that programs read.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tracing::Level;

use super::Line;
use crate::logfmt;

/// How lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people, with colours or without.
    Text {
        /// Whether there are colours.
        colours: bool,
    },
    /// One JSON object a line, as `--log-format json` writes it.
    Json,
    /// As `--log-format logfmt` writes it.
    Logfmt,
}

/// A line as it is shown, with the ends of its lines.
#[must_use]
pub fn render(line: &Line, form: Form) -> String {
    match form {
        Form::Text { colours } => text(line, colours),
        Form::Json => json(line),
        Form::Logfmt => logfmt(line),
    }
}

/// What could not be read as it is shown, with the end of its line: nothing of it is lost, and what reads JSON or logfmt can
/// still read it.
#[must_use]
pub fn unreadable(bytes: &[u8], form: Form) -> Vec<u8> {
    let said = String::from_utf8_lossy(bytes);
    match form {
        Form::Text { .. } => [bytes, b"\n"].concat(),
        Form::Json => format!("{}\n", Value::from_iter([("unreadable", said.into_owned())])).into_bytes(),
        Form::Logfmt => {
            let mut out = String::from("unreadable=");
            // Writing to a string does not fail.
            let _ = logfmt::quoted(&mut out, &said);
            (out + "\n").into_bytes()
        }
    }
}

/// What stands in a place of its own.
const PLACED: [&str; 18] = [
    "controller",
    "namespace",
    "service",
    "servicecidr",
    "servicepool",
    "nodeportrange",
    "decision",
    "trigger",
    "slices",
    "objects",
    "versions",
    "writes",
    "gathering",
    "queued",
    "planning",
    "writing",
    "id",
    "key",
];

/// One line with what happened; of a reconcile a second one with why, what exactly, and how long it took.
fn text(line: &Line, colours: bool) -> String {
    let paint = |text: &str, code: &str| {
        if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let level = match line.level {
        Level::ERROR => paint("ERROR", "1;31"),
        Level::WARN => paint(" WARN", "33"),
        Level::INFO => paint(" INFO", "32"),
        Level::DEBUG => paint("DEBUG", "34"),
        Level::TRACE => paint("TRACE", "35"),
    };
    let time = line.time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    let mut out = format!("{} {level} ", paint(&time, "2"));
    if let Some(object) = line.object() {
        out.push_str(&paint(&object, "1"));
        out.push(' ');
    }
    out.push_str(&line.message);
    if let Some(decision) = line.field("decision").filter(|_| line.field("writes").is_some()) {
        let _ = write!(out, ": {decision}");
    }
    for (name, value) in line.fields.iter().filter(|(name, _)| !PLACED.contains(&name.as_str())) {
        let _ = logfmt::pair(&mut out, name, value);
    }
    out.push('\n');
    let behind = behind(line);
    if !behind.is_empty() {
        let _ = writeln!(out, "{:26}{}", "", paint(&behind, "2"));
    }
    out
}

/// What stands on the second line, if there is one.
fn behind(line: &Line) -> String {
    let of = |name: &str, word: &str| line.field(name).map(|value| format!("{word}{value}"));
    let objects = line.field("slices").or_else(|| line.field("objects"));
    let objects = objects.map(|objects| match line.field("versions") {
        Some(versions) => format!("{objects} ({versions})"),
        None => objects.to_owned(),
    });
    let times =
        [("gathering", "gathered "), ("queued", "queued "), ("planning", "planned "), ("writing", "wrote ")];
    let times: Vec<String> = times.into_iter().filter_map(|(name, word)| of(name, word)).collect();
    let parts = [
        of("trigger", "because: "),
        of("controller", ""),
        objects.or_else(|| of("versions", "versions ")),
        (!times.is_empty()).then(|| times.join(", ")),
        of("id", "id "),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn json(line: &Line) -> String {
    let mut fields = Map::from_iter([("message".to_owned(), line.message.clone().into())]);
    fields.extend(line.fields.iter().map(|(name, value)| (name.clone(), value.clone().into())));
    let time: Value = line.time.to_string().into();
    let level: Value = line.level.as_str().into();
    let value = Value::from_iter([("timestamp", time), ("level", level), ("fields", fields.into())]);
    format!("{value}\n")
}

fn logfmt(line: &Line) -> String {
    let mut out = format!("ts={} level={}", line.time, line.level.as_str().to_ascii_lowercase());
    let pairs = line.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in std::iter::once(("msg", line.message.as_str())).chain(pairs) {
        let _ = logfmt::pair(&mut out, name, value);
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse;
    use super::*;

    const WROTE: &str = r#"2026-11-30T13:59:57.903820Z  INFO wrote slices controller="endpointslice-controller" namespace="demo" service="hello" trigger="pod web-1 not ready" decision="1 endpoint no longer ready; 1 slice updated, 3/100 full" writes=1 slices="hello-x" versions="7->9" gathering=20ms queued=87µs planning=12µs writing=1.23ms id=00c0ffee00c0ffee"#;

    #[test]
    fn a_reconcile_is_two_lines_for_people() {
        let shown = render(&parse(WROTE).unwrap(), Form::Text { colours: false });
        assert_eq!(
            shown,
            "2026-11-30T13:59:57.903Z  INFO demo/hello wrote slices: 1 endpoint no longer ready; 1 slice updated, 3/100 full\n                          because: pod web-1 not ready; endpointslice-controller; hello-x (7->9); gathered 20ms, queued 87µs, planned 12µs, wrote 1.23ms; id 00c0ffee00c0ffee\n"
        );
        let coloured = render(&parse(WROTE).unwrap(), Form::Text { colours: true });
        assert!(coloured.contains("\u{1b}[1mdemo/hello\u{1b}[0m"), "{coloured}");
    }

    #[test]
    fn what_cannot_be_read_is_shown_in_every_form() {
        let bytes = b"panicked at \"x\"\xff";
        assert_eq!(unreadable(bytes, Form::Text { colours: false }), [&bytes[..], b"\n"].concat());
        let json: Value = serde_json::from_slice(&unreadable(bytes, Form::Json)).unwrap();
        assert_eq!(json["unreadable"], "panicked at \"x\"\u{fffd}");
        let logfmt = String::from_utf8(unreadable(bytes, Form::Logfmt)).unwrap();
        assert_eq!(logfmt, "unreadable=\"panicked at \\\"x\\\"\u{fffd}\"\n");
    }

    proptest! {
        #[test]
        fn what_is_shown_for_programs_reads_as_the_same_line(
            message in any::<String>(),
            values in proptest::collection::vec(any::<String>(), 0..4),
            second in 0_i64..4_000_000_000,
        ) {
            let names = ["decision", "trigger", "why", "x.y_1"];
            let fields = names.iter().map(ToString::to_string).zip(values).collect();
            let time = jiff::Timestamp::from_second(second).unwrap();
            let line = Line { time, level: Level::WARN, message, fields };
            for form in [Form::Json, Form::Logfmt] {
                let shown = render(&line, form);
                prop_assert_eq!(shown.lines().count(), 1);
                prop_assert_eq!(parse(&shown), Some(line.clone()), "{}", shown);
            }
        }
    }
}
