//! YAML as kubectl writes it, as JSON: mappings and lists by indentation, scalars in one line, literal blocks.
//!
//! Dumps are hundreds of megabytes of that, and the YAML library reads some tens a second. Owns what is plain enough to be read
//! at once; whatever could mean anything else is not, and is left to the library. It never guesses.

mod scalar;

use self::scalar::{plain, quoted, single};

/// Deeper objects are left to the library.
const DEEPEST: usize = 64;

/// An object as JSON, if it is written plainly enough.
pub(super) fn to_json(text: &str) -> Option<Vec<u8>> {
    let mut reader = Reader { rest: text, line: None, out: Vec::with_capacity(text.len()) };
    reader.next_line()?;
    let indent = reader.line?.indent;
    reader.block(indent, 0)?;
    reader.line.is_none().then_some(reader.out)
}

/// A line without its indentation.
#[derive(Clone, Copy)]
struct Line<'a> {
    indent: usize,
    text: &'a str,
}

struct Reader<'a> {
    /// What comes after the line.
    rest: &'a str,
    /// The line that is looked at; none at the end.
    line: Option<Line<'a>>,
    out: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Goes on to the next line that is not blank.
    fn next_line(&mut self) -> Option<()> {
        loop {
            let Some(raw) = self.take_raw() else {
                self.line = None;
                return Some(());
            };
            let text = raw.trim_start_matches(' ');
            if text.is_empty() {
                continue;
            }
            // Comments, tabs, directives and the like are for the library.
            if text.starts_with(['#', '\t', '%']) || text.ends_with([' ', '\t', '\r']) {
                return None;
            }
            self.line = Some(Line { indent: raw.len() - text.len(), text });
            return Some(());
        }
    }

    /// The next line as it stands.
    fn take_raw(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest.as_bytes());
        let (raw, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        Some(raw)
    }

    fn block(&mut self, indent: usize, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        if self.line?.text.starts_with("- ") { self.list(indent, depth) } else { self.mapping(indent, depth) }
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Option<()> {
        self.out.push(b'{');
        let mut first = true;
        while let Some(line) = self.line.filter(|line| line.indent == indent && !line.text.starts_with("- "))
        {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            let value = self.key(line.text)?;
            self.out.push(b':');
            self.value(value, indent, true, depth)?;
        }
        self.out.push(b'}');
        // What is indented otherwise belongs to nothing that was read.
        self.line.is_none_or(|line| line.indent < indent || line.text.starts_with("- ")).then_some(())
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<()> {
        self.out.push(b'[');
        let mut first = true;
        while let Some(line) = self.line.filter(|line| line.indent == indent && line.text.starts_with("- ")) {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            let text = &line.text[2..];
            if text.starts_with(' ') || text.starts_with("- ") {
                return None;
            }
            if is_key(text) {
                // The item begins in the line of its dash, as if it stood below it.
                self.line = Some(Line { indent: indent + 2, text });
                self.mapping(indent + 2, depth + 1)?;
            } else {
                self.value(text, indent, false, depth)?;
            }
        }
        self.out.push(b']');
        self.line.is_none_or(|line| line.indent <= indent).then_some(())
    }

    /// Writes the key at the front of a line, and gives what stands behind it.
    fn key(&mut self, text: &'a str) -> Option<&'a str> {
        let end = key_end(text)?;
        let (key, value) = (&text[..end], &text[end + 1..]);
        match key.as_bytes().first()? {
            b'"' => quoted(key, &mut self.out)?,
            b'\'' => single(key, &mut self.out)?,
            _ => scalar::key(key, &mut self.out)?,
        }
        Some(value.strip_prefix(' ').unwrap_or(value))
    }

    /// Writes what stands behind a key, or behind the dash of a list, in a line that is indented so far.
    fn value(&mut self, text: &'a str, indent: usize, of_key: bool, depth: usize) -> Option<()> {
        if text.is_empty() {
            self.next_line()?;
            return match self.line {
                Some(line) if line.indent > indent => self.block(line.indent, depth + 1),
                Some(line) if of_key && line.indent == indent && line.text.starts_with("- ") => {
                    self.list(indent, depth + 1)
                }
                _ if of_key => {
                    self.out.extend_from_slice(b"null");
                    Some(())
                }
                _ => None,
            };
        }
        match text {
            "{}" | "[]" => self.out.extend_from_slice(text.as_bytes()),
            "|" | "|-" => return self.literal(indent, text == "|"),
            _ => match text.as_bytes()[0] {
                b'"' => quoted(text, &mut self.out)?,
                b'\'' => single(text, &mut self.out)?,
                _ => plain(text, &mut self.out)?,
            },
        }
        self.next_line()?;
        // A line that is indented further goes on with the scalar.
        self.line.is_none_or(|line| line.indent <= indent).then_some(())
    }

    /// A literal block below a line that is indented so far.
    fn literal(&mut self, indent: usize, keeps_end: bool) -> Option<()> {
        let mut lines: Vec<&str> = Vec::new();
        let mut own: Option<usize> = None;
        loop {
            let before = self.rest;
            let Some(raw) = self.take_raw() else { break };
            let text = raw.trim_start_matches(' ');
            let depth = raw.len() - text.len();
            if text.is_empty() {
                // Blank lines at the front, and those with spaces, are counted in ways of their own.
                if own.is_none() || !raw.is_empty() {
                    return None;
                }
                lines.push("");
                continue;
            }
            let begins = *own.get_or_insert(depth);
            if begins <= indent || depth < begins {
                if depth > indent {
                    return None;
                }
                self.rest = before;
                break;
            }
            lines.push(&raw[begins..]);
        }
        own.filter(|own| *own > indent)?;
        while lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        let mut text = lines.join("\n");
        if keeps_end {
            text.push('\n');
        }
        scalar::string(&text, &mut self.out)?;
        self.next_line()
    }
}

/// Whether a text begins with a key of a mapping.
fn is_key(text: &str) -> bool {
    key_end(text).is_some()
}

/// Where the colon behind a key stands.
fn key_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let from = match bytes.first()? {
        quote @ (b'"' | b'\'') => scalar::quote_end(text, *quote)?,
        _ => 0,
    };
    let mut at = from;
    loop {
        at += memchr::memchr(b':', &bytes[at..])?;
        if matches!(bytes.get(at + 1), None | Some(b' ')) {
            // Behind a quote comes the colon at once.
            return (from == 0 || at == from).then_some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests;
