//! YAML text, line by line, as the objects in it: documents, and the items of lists as kubectl writes them.
//!
//! Owns where an object begins and ends, by indentation; the text of one object at a time is read by the YAML library.

use serde_json::Value;

use super::{Head, LARGEST, Sink, SplitError, hand_on};

/// Takes lines and hands on each object when it is whole.
#[derive(Debug, Default)]
pub(super) struct YamlSplitter {
    /// The lines of the object that is being read.
    text: String,
    /// The number of its first line, and of the last line that was taken.
    first: usize,
    line: usize,
    list: Option<List>,
    count: usize,
    undecided: Vec<Value>,
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
    pub(super) fn push(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        self.line += 1;
        let bare = line.trim_end();
        if bare == "---" || bare.starts_with("--- ") || bare == "..." {
            return self.end_document(sink);
        }
        let indent = bare.len() - bare.trim_start().len();
        let starts_item = bare[indent..].starts_with("- ") || &bare[indent..] == "-";
        let Some(list) = &mut self.list else {
            if bare == "items:" {
                let fields = std::mem::take(&mut self.text);
                self.list = Some(List { fields, in_items: true, ..List::default() });
            } else if !bare.is_empty() {
                self.keep(line)?;
            }
            return Ok(());
        };
        if bare.is_empty() || bare.trim_start().starts_with('#') && list.in_items && self.text.is_empty() {
            return if self.text.is_empty() { Ok(()) } else { self.keep(line) };
        }
        if starts_item && list.in_items && list.indent.is_none_or(|own| own == indent) {
            list.indent = Some(indent);
            self.end_item(sink)?;
            let spaced = format!("{}{}{}", &line[..indent], " ", &line[indent + 1..]);
            return self.keep(&spaced);
        }
        if indent == 0 {
            list.in_items = false;
            list.fields += line;
            return self.end_item(sink);
        }
        if list.in_items {
            return self.keep(line);
        }
        list.fields += line;
        Ok(())
    }

    /// The text ends here; gives how many objects were in it.
    pub(super) fn finish(mut self, sink: &mut Sink<'_>) -> Result<usize, SplitError> {
        self.end_document(sink)?;
        Ok(self.count)
    }

    fn keep(&mut self, line: &str) -> Result<(), SplitError> {
        if self.text.is_empty() {
            self.first = self.line;
        }
        self.text += line;
        if self.text.len() > LARGEST { Err(SplitError::TooLarge) } else { Ok(()) }
    }

    fn end_item(&mut self, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let Some(value) = self.read()? else { return Ok(()) };
        self.count += 1;
        if value.get("kind").is_some() {
            return hand_on_value(&value, None, sink);
        }
        self.undecided.push(value);
        Ok(())
    }

    fn end_document(&mut self, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        if self.list.is_none() {
            let Some(value) = self.read()? else { return Ok(()) };
            return self.document(value, sink);
        }
        self.end_item(sink)?;
        let fields = self.list.take().map(|list| list.fields).unwrap_or_default();
        let undecided = std::mem::take(&mut self.undecided);
        let head: Head = parse(&fields, self.line)
            .and_then(|value| serde_json::from_value(value).map_err(SplitError::Json))?;
        if head.kind.is_empty() {
            // kubectl says what a list is behind its items.
            return Err(SplitError::Truncated(self.count));
        }
        let head = head.of_items();
        undecided.iter().try_for_each(|value| hand_on_value(value, head.as_ref(), sink))
    }

    /// A document that is no list by its lines; in flow style it may be one.
    fn document(&mut self, mut value: Value, sink: &mut Sink<'_>) -> Result<(), SplitError> {
        let head: Head = serde_json::from_value(value.clone()).map_err(|_| SplitError::NoKind)?;
        if head.kind.ends_with("List")
            && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take)
        {
            self.count += items.len();
            let head = head.of_items();
            return items.iter().try_for_each(|item| hand_on_value(item, head.as_ref(), sink));
        }
        self.count += 1;
        hand_on_value(&value, None, sink)
    }

    /// Reads the text of an object; none if there is nothing in it.
    fn read(&mut self) -> Result<Option<Value>, SplitError> {
        let text = std::mem::take(&mut self.text);
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(None);
        }
        parse(&text, self.first).map(|value| Some(value).filter(|value| !value.is_null()))
    }
}

fn parse(text: &str, line: usize) -> Result<Value, SplitError> {
    // The reader's limits are for what strangers send; an object of a cluster can be larger.
    let options = serde_saphyr::options! { budget: None, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let reason = error.to_string();
        SplitError::Yaml { line, reason: reason.lines().next().unwrap_or_default().to_owned() }
    })
}

fn hand_on_value(value: &Value, of_list: Option<&Head>, sink: &mut Sink<'_>) -> Result<(), SplitError> {
    if !value.is_object() {
        return Err(SplitError::NoKind);
    }
    let json = serde_json::to_vec(value).map_err(SplitError::Json)?;
    hand_on(&json, of_list, sink)
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
        let mut splitter = YamlSplitter::default();
        for line in text.split_inclusive('\n') {
            splitter.push(line, &mut sink)?;
        }
        splitter.finish(&mut sink)?;
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
