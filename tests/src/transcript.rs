//! Compares what a program printed with a transcript in which the parts that vary have names: `{ip}`, `{age}` and so on.
//!
//! Indentation counts; the width of columns does not. It knows nothing of the program.

use std::net::IpAddr;

use jiff::Timestamp;

/// A part of a transcript that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// An address.
    Ip,
    /// A time span as kubectl writes it: `5s`, `2m51s`, `4d10h`.
    Age,
    /// Letters and digits that somebody generated.
    Id,
    /// Digits.
    Number,
    /// A UUID.
    Uid,
    /// An RFC 3339 time.
    Time,
    /// ` from demo namespace` as kubectl 1.34 and later add it to what they deleted, or nothing.
    From,
}

const PARTS: [(&str, Part); 7] = [
    ("{ip}", Part::Ip),
    ("{age}", Part::Age),
    ("{id}", Part::Id),
    ("{number}", Part::Number),
    ("{uid}", Part::Uid),
    ("{time}", Part::Time),
    ("{from}", Part::From),
];

impl Part {
    fn accepts(self, text: &str) -> bool {
        let all = |is: fn(char) -> bool| !text.is_empty() && text.chars().all(is);
        match self {
            Self::Ip => text.parse::<IpAddr>().is_ok(),
            Self::Age => is_age(text),
            Self::Id => all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
            Self::Number => all(|c| c.is_ascii_digit()),
            Self::Uid => text.len() == 36 && all(|c| c.is_ascii_hexdigit() || c == '-'),
            Self::Time => text.parse::<Timestamp>().is_ok(),
            Self::From => text.is_empty() || text == " from demo namespace",
        }
    }
}

fn is_age(text: &str) -> bool {
    let mut parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
    !text.is_empty()
        && parts.all(|part| {
            let number = part.trim_end_matches(['s', 'm', 'h', 'd', 'y']);
            number.len() + 1 == part.len() && number.parse::<u32>().is_ok()
        })
}

/// Where a text departs from its transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// A line of the transcript that the text does not have, or not at its place.
    #[error("no {0:?}")]
    Missing(String),
    /// A line of the text that the transcript does not have.
    #[error("{0:?} is too much")]
    Extra(String),
}

/// Compares line by line; empty lines at the start and the end of the transcript do not count.
pub fn compare(transcript: &str, text: &str) -> Result<(), Mismatch> {
    let mut found = text.lines();
    for expected in transcript.trim_matches('\n').lines() {
        if !found.next().is_some_and(|line| line_matches(expected, line)) {
            return Err(Mismatch::Missing(expected.to_owned()));
        }
    }
    found.next().map_or(Ok(()), |line| Err(Mismatch::Extra(line.to_owned())))
}

/// Compares with lines in any order.
pub fn compare_unordered(transcript: &str, text: &str) -> Result<(), Mismatch> {
    let mut found: Vec<&str> = text.lines().collect();
    for expected in transcript.trim_matches('\n').lines() {
        let at = found.iter().position(|line| line_matches(expected, line));
        found.swap_remove(at.ok_or_else(|| Mismatch::Missing(expected.to_owned()))?);
    }
    found.first().map_or(Ok(()), |line| Err(Mismatch::Extra((*line).to_owned())))
}

fn line_matches(expected: &str, line: &str) -> bool {
    matches(&one_blank(expected), &one_blank(line))
}

/// The line with every run of blanks after its indentation cut to one.
fn one_blank(line: &str) -> String {
    let text = line.trim_start();
    let indentation = &line[..line.len() - text.len()];
    indentation.to_owned() + &text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn matches(pattern: &str, text: &str) -> bool {
    let first = PARTS
        .iter()
        .filter_map(|(name, part)| pattern.find(name).map(|at| (at, name.len(), *part)))
        .min_by_key(|(at, ..)| *at);
    let Some((at, length, part)) = first else { return pattern == text };
    let Some(rest) = text.strip_prefix(&pattern[..at]) else { return false };
    let mut ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
    ends.any(|end| part.accepts(&rest[..end]) && matches(&pattern[at + length..], &rest[end..]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "hello   ClusterIP   {ip}   <none>   80/TCP   {age}",
        "hello ClusterIP  10.96.3.4 <none> 80/TCP 5s",
        true
    )]
    #[case("hello {ip}", "hello 10.96.3", false)]
    #[case("{ip}:8080,{ip}:8080", "10.1.2.3:8080,10.1.2.4:8080", true)]
    #[case("{age}", "2m51s", true)]
    #[case("{age}", "5", false)]
    #[case("pod/hello-{id}-{id} x", "pod/hello-6d5c6db6b4-7k5d9 x", true)]
    #[case("pod/hello-{id}-{id}", "pod/hello-6d5c6db6b4", false)]
    #[case("  - a: {number}", "- a: 3", false)]
    #[case("  time: \"{time}\"", "  time: \"2026-10-28T20:27:44Z\"", true)]
    #[case("svc \"x\" deleted{from}", "svc \"x\" deleted from demo namespace", true)]
    #[case("svc \"x\" deleted{from}", "svc \"x\" deleted", true)]
    #[case("svc \"x\" deleted{from}", "svc \"x\" deleted from space", false)]
    #[case("{\"clientIP\":{\"timeoutSeconds\":10800}}", "{\"clientIP\":{\"timeoutSeconds\":10800}}", true)]
    fn lines(#[case] expected: &str, #[case] line: &str, #[case] same: bool) {
        assert_eq!(line_matches(expected, line), same);
    }

    #[test]
    fn missing_extra_and_moved_lines_are_noticed() {
        assert_eq!(compare("\na {ip}\nb\n", "a 10.0.0.1\nb\n"), Ok(()));
        assert_eq!(compare("a\nb", "a\n"), Err(Mismatch::Missing("b".into())));
        assert_eq!(compare("a", "a\nb\n"), Err(Mismatch::Extra("b".into())));
        assert_eq!(compare("a\nb", "b\na\n"), Err(Mismatch::Missing("a".into())));
        assert_eq!(compare_unordered("a\nb", "b\na\n"), Ok(()));
        assert_eq!(compare_unordered("a\na", "a\nb\n"), Err(Mismatch::Missing("a".into())));
        assert_eq!(compare_unordered("a", "a\na\n"), Err(Mismatch::Extra("a".into())));
    }
}
