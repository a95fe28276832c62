//! The lines of a watch's answer, and what kind of event a line is.
//!
//! Owns where a line ends and where the object in it begins; never what the object says.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Cuts chunks into lines. What is complete in a chunk is given without being copied.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

/// Space for a line is kept for the next one up to this size.
const KEPT: usize = 256 << 10;
/// A line longer than any object (the API server stores at most 1.5 MiB) is no line.
const LONGEST: usize = 64 << 20;

impl Lines {
    /// Takes in a chunk and gives each line that it completes to `each`, until that gives false.
    ///
    /// # Errors
    /// If there is no end to a line.
    pub fn feed<E>(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), LineError<E>> {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.rest.is_empty() {
                each(line).map_err(LineError::Refused)?;
            } else {
                self.rest.extend_from_slice(line);
                each(&self.rest).map_err(LineError::Refused)?;
                self.rest.clear();
                if self.rest.capacity() > KEPT {
                    self.rest = Vec::new();
                }
            }
            rest = after;
        }
        self.rest.extend_from_slice(rest);
        if self.rest.len() > LONGEST { Err(LineError::Endless) } else { Ok(()) }
    }
}

/// Lines that are not read to their end.
#[derive(Debug, PartialEq, Eq)]
pub enum LineError<E> {
    /// A line has no end.
    Endless,
    /// Who was given a line wants no more.
    Refused(E),
}

/// The type of a watch event (API concepts, "efficient detection of changes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An object is new or has changed.
    Seen,
    /// An object is gone.
    Gone,
    /// Only the version has changed.
    Bookmark,
    /// The watch ends with a `Status`.
    Error,
}

impl EventType {
    fn of(name: &str) -> Option<Self> {
        match name {
            "ADDED" | "MODIFIED" => Some(Self::Seen),
            "DELETED" => Some(Self::Gone),
            "BOOKMARK" => Some(Self::Bookmark),
            "ERROR" => Some(Self::Error),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The type of the event in a line, and the JSON of its object; none if it is no event.
#[must_use]
pub fn event(line: &[u8]) -> Option<(EventType, Cow<'_, [u8]>)> {
    // As every API server writes it: one look at the object is enough.
    if let Some(rest) = line.strip_prefix(br#"{"type":""#)
        && let Some(end) = memchr::memchr(b'"', rest)
        && let Some(object) = rest[end..].strip_prefix(br#"","object":"#)
        && let Some(object) = object.trim_ascii_end().strip_suffix(b"}")
    {
        return Some((EventType::of(std::str::from_utf8(&rest[..end]).ok()?)?, Cow::Borrowed(object)));
    }
    let event: Event<'_> = serde_json::from_slice(line).ok()?;
    Some((EventType::of(&event.kind)?, Cow::Borrowed(event.object.get().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
        for size in 1..=text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines
                    .feed(chunk, |line| {
                        seen.push(String::from_utf8(line.to_vec()).unwrap());
                        Ok::<_, ()>(())
                    })
                    .unwrap();
            }
            assert_eq!(seen, ["{\"a\":1}", "", "{\"b\":2}"], "chunks of {size}");
        }
    }

    #[test]
    fn a_refused_line_is_the_last() {
        let mut count = 0;
        let end = Lines::default().feed(b"a\nb\nc\n", |line| {
            count += 1;
            if line == b"b" { Err("enough") } else { Ok(()) }
        });
        assert_eq!((end, count), (Err(LineError::Refused("enough")), 2));
    }

    #[test]
    fn an_event_is_found_however_it_is_written() {
        let written = [
            r#"{"type":"MODIFIED","object":{"kind":"Pod","type":"x"}}"#,
            "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"type\":\"x\"}}\r",
            r#"{ "type" : "MODIFIED", "object" : {"kind":"Pod","type":"x"} }"#,
            r#"{"object":{"kind":"Pod","type":"x"},"type":"MODIFIED"}"#,
        ];
        for line in written {
            let (kind, object) = event(line.as_bytes()).unwrap();
            assert_eq!((kind, &*object), (EventType::Seen, &br#"{"kind":"Pod","type":"x"}"#[..]), "{line}");
        }
        for (name, kind) in [
            ("ADDED", EventType::Seen),
            ("DELETED", EventType::Gone),
            ("BOOKMARK", EventType::Bookmark),
            ("ERROR", EventType::Error),
        ] {
            assert_eq!(event(format!(r#"{{"type":"{name}","object":{{}}}}"#).as_bytes()).unwrap().0, kind);
        }
        for line in ["", "{}", "[]", r#"{"type":"MOVED","object":{}}"#, r#"{"type":"ADDED"}"#] {
            assert_eq!(event(line.as_bytes()), None, "{line}");
        }
    }
}
