//! YAML text, line by line, as the objects in it: documents, and the items of lists as kubectl writes them.
//!
//! Owns where an object begins and ends, by indentation; the text of one object at a time is read at once, if kubectl wrote
//! it, or by the YAML library.
//! Three steps, of which the middle one can be done for many pieces at once: lines become pieces, a piece becomes objects,
//! and items that do not say what they are wait for the end of their list.

use serde_json::Value;

use super::{Head, LARGEST, Sink, SplitError, block, hand_on, hand_on_as};

/// Lines that belong together.
#[derive(Debug)]
pub(super) enum Piece {
    /// An item of a list.
    Item(Text),
    /// A list ends, after so many items of the text: its own fields.
    End(Text, usize),
    /// A document that is no list by its lines; in flow style it may be one.
    Document(Text),
}

/// Some lines.
#[derive(Debug, Default)]
pub(super) struct Text {
    lines: String,
    /// The number of the first.
    first: usize,
}

/// Takes lines and gives pieces.
#[derive(Debug, Default)]
pub(super) struct YamlSplitter {
    /// The lines of the object that is being read.
    text: Text,
    /// The number of the last line that was taken.
    line: usize,
    list: Option<List>,
    items: usize,
}

/// A list that is being read.
#[derive(Debug, Default)]
struct List {
    /// How far its items are indented; none before the first.
    indent: Option<usize>,
    /// Its own fields.
    fields: String,
    /// Whether the lines are of items.
    in_items: bool,
}

impl YamlSplitter {
    /// Takes the next line, with its end.
    pub(super) fn push(&mut self, line: &str, pieces: &mut Vec<Piece>) -> Result<(), SplitError> {
        self.line += 1;
        let bare = line.trim_end();
        let indent = bare.len() - bare.trim_start().len();
        if bare == "---" || bare.starts_with("--- ") || bare == "..." {
            self.end_document(pieces);
            return Ok(());
        }
        let starts_item = bare[indent..].starts_with("- ") || &bare[indent..] == "-";
        let Some(list) = &mut self.list else {
            if bare == "items:" {
                let fields = std::mem::take(&mut self.text).lines;
                self.list = Some(List { fields, in_items: true, ..List::default() });
            } else if !bare.is_empty() {
                self.keep(line)?;
            }
            return Ok(());
        };
        if bare.is_empty() || bare[indent..].starts_with('#') && list.in_items && self.text.lines.is_empty() {
            return if self.text.lines.is_empty() { Ok(()) } else { self.keep(line) };
        }
        if starts_item && list.in_items && list.indent.is_none_or(|own| own == indent) {
            list.indent = Some(indent);
            self.end_item(pieces);
            self.keep(&line[..indent])?;
            self.keep(" ")?;
            return self.keep(&line[indent + 1..]);
        }
        if indent == 0 {
            list.in_items = false;
            list.fields += line;
            self.end_item(pieces);
            return Ok(());
        }
        if list.in_items {
            return self.keep(line);
        }
        list.fields += line;
        Ok(())
    }

    /// The text ends here.
    pub(super) fn finish(mut self, pieces: &mut Vec<Piece>) {
        self.end_document(pieces);
    }

    fn keep(&mut self, line: &str) -> Result<(), SplitError> {
        let text = &mut self.text;
        if text.lines.is_empty() {
            text.first = self.line;
        }
        text.lines += line;
        if text.lines.len() > LARGEST { Err(SplitError::TooLarge) } else { Ok(()) }
    }

    fn end_item(&mut self, pieces: &mut Vec<Piece>) {
        let text = std::mem::take(&mut self.text);
        if !text.lines.is_empty() {
            self.items += 1;
            pieces.push(Piece::Item(text));
        }
    }

    fn end_document(&mut self, pieces: &mut Vec<Piece>) {
        if let Some(list) = self.list.take() {
            self.end_item(pieces);
            pieces.push(Piece::End(Text { lines: list.fields, first: self.line }, self.items));
        } else {
            pieces.push(Piece::Document(std::mem::take(&mut self.text)));
        }
    }
}

/// What a piece has in it.
#[derive(Debug)]
pub(super) enum Read {
    /// Objects, each with what it says of itself.
    Objects(Vec<(Head, Vec<u8>)>),
    /// A list ends: what it says of its items.
    End(Option<Head>),
}

/// Reads a piece.
pub(super) fn convert(piece: Piece) -> Result<Read, SplitError> {
    match piece {
        Piece::Item(text) => {
            if let Some(read) = text.read_at_once()? {
                return Ok(Read::Objects(vec![read]));
            }
            let value = text.read()?;
            value.iter().map(object).collect::<Result<Vec<_>, _>>().map(Read::Objects)
        }
        Piece::End(text, items) => {
            let head = head(&text.read()?.unwrap_or_default());
            // kubectl says what a list is behind its items.
            if head.kind.is_empty() {
                Err(SplitError::Truncated(items))
            } else {
                Ok(Read::End(head.of_items()))
            }
        }
        Piece::Document(text) => {
            if let Some(read) =
                text.read_at_once()?.filter(|(head, _)| !head.kind.is_empty() && !head.kind.ends_with("List"))
            {
                return Ok(Read::Objects(vec![read]));
            }
            let Some(mut value) = text.read()? else { return Ok(Read::Objects(Vec::new())) };
            let own = head(&value);
            if own.kind.is_empty() {
                return Err(SplitError::NoKind);
            }
            let is_list = own.kind.ends_with("List");
            let Some(Value::Array(items)) = value.get_mut("items").filter(|_| is_list).map(Value::take)
            else {
                return Ok(Read::Objects(vec![object(&value)?]));
            };
            let of_items = own.of_items();
            let items = items.iter().map(|item| {
                let (head, json) = object(item)?;
                Ok((of_items.clone().unwrap_or(head), json))
            });
            let objects = items.collect::<Result<Vec<_>, SplitError>>()?;
            if objects.iter().any(|(head, _)| head.kind.is_empty()) {
                return Err(SplitError::NoKind);
            }
            Ok(Read::Objects(objects))
        }
    }
}

/// Hands on what was read; items that do not say what they are when their list has.
#[derive(Debug, Default)]
pub(super) struct Objects {
    undecided: Vec<Vec<u8>>,
    held: usize,
}

impl Objects {
    /// Takes what comes next.
    pub(super) fn take(&mut self, read: Read, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        match read {
            Read::Objects(objects) => objects.into_iter().try_for_each(|(head, json)| {
                if head.kind.is_empty() { self.keep(json) } else { hand_on_as(&json, &head, sink) }
            }),
            Read::End(head) => {
                self.held = 0;
                let undecided = std::mem::take(&mut self.undecided);
                undecided.iter().try_for_each(|json| hand_on(json, head.as_ref(), sink))
            }
        }
    }

    fn keep(&mut self, json: Vec<u8>) -> Result<(), SplitError> {
        self.held += json.len();
        if self.held > LARGEST {
            return Err(SplitError::NoKind);
        }
        self.undecided.push(json);
        Ok(())
    }
}

impl Text {
    /// Reads an object, if it is written as kubectl writes it.
    fn read_at_once(&self) -> Result<Option<(Head, Vec<u8>)>, SplitError> {
        let Some(json) = block::to_json(&self.lines).filter(|json| json.starts_with(b"{")) else {
            return Ok(None);
        };
        Ok(Some((Head::read(&json)?, json)))
    }

    /// Reads it; none if there is nothing in it.
    fn read(&self) -> Result<Option<Value>, SplitError> {
        let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if self.lines.lines().all(is_blank) {
            return Ok(None);
        }
        // The reader's limits are for what strangers send; an object of a cluster can be larger.
        let options = serde_saphyr::options! { budget: None, with_snippet: false };
        let read = serde_saphyr::from_str_with_options(&self.lines, options).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            SplitError::Yaml { line: self.first, reason }
        });
        read.map(|value: Value| Some(value).filter(|value| !value.is_null()))
    }
}

fn head(value: &Value) -> Head {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Head { api_version: text("apiVersion"), kind: text("kind") }
}

fn object(value: &Value) -> Result<(Head, Vec<u8>), SplitError> {
    if !value.is_object() {
        return Err(SplitError::NoKind);
    }
    Ok((head(value), serde_json::to_vec(value).map_err(SplitError::Json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Vec<String>, SplitError> {
        let mut found = Vec::new();
        let mut sink = |item: super::super::Item<'_>| {
            let value: Value = serde_json::from_slice(item.json)?;
            found.push(format!(
                "{}/{} {}",
                item.group,
                item.kind,
                value["metadata"]["name"].as_str().unwrap_or("-")
            ));
            Ok(())
        };
        let (mut splitter, mut pieces) = (YamlSplitter::default(), Vec::new());
        for line in text.split_inclusive('\n') {
            splitter.push(line, &mut pieces)?;
        }
        splitter.finish(&mut pieces);
        let mut objects = Objects::default();
        for piece in pieces {
            objects.take(convert(piece)?, &mut sink)?;
        }
        Ok(found)
    }

    #[rstest::rstest]
    #[case::kubectl(
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n  spec:\n    x: |\n      - no item\n      ---\n    items:\n    - 1\n\
         - apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: d\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
        &["/Pod a", "apps/Deployment d"]
    )]
    #[case::indented(
        "kind: List\napiVersion: v1\nitems:\n  - kind: Pod\n    apiVersion: v1\n    metadata: {name: a}\n\n  # more\n  - {kind: Node, apiVersion: v1, metadata: {name: node}}\n",
        &["/Pod a", "/Node node"]
    )]
    #[case::typed("apiVersion: x/v1\nitems:\n- metadata:\n    name: a\nkind: PodList\n", &["x/Pod a"])]
    #[case::documents(
        "# two\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\n\n---\nkind: Node\napiVersion: v1\nmetadata: {name: node}\n...\n",
        &["/Pod a", "/Node node"]
    )]
    #[case::flow("{kind: List, apiVersion: v1, items: [{kind: Pod, apiVersion: v1, metadata: {name: a}}]}\n", &["/Pod a"])]
    #[case::empty("apiVersion: v1\nitems: []\nkind: List\n", &[])]
    #[case::nothing("", &[])]
    fn objects_are_found(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(split(text).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let say = |text: &str| split(text).unwrap_err().to_string();
        let odd = "apiVersion: v1\nitems:\n- kind: Pod\n  metadata: {name: a\n- kind: Node\n";
        assert!(say(odd).starts_with("no YAML, at line 3: "), "{}", say(odd));
        assert!(say("just text\n").contains("neither kind nor apiVersion"), "{}", say("just text\n"));
        assert!(say("a: 1\n").contains("neither kind nor apiVersion"));
        assert!(say("apiVersion: v1\nitems:\n- kind: Pod\n").starts_with("it ends in the middle"));
        assert!(say("- a\n- b\n").contains("neither kind nor apiVersion"));
    }
}
