//! Times as Go reads and prints them.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The layout that Go names when a `metav1.Time` cannot be read.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The same of a `metav1.MicroTime`, which has six digits behind the point, no more and no fewer.
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time in whole seconds, UTC (`metav1.Time`).
pub(crate) fn seconds(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in microseconds, UTC (`metav1.MicroTime`).
pub(crate) fn micros(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The numbers of a time as they are written: digits, their part of Go's layout, what follows them, and if the number
/// has a range of its own, that range and its name.
type Part = (usize, &'static str, &'static str, Option<(RangeInclusive<u32>, &'static str)>);

const PARTS: [Part; 6] = [
    (4, "2006", "-", None),
    (2, "01", "-", Some((1..=12, "month"))),
    // Whether there is such a day is looked at last.
    (2, "02", "T", None),
    (2, "15", ":", Some((0..=23, "hour"))),
    (2, "04", ":", Some((0..=59, "minute"))),
    (2, "05", "", Some((0..=59, "second"))),
];

/// Digits behind the point of a `metav1.MicroTime`.
const MICRO_DIGITS: usize = 6;

/// Reads an RFC 3339 time (`metav1.Time`); the error is Go's.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_as(text, LAYOUT)
}

/// Reads an RFC 3339 time with microseconds (`metav1.MicroTime`); the error is Go's.
pub(super) fn parse_micros(text: &str) -> Result<Timestamp, String> {
    parse_as(text, MICRO_LAYOUT)
}

fn parse_as(text: &str, layout: &str) -> Result<Timestamp, String> {
    let failed = |rest: &str, part: &str| {
        Err(format!("parsing time {} as {}: cannot parse {} as {}", q(text), q(layout), q(rest), q(part)))
    };
    let refused = |why: &str| format!("parsing time {}: {why}", q(text));
    let mut rest = text;
    for (digits, part, after, range) in PARTS {
        if rest.len() < digits || !rest.bytes().take(digits).all(|b| b.is_ascii_digit()) {
            return failed(rest, part);
        }
        let number = rest[..digits].parse().unwrap_or(u32::MAX);
        if let Some((_, name)) = range.filter(|(range, _)| !range.contains(&number)) {
            return Err(refused(&format!("{name} out of range")));
        }
        rest = &rest[digits..];
        match rest.strip_prefix(after) {
            Some(tail) => rest = tail,
            None => return failed(rest, after),
        }
    }
    let zone = match rest.strip_prefix('.') {
        fraction if layout == MICRO_LAYOUT => {
            let digits = fraction.and_then(|fraction| fraction.get(..MICRO_DIGITS));
            if !digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
                return failed(rest, ".000000");
            }
            &rest[1 + MICRO_DIGITS..]
        }
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            fraction.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        _ => rest,
    };
    let Some(length) = zone_length(zone) else { return failed(zone, "Z07:00") };
    let (_, extra) = zone.split_at(length);
    if !extra.is_empty() {
        return Err(refused(&format!("extra text: {}", q(extra))));
    }
    text.parse().map_err(|_| refused("day out of range"))
}

/// How long the offset is that a text begins with.
fn zone_length(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'Z', ..] => Some(1),
        [b'+' | b'-', h, i, b':', m, n, ..] if [h, i, m, n].iter().all(|b| b.is_ascii_digit()) => Some(6),
        _ => None,
    }
}

fn q(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")]
    #[case("2026-01-02T03:04:05.6789Z", "2026-01-02T03:04:05Z")]
    #[case("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z")]
    fn prints_whole_seconds_in_utc(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(seconds(parse(text).unwrap()), expected);
    }

    #[rstest]
    #[case("x", r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#)]
    #[case(
        "2026-01-02",
        r#"parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#
    )]
    #[case("2026-02-31T00:00:00Z", r#"parsing time "2026-02-31T00:00:00Z": day out of range"#)]
    #[case("2026-13-01T00:00:00Z", r#"parsing time "2026-13-01T00:00:00Z": month out of range"#)]
    #[case("2026-01-01T24:00:00Z", r#"parsing time "2026-01-01T24:00:00Z": hour out of range"#)]
    #[case("2026-01-01T00:00:60Z", r#"parsing time "2026-01-01T00:00:60Z": second out of range"#)]
    #[case("2026-01-01T00:00:00Z[UTC]", r#"parsing time "2026-01-01T00:00:00Z[UTC]": extra text: "[UTC]""#)]
    #[case(
        "2026-01-01T00:00:00+0100",
        r#"parsing time "2026-01-01T00:00:00+0100" as "2006-01-02T15:04:05Z07:00": cannot parse "+0100" as "Z07:00""#
    )]
    fn names_what_it_cannot_read(#[case] text: &str, #[case] message: &str) {
        assert_eq!(parse(text).unwrap_err(), message);
    }

    #[rstest]
    #[case("2026-01-02T03:04:05Z", Err(("Z", ".000000")))]
    #[case("2026-01-02T03:04:05.123Z", Err((".123Z", ".000000")))]
    #[case("2026-01-02T03:04:05.123456789Z", Err(("789Z", "Z07:00")))]
    #[case("2026-01-02T03:04:05.123456+01:00", Ok("2026-01-02T02:04:05.123456Z"))]
    fn microseconds(#[case] text: &str, #[case] expected: Result<&str, (&str, &str)>) {
        let expected = expected.map(str::to_owned).map_err(|(rest, part)| {
            format!("parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {part:?}")
        });
        assert_eq!(parse_micros(text).map(micros), expected);
    }
}
