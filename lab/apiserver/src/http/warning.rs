//! `Warning` headers (RFC 7234, code 299): what a request was granted in spite of, or what else was to be said to a
//! refused one.

use std::collections::HashSet;

use http::header::{HeaderMap, HeaderValue, WARNING};

/// The text of one header.
fn value(text: &str) -> Option<HeaderValue> {
    let mut out = String::with_capacity(text.len() + 10);
    out.push_str("299 - \"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    HeaderValue::from_bytes(out.as_bytes()).ok()
}

/// Most characters of all texts together, as upstream.
const MAX_TOTAL: usize = 4096;
/// Most characters of one text when all together are too long.
const MAX_ONE: usize = 256;

/// Adds a header for each text, equal ones once. Of texts that are too long together each is cut, and the last are left
/// out, as upstream does.
pub(crate) fn append(headers: &mut HeaderMap, texts: &[String]) {
    let mut seen = HashSet::new();
    let distinct = || texts.iter().filter(|text| !text.is_empty());
    let mut total = 0_usize;
    // Beyond the total nothing more needs to be counted.
    let whole = distinct().all(|text| {
        total += if seen.insert(text) { text.chars().take(MAX_TOTAL + 1).count() } else { 0 };
        total <= MAX_TOTAL
    });
    let (mut seen, mut written) = (HashSet::new(), 0);
    for text in distinct() {
        if written >= MAX_TOTAL && !whole {
            return;
        }
        if !seen.insert(text) {
            continue;
        }
        let text: String = text.chars().take(if whole { MAX_TOTAL } else { MAX_ONE }).collect();
        written += text.chars().count();
        if let Some(value) = value(&text) {
            headers.append(WARNING, value);
        }
    }
}

/// Puts one text before those that are there.
pub(crate) fn prepend(headers: &mut HeaderMap, text: &str) {
    let rest: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    for value in value(text).into_iter().chain(rest) {
        headers.append(WARNING, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_and_long_texts_are_cut() {
        let texts: Vec<String> = (0..10_000).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
        let mut headers = HeaderMap::new();
        append(&mut headers, &texts);
        let all: Vec<&HeaderValue> = headers.get_all(WARNING).iter().collect();
        assert_eq!(all.len(), 16);
        assert!(all.iter().all(|value| value.len() == 256 + 8));
        // One that is not too long alone stays whole.
        let mut headers = HeaderMap::new();
        append(&mut headers, &texts[..1]);
        assert_eq!(headers[WARNING].len(), 1002 + 8);
    }

    #[test]
    fn texts_are_quoted_and_said_once() {
        let mut headers = HeaderMap::new();
        append(&mut headers, &["unknown field \"a\"".to_owned(), "x".to_owned(), "x".to_owned()]);
        let all: Vec<_> = headers.get_all(WARNING).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, ["299 - \"unknown field \\\"a\\\"\"", "299 - \"x\""]);
    }
}
