//! Times as Go reads and prints them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The layout that Go names when a time cannot be read.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A time in whole seconds, UTC (`metav1.Time`).
pub(crate) fn seconds(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in microseconds, UTC (`metav1.MicroTime`).
pub(crate) fn micros(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads an RFC 3339 time; the error is Go's.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    let failed = |rest: &str, part: &str| {
        Err(format!("parsing time {} as {}: cannot parse {} as {}", q(text), q(LAYOUT), q(rest), q(part)))
    };
    let mut rest = text;
    for (digits, part, after) in
        [(4, "2006", "-"), (2, "01", "-"), (2, "02", "T"), (2, "15", ":"), (2, "04", ":"), (2, "05", "")]
    {
        if rest.len() < digits || !rest.bytes().take(digits).all(|b| b.is_ascii_digit()) {
            return failed(rest, part);
        }
        rest = &rest[digits..];
        match rest.strip_prefix(after) {
            Some(tail) => rest = tail,
            None => return failed(rest, after),
        }
    }
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    if !zone.starts_with(['Z', '+', '-']) {
        return failed(zone, "Z07:00");
    }
    text.parse().map_err(|_| format!("parsing time {}: day out of range", q(text)))
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
    fn names_what_it_cannot_read(#[case] text: &str, #[case] message: &str) {
        assert_eq!(parse(text).unwrap_err(), message);
    }
}
