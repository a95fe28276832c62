//! A cursor over valid JSON: names, items, texts and numbers, one after another.
//!
//! It checks nothing: the text has passed [`super::scan::check`].

use std::borrow::Cow;

/// Where reading stands in a text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a text, which must be valid JSON.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Cursor { text, at: 0 }
    }

    /// Goes over the byte that stands here.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// The next byte that is not white space. The text is valid, so there is one wherever this is called.
    pub(super) fn peek(&mut self) -> u8 {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(c) => return *c,
                None => return 0,
            }
        }
    }

    /// The name of the next member of an object whose opening brace has been read; `None` after the last.
    pub(super) fn next_member(&mut self, ended: &mut bool) -> Option<Cow<'a, str>> {
        if *ended {
            return None;
        }
        if self.peek() == b',' {
            self.at += 1;
        }
        if self.peek() != b'"' {
            self.at += 1;
            *ended = true;
            return None;
        }
        let name = self.string();
        self.peek();
        self.at += 1;
        Some(name)
    }

    /// Is there another item in an array whose opening bracket has been read?
    pub(super) fn next_item(&mut self) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        if matches!(self.peek(), b']' | 0) {
            self.at += 1;
            return false;
        }
        true
    }

    pub(super) fn string(&mut self) -> Cow<'a, str> {
        let start = self.at;
        let mut end = start + 1;
        let mut plain = true;
        while let Some(c) = self.text.get(end) {
            match c {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    end += 2;
                }
                _ => end += 1,
            }
        }
        self.at = end + 1;
        if plain {
            return String::from_utf8_lossy(self.text.get(start + 1..end).unwrap_or_default());
        }
        let quoted = self.text.get(start..=end).unwrap_or_default();
        let quoted = String::from_utf8_lossy(quoted);
        // A lone surrogate is the one escape that serde refuses and Go replaces.
        Cow::Owned(serde_json::from_str(&quoted).unwrap_or_else(|_| unescape(&quoted)))
    }

    pub(super) fn number(&mut self) -> &'a str {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(start..self.at).and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default()
    }

    /// Skips one value.
    pub(super) fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                b'"' => {
                    self.string();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                0 => return,
                _ => {
                    while self.text.get(self.at).is_some_and(|c| !b",:]} \t\n\r".contains(c)) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// Unescapes a quoted JSON string, lone surrogates becoming U+FFFD as in Go.
fn unescape(quoted: &str) -> String {
    let mut out = String::new();
    let mut rest = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        if escape == b'u' {
            let end = (at + 6).min(rest.len());
            let pair = rest.get(at..(at + 12).min(rest.len())).unwrap_or_default();
            if let Ok(c) = serde_json::from_str::<String>(&format!("\"{pair}\""))
                && pair.len() == 12
                && c.chars().count() == 1
            {
                out.push_str(&c);
                rest = &rest[at + 12..];
                continue;
            }
            let one = rest.get(at..end).unwrap_or_default();
            out.push_str(
                &serde_json::from_str::<String>(&format!("\"{one}\""))
                    .unwrap_or_else(|_| "\u{fffd}".to_owned()),
            );
            rest = rest.get(end..).unwrap_or_default();
        } else {
            let one = rest.get(at..at + 2).unwrap_or_default();
            out.push_str(&serde_json::from_str::<String>(&format!("\"{one}\"")).unwrap_or_default());
            rest = rest.get(at + 2..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}
