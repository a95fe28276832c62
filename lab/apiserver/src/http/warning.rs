//! `Warning` headers (RFC 7234, code 299): what a request was granted in spite of, or what else was to be said to a
//! refused one.

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

/// Adds a header for each text, equal ones once.
pub(crate) fn append(headers: &mut HeaderMap, texts: &[String]) {
    for (at, text) in texts.iter().enumerate() {
        if text.is_empty() || texts[..at].contains(text) {
            continue;
        }
        if let Some(value) = value(text) {
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
    fn texts_are_quoted_and_said_once() {
        let mut headers = HeaderMap::new();
        append(&mut headers, &["unknown field \"a\"".to_owned(), "x".to_owned(), "x".to_owned()]);
        let all: Vec<_> = headers.get_all(WARNING).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, ["299 - \"unknown field \\\"a\\\"\"", "299 - \"x\""]);
    }
}
