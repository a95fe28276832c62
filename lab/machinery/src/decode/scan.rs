//! Is a text JSON, and if not, what would Go's `encoding/json` say.
//!
//! One pass without recursion, so that a body of a million brackets costs a few bytes each and no stack.

/// How deep Go lets JSON nest.
const MAX_DEPTH: usize = 10_000;
/// Of how many objects and lists a text may consist: each costs some 2 KiB while a request is worked on, and three bytes of
/// the text. The largest object that upstream stores (1.5 MiB) has fewer.
pub const MAX_CONTAINERS: usize = 1 << 17;

/// What is wrong with a text, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text ends too early.
    #[error("unexpected end of JSON input")]
    End,
    /// A byte that cannot stand there.
    #[error("invalid character {} {}", quote(*.0), .1)]
    Character(u8, &'static str),
    /// More than ten thousand levels.
    #[error("exceeded max depth")]
    Depth,
    /// More than [`MAX_CONTAINERS`].
    #[error("more than {MAX_CONTAINERS} objects and lists")]
    Containers,
}

/// Go's `quoteChar`.
fn quote(c: u8) -> String {
    match c {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        11 => r"'\v'".to_owned(),
        12 => r"'\f'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0x20..=0x7e | 0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(c)),
        0x80.. => format!("'\\u{c:04x}'"),
        _ => format!("'\\x{c:02x}'"),
    }
}

const VALUE: &str = "looking for beginning of value";

/// Checks that `text` is one JSON value.
pub fn check(text: &[u8]) -> Result<(), SyntaxError> {
    let mut scan = Scan { text, at: 0 };
    // One entry for each open container: is it an object?
    let mut open: Vec<bool> = Vec::new();
    let mut containers = 0;
    loop {
        // A value is expected here.
        match scan.next_token()? {
            c @ (b'{' | b'[') => {
                if open.len() >= MAX_DEPTH {
                    return Err(SyntaxError::Depth);
                }
                containers += 1;
                if containers > MAX_CONTAINERS {
                    return Err(SyntaxError::Containers);
                }
                let object = c == b'{';
                match (object, scan.peek_token()) {
                    (true, Some(b'}')) | (false, Some(b']')) => scan.at += 1,
                    _ => {
                        open.push(object);
                        if object {
                            scan.key()?;
                        }
                        continue;
                    }
                }
            }
            b'"' => scan.string()?,
            c @ (b'-' | b'0'..=b'9') => scan.number(c)?,
            b't' => scan.literal(b"true", "literal true")?,
            b'f' => scan.literal(b"false", "literal false")?,
            b'n' => scan.literal(b"null", "literal null")?,
            c => return Err(SyntaxError::Character(c, VALUE)),
        }
        // A value has ended: close what can be closed.
        loop {
            let Some(object) = open.last().copied() else {
                return match scan.peek_token() {
                    None => Ok(()),
                    Some(c) => Err(SyntaxError::Character(c, "after top-level value")),
                };
            };
            match (object, scan.next_token()?) {
                (true, b',') => {
                    scan.key()?;
                    break;
                }
                (false, b',') => break,
                (true, b'}') | (false, b']') => {
                    open.pop();
                }
                (true, c) => return Err(SyntaxError::Character(c, "after object key:value pair")),
                (false, c) => return Err(SyntaxError::Character(c, "after array element")),
            }
        }
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek_token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn next_token(&mut self) -> Result<u8, SyntaxError> {
        let c = self.peek_token().ok_or(SyntaxError::End)?;
        self.at += 1;
        Ok(c)
    }

    fn next(&mut self) -> Result<u8, SyntaxError> {
        let c = self.text.get(self.at).copied().ok_or(SyntaxError::End)?;
        self.at += 1;
        Ok(c)
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        match self.next_token()? {
            b'"' => self.string()?,
            c => return Err(SyntaxError::Character(c, "looking for beginning of object key string")),
        }
        match self.next_token()? {
            b':' => Ok(()),
            c => Err(SyntaxError::Character(c, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let c = self.next()?;
                            if !c.is_ascii_hexdigit() {
                                return Err(SyntaxError::Character(c, r"in \u hexadecimal character escape"));
                            }
                        }
                    }
                    c => return Err(SyntaxError::Character(c, "in string escape code")),
                },
                c @ 0..=0x1f => return Err(SyntaxError::Character(c, "in string literal")),
                _ => {}
            }
        }
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn digit(&mut self, place: &'static str) -> Result<(), SyntaxError> {
        match self.next()? {
            b'0'..=b'9' => Ok(()),
            c => Err(SyntaxError::Character(c, place)),
        }
    }

    fn number(&mut self, first: u8) -> Result<(), SyntaxError> {
        let first = if first == b'-' { self.next()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            c => return Err(SyntaxError::Character(c, "in numeric literal")),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8], name: &'static str) -> Result<(), SyntaxError> {
        for (at, expected) in word.iter().enumerate().skip(1) {
            let c = self.next()?;
            if c != *expected {
                return Err(SyntaxError::Character(c, expecting(name, at)));
            }
        }
        Ok(())
    }
}

/// The place inside a literal, as Go names it.
fn expecting(name: &'static str, at: usize) -> &'static str {
    match (name, at) {
        ("literal true", 1) => "in literal true (expecting 'r')",
        ("literal true", 2) => "in literal true (expecting 'u')",
        ("literal true", _) => "in literal true (expecting 'e')",
        ("literal false", 1) => "in literal false (expecting 'a')",
        ("literal false", 2) => "in literal false (expecting 'l')",
        ("literal false", 3) => "in literal false (expecting 's')",
        ("literal false", _) => "in literal false (expecting 'e')",
        (_, 1) => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "unexpected end of JSON input")]
    #[case("{", "unexpected end of JSON input")]
    #[case("{]", "invalid character ']' looking for beginning of object key string")]
    #[case("{\"a\"}", "invalid character '}' after object key")]
    #[case("{\"a\":1,}", "invalid character '}' looking for beginning of object key string")]
    #[case("{\"a\":1 2}", "invalid character '2' after object key:value pair")]
    #[case("[1,]", "invalid character ']' looking for beginning of value")]
    #[case("[1 2]", "invalid character '2' after array element")]
    #[case("kind: x", "invalid character 'k' looking for beginning of value")]
    #[case("{} x", "invalid character 'x' after top-level value")]
    #[case("\"a\nb\"", "invalid character '\\n' in string literal")]
    #[case("\"\\x\"", "invalid character 'x' in string escape code")]
    #[case("01", "invalid character '1' after top-level value")]
    #[case("-x", "invalid character 'x' in numeric literal")]
    #[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
    #[case("nul1", "invalid character '1' in literal null (expecting 'l')")]
    fn names_faults_as_go_does(#[case] text: &str, #[case] message: &str) {
        assert_eq!(check(text.as_bytes()).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_million_brackets_are_refused_without_a_stack() {
        assert_eq!(check(&vec![b'['; 1_000_000]), Err(SyntaxError::Depth));
        let deep = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
        assert_eq!(check(&deep), Ok(()));
    }

    #[test]
    fn objects_and_lists_are_counted_and_what_stands_in_strings_is_not() {
        let of = |count: usize| format!("[{}]", vec!["{}"; count - 1].join(","));
        assert_eq!(check(of(MAX_CONTAINERS).as_bytes()), Ok(()));
        assert_eq!(check(of(MAX_CONTAINERS + 1).as_bytes()), Err(SyntaxError::Containers));
        assert_eq!(check(format!("[\"{}\"]", "[{".repeat(MAX_CONTAINERS)).as_bytes()), Ok(()));
    }

    proptest! {
        #[test]
        fn agrees_with_serde(text in r#"[\[\]{}",:0-9a-e.\\truefalsn -]{0,12}"#) {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            // serde refuses numbers too large for a float and lone surrogates; neither is reachable here.
            prop_assert_eq!(check(text.as_bytes()).is_ok(), theirs.is_ok(), "{}", text);
        }
    }
}
