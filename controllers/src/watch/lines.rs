//! The lines of a watch, in the one form that kube's watcher reads.
//!
//! It reads an event only if its type comes before its object, as API servers write it; JSON has no such order, and what
//! stands between a server and us may write it the other way round. Such lines are put in order here; all others go
//! through as they came, and nothing is said about what is in them. After an object could not be read, objects are handed
//! over as texts, of which one that cannot be read does no harm to the line (`objects/lenient.rs`).

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How an event begins that can go through.
const IN_ORDER: &[u8] = br#"{"type""#;

/// The lines of one watch.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// What came of a line of which it is not known yet whether it can go through.
    held: Vec<u8>,
    /// So much of that has been looked through for its end.
    searched: usize,
    /// The line that has not ended yet goes through.
    passing: bool,
    /// Objects are handed over as texts.
    texts: bool,
}

/// An event, in the order in which it is written.
#[derive(Deserialize, Serialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// An event whose object is handed over as a text.
#[derive(Serialize)]
struct EventOfText<'a> {
    r#type: &'a str,
    object: &'a str,
}

impl Lines {
    /// Lines of a watch whose objects are handed over as they come, or as `texts`.
    pub(super) fn new(texts: bool) -> Self {
        Self { texts, ..Self::default() }
    }

    /// The next bytes that can go on, now that these have come. Mostly they are the same.
    pub(super) fn take(&mut self, data: Bytes) -> Bytes {
        if self.held.is_empty() {
            let end = self.passes(&data);
            if end == data.len() {
                return data;
            }
            let mut out = data[..end].to_vec();
            self.held.extend_from_slice(&data[end..]);
            self.put_in_order(&mut out);
            return out.into();
        }
        self.held.extend_from_slice(&data);
        let mut out = Vec::new();
        self.put_in_order(&mut out);
        out.into()
    }

    /// What is left when the watch has ended: the beginning of a line, or one that only lacks its end.
    pub(super) fn rest(&mut self) -> Bytes {
        self.searched = 0;
        in_order(std::mem::take(&mut self.held), self.texts).into()
    }

    /// Lets go of what is held as far as that is known now.
    fn put_in_order(&mut self, out: &mut Vec<u8>) {
        loop {
            let held = std::mem::take(&mut self.held);
            let passes = self.passes(&held);
            self.held = held;
            if passes > 0 {
                out.extend(self.held.drain(..passes));
                self.searched = 0;
            }
            let Some(end) = memchr::memchr(b'\n', &self.held[self.searched..]) else {
                self.searched = self.held.len();
                return;
            };
            let line: Vec<u8> = self.held.drain(..=self.searched + end).collect();
            self.searched = 0;
            out.extend(in_order(line, self.texts));
        }
    }

    /// How many of these bytes go through as they are. `passing` says whether they begin within a line that does, and is left
    /// so that it says that of the bytes after them.
    fn passes(&mut self, data: &[u8]) -> usize {
        let mut begin = 0;
        while !self.texts && (self.passing || data[begin..].starts_with(IN_ORDER)) {
            self.passing = true;
            let Some(end) = memchr::memchr(b'\n', &data[begin..]) else { return data.len() };
            begin += end + 1;
            self.passing = false;
        }
        begin
    }
}

/// The same event with its type first, and its object as a text if that is asked for; the same line if it is no event.
fn in_order(line: Vec<u8>, texts: bool) -> Vec<u8> {
    let ordered = serde_json::from_slice::<Event<'_>>(&line).and_then(|event| {
        if texts && matches!(&*event.r#type, "ADDED" | "MODIFIED" | "DELETED") {
            serde_json::to_vec(&EventOfText { r#type: &event.r#type, object: event.object.get() })
        } else {
            serde_json::to_vec(&event)
        }
    });
    match ordered {
        Ok(mut ordered) => {
            ordered.push(b'\n');
            ordered
        }
        Err(_) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a text that comes in chunks of a size.
    fn taken(text: &str, size: usize) -> String {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            out.extend(lines.take(Bytes::copy_from_slice(chunk)));
        }
        out.extend(lines.rest());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let ordered = r#"{"type":"ADDED","object":{"a":"\n"}}"#;
        let turned = r#"{"object":{"a":"\n"},"type":"ADDED"}"#;
        let text = format!("{ordered}\n{turned}\n\n{turned}\n{ordered}\nno event\n{ordered}\n{{\"type");
        let expected = format!("{ordered}\n{ordered}\n\n{ordered}\n{ordered}\nno event\n{ordered}\n{{\"type");
        for size in 1..=text.len() {
            assert_eq!(taken(&text, size), expected, "chunks of {size}");
        }
    }

    #[test]
    fn an_event_is_put_in_order_however_it_is_written() {
        let ordered = "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"type\":\"x\"}}\n";
        for line in [
            "{\"object\":{\"kind\":\"Pod\",\"type\":\"x\"},\"type\":\"MODIFIED\"}\n",
            "{\"object\":{\"kind\":\"Pod\",\"type\":\"x\"},\"type\":\"MODIFIED\"}\r\n",
            "{ \"type\" : \"MODIFIED\", \"object\" : {\"kind\":\"Pod\",\"type\":\"x\"} }\n",
        ] {
            assert_eq!(taken(line, 7), ordered, "{line}");
        }
        for line in ["", "\n", "{}\n", "[]\n", "{\"object\":{}}\n", "{\"object\":{},\"ty", "no JSON\n"] {
            assert_eq!(taken(line, 7), line, "what is no event stays");
        }
    }

    #[test]
    fn objects_are_handed_over_as_texts_when_asked_for() {
        let text =
            "{\"type\":\"ADDED\",\"object\":{\"a\":7}}\nno event\n{\"type\":\"BOOKMARK\",\"object\":{}}\n";
        for size in 1..=text.len() {
            let mut lines = Lines::new(true);
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                out.extend(lines.take(Bytes::copy_from_slice(chunk)));
            }
            out.extend(lines.rest());
            let expected = "{\"type\":\"ADDED\",\"object\":\"{\\\"a\\\":7}\"}\nno event\n{\"type\":\"BOOKMARK\",\"object\":{}}\n";
            assert_eq!(String::from_utf8(out).unwrap(), expected, "chunks of {size}");
        }
    }

    #[test]
    fn what_is_in_order_is_not_copied() {
        let data = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"obj");
        assert_eq!(Lines::default().take(data.clone()).as_ptr(), data.as_ptr());
    }
}
