//! JSON text, piece by piece, as the objects in it: whole ones, and the items of lists.
//!
//! Owns where an object begins and ends; nothing of it is read here but what a list says of its items.

use super::{Head, LARGEST, Sink, SplitError, hand_on, hand_on_as};

/// Depth inside of a document, and inside of the items of a list.
const IN_DOCUMENT: usize = 1;
const IN_ITEMS: usize = 2;

/// What begins or ends something.
const fn is_structural(byte: u8) -> bool {
    matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')
}

/// How many bytes at the front of a text, outside of strings, begin and end nothing.
fn plain(text: &[u8]) -> usize {
    /// Most of what kubectl writes is indentation.
    const SPACES: &[u8; 8] = b"        ";
    let mut at = 0;
    while let Some(byte) = text.get(at).filter(|byte| !is_structural(**byte)) {
        at += 1;
        if *byte == b'\n' {
            while text[at..].first_chunk() == Some(SPACES) {
                at += SPACES.len();
            }
        }
    }
    at
}

/// Takes pieces of text and hands on each object when it is whole.
#[derive(Debug, Default)]
pub(super) struct JsonSplitter {
    text: Vec<u8>,
    /// Up to here the text was looked at.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Where the document begins, while it may be an object.
    document: usize,
    /// The last string directly inside of the document.
    last_string: (usize, usize),
    string_start: usize,
    list: Option<List>,
    count: usize,
}

/// A list that is being read.
#[derive(Debug, Default)]
struct List {
    /// What stands before its items.
    before: Head,
    /// What that says of them, if it does.
    head: Option<Head>,
    /// Items that do not say what they are, before the list does.
    undecided: Vec<Vec<u8>>,
    held: usize,
    /// Where the item begins.
    item: usize,
    /// Where the fields behind the items begin; none within them.
    tail: Option<usize>,
}

impl JsonSplitter {
    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), SplitError> {
        self.text.extend_from_slice(piece);
        while self.at < self.text.len() {
            if self.in_string {
                self.string();
            } else if self.depth > 0 && !is_structural(self.text[self.at]) {
                self.at += plain(&self.text[self.at..]);
            } else {
                self.step(sink)?;
            }
        }
        self.forget();
        if self.text.len() > LARGEST { Err(SplitError::TooLarge) } else { Ok(()) }
    }

    /// The text ends here; gives how many objects were in it.
    pub(super) fn finish(self) -> Result<usize, SplitError> {
        if self.depth > 0 { Err(SplitError::Truncated(self.count)) } else { Ok(self.count) }
    }

    /// Goes on to the end of a string, or to the end of the text.
    fn string(&mut self) {
        if std::mem::take(&mut self.escaped) {
            self.at += 1;
            return;
        }
        let Some(found) = memchr::memchr2(b'"', b'\\', &self.text[self.at..]) else {
            self.at = self.text.len();
            return;
        };
        self.escaped = self.text[self.at + found] == b'\\';
        self.in_string = self.escaped;
        self.at += found + 1;
        if !self.in_string && self.depth == IN_DOCUMENT {
            self.last_string = (self.string_start, self.at);
        }
    }

    fn step(&mut self, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let byte = self.text[self.at];
        match byte {
            b'"' => {
                self.in_string = true;
                self.string_start = self.at;
            }
            b'{' | b'[' => self.open(byte)?,
            b'}' | b']' => self.close(sink)?,
            _ if self.depth == 0 && !byte.is_ascii_whitespace() => {
                return Err(SplitError::NoObject(byte.into()));
            }
            _ => {}
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<(), SplitError> {
        match (self.depth, byte) {
            (0, b'{') => self.document = self.at,
            (0, _) => return Err(SplitError::NoObject('[')),
            (IN_DOCUMENT, b'[') if self.list.is_none() && self.key() == br#""items""# => {
                let head = self.head_before(self.last_string.0)?;
                self.list = Some(List { head: head.of_items(), before: head, ..List::default() });
            }
            (IN_ITEMS, b'{') => {
                if let Some(list) = self.list.as_mut().filter(|list| list.tail.is_none()) {
                    list.item = self.at;
                }
            }
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let Some(depth) = self.depth.checked_sub(1) else { return Err(SplitError::NoObject('}')) };
        self.depth = depth;
        let end = self.at + 1;
        match (depth, &mut self.list) {
            (IN_ITEMS, Some(list)) if list.tail.is_none() => {
                let item = &self.text[list.item..end];
                self.count += 1;
                if let Some(head) = &list.head {
                    hand_on_as(item, head, sink)?;
                } else {
                    let head = Head::read(item)?;
                    if head.kind.is_empty() {
                        list.keep(item)?;
                    } else {
                        hand_on_as(item, &head, sink)?;
                    }
                }
                list.item = end;
            }
            (IN_DOCUMENT, Some(list)) if list.tail.is_none() => list.tail = Some(end),
            (0, None) => {
                let document = &self.text[self.document..end];
                let head = Head::read(document)?;
                if !is_list_of_nothing(document, &head) {
                    self.count += 1;
                    hand_on_as(document, &head, sink)?;
                }
                self.document = end;
            }
            (0, Some(_)) => self.end_list(end, sink)?,
            _ => {}
        }
        Ok(())
    }

    /// What stands behind the items may say what those were that did not say it.
    fn end_list(&mut self, end: usize, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let Some(list) = self.list.take() else { return Ok(()) };
        self.document = end;
        if list.undecided.is_empty() {
            return Ok(());
        }
        let tail = &self.text[list.tail.unwrap_or(end)..end];
        let fields = tail.iter().position(|byte| *byte == b',').map_or(&b"}"[..], |comma| &tail[comma + 1..]);
        let head: Head = serde_json::from_slice(&[b"{", fields].concat()).map_err(SplitError::Json)?;
        let head = list.before.with(head).of_items();
        list.undecided.iter().try_for_each(|item| hand_on(item, head.as_ref(), sink))
    }

    fn key(&self) -> &[u8] {
        &self.text[self.last_string.0..self.last_string.1]
    }

    /// The fields of the document before a place.
    fn head_before(&self, place: usize) -> Result<Head, SplitError> {
        let text = [&self.text[self.document..place], br#""_":0}"#].concat();
        serde_json::from_slice(&text).map_err(SplitError::Json)
    }

    /// Gives up the text that is not needed any more.
    fn forget(&mut self) {
        let needed = match &self.list {
            Some(List { tail: Some(tail), .. }) => *tail,
            Some(list) if self.depth > IN_ITEMS => list.item,
            None if self.depth > 0 => self.document,
            _ => self.at,
        };
        self.text.drain(..needed);
        self.at -= needed;
        self.document = self.document.saturating_sub(needed);
        self.string_start = self.string_start.saturating_sub(needed);
        self.last_string =
            (self.last_string.0.saturating_sub(needed), self.last_string.1.saturating_sub(needed));
        if let Some(list) = &mut self.list {
            list.item = list.item.saturating_sub(needed);
            list.tail = list.tail.map(|tail| tail.saturating_sub(needed));
        }
    }
}

/// Whether a document is a list whose items are `null`: so kube-apiserver writes one of metadata that has none.
fn is_list_of_nothing(document: &[u8], head: &Head) -> bool {
    let whole = || serde_json::from_slice::<serde_json::Value>(document);
    head.kind.ends_with("List")
        && whole().is_ok_and(|list| list.get("items").is_some_and(serde_json::Value::is_null))
}

impl List {
    fn keep(&mut self, item: &[u8]) -> Result<(), SplitError> {
        self.held += item.len();
        if self.held > LARGEST {
            return Err(SplitError::NoKind);
        }
        self.undecided.push(item.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, piece: usize) -> Result<Vec<String>, SplitError> {
        let mut found = Vec::new();
        let mut sink = |item: super::super::Item<'_>| {
            let value: serde_json::Value = serde_json::from_slice(item.json)?;
            found.push(format!(
                "{}/{} {}",
                item.group,
                item.kind,
                value["metadata"]["name"].as_str().unwrap_or("-")
            ));
            Ok(())
        };
        let mut splitter = JsonSplitter::default();
        for piece in text.as_bytes().chunks(piece) {
            splitter.push(piece, &mut sink)?;
        }
        splitter.finish()?;
        Ok(found)
    }

    #[rstest::rstest]
    #[case::kubectl(
        r#"{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\\"}]"}},
            {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"items":[{"x":[1]}]}}], "kind": "List",
            "metadata": {"resourceVersion": ""}}"#,
        &["/Pod a\\\"}]", "apps/Deployment d"]
    )]
    #[case::server(
        r#"{"kind":"IPAddressList","apiVersion":"networking.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"10.0.0.1"}}]}"#,
        &["networking.k8s.io/IPAddress 10.0.0.1"]
    )]
    #[case::sorted(r#"{"apiVersion":"x/v1","items":[{"metadata":{"name":"a"}}],"kind":"PodList"}"#, &["x/Pod a"])]
    #[case::two_documents(
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}\n{\"metadata\":{\"name\":\"b\"},\"kind\":\"Node\",\"apiVersion\":\"v1\"}",
        &["/Pod a", "/Node b"]
    )]
    #[case::empty(r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#, &[])]
    #[case::metadata_of_none(
        "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{},\"items\":null}",
        &[]
    )]
    fn objects_are_found_however_the_text_is_cut(#[case] text: &str, #[case] expected: &[&str]) {
        for piece in [1, 2, 3, 7, 64, 4096] {
            assert_eq!(split(text, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let say = |text: &str| split(text, 5).unwrap_err().to_string();
        let half =
            r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"na"#;
        assert_eq!(
            say(half),
            "it ends in the middle of an object, after 1 objects: the copy is not complete"
        );
        assert_eq!(say("[1]"), "'[' is no beginning of a Kubernetes object");
        assert!(say(r#"{"a": 1}"#).contains("neither kind nor apiVersion"));
        assert!(say("{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}}").contains("'}'"));
        assert!(say(r#"{"kind" "Pod"}"#).starts_with("no JSON"));
    }

    #[test]
    fn memory_is_that_of_one_object() {
        let mut splitter = JsonSplitter::default();
        let mut sink = |_: super::super::Item<'_>| Ok(());
        splitter.push(br#"{"kind":"PodList","apiVersion":"v1","items":["#, &mut sink).unwrap();
        let pod = format!(r#"{{"metadata":{{"name":"{}"}}}},"#, "x".repeat(1000));
        for _ in 0..2000 {
            splitter.push(pod.as_bytes(), &mut sink).unwrap();
            assert!(splitter.text.len() < 2048, "{}", splitter.text.len());
        }
    }
}
