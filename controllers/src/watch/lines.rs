//! The lines of a watch, in the one form that kube's watcher reads.
//!
//! It reads an event only if its type comes before its object, as API servers write it; JSON has no such order, and what
//! stands between a server and us may write it the other way round. Such lines are put in order here; all others go
//! through as they came, and nothing is said about what is in them.

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
}

/// An event, in the order in which it is written.
#[derive(Deserialize, Serialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Lines {
    /// The next bytes that can go on, now that these have come. Mostly they are the same.
    pub(super) fn take(&mut self, data: Bytes) -> Bytes {
        if self.held.is_empty() {
            let end = passes(&data, &mut self.passing);
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

    /// What is left when the watch has ended: the beginning of a line.
    pub(super) fn rest(&mut self) -> Bytes {
        self.searched = 0;
        std::mem::take(&mut self.held).into()
    }

    /// Lets go of what is held as far as that is known now.
    fn put_in_order(&mut self, out: &mut Vec<u8>) {
        loop {
            let passes = passes(&self.held, &mut self.passing);
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
            out.extend(in_order(line));
        }
    }
}

/// How many of these bytes go through as they are. `passing` says whether they begin within a line that does, and is left
/// so that it says that of the bytes after them.
fn passes(data: &[u8], passing: &mut bool) -> usize {
    let mut begin = 0;
    while *passing || data[begin..].starts_with(IN_ORDER) {
        *passing = true;
        let Some(end) = memchr::memchr(b'\n', &data[begin..]) else { return data.len() };
        begin += end + 1;
        *passing = false;
    }
    begin
}

/// The same event with its type first; the same line if it is no event.
fn in_order(line: Vec<u8>) -> Vec<u8> {
    let ordered = serde_json::from_slice::<Event<'_>>(&line).and_then(|event| serde_json::to_vec(&event));
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
    fn what_is_in_order_is_not_copied() {
        let data = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"obj");
        assert_eq!(Lines::default().take(data.clone()).as_ptr(), data.as_ptr());
    }
}
