//! Objects and lists as answers: spliced from stored bytes where the client wants them whole, parsed only for tables,
//! metadata, YAML and indentation.
//!
//! Stored bodies are complete JSON. In a list upstream prints items without `kind` and `apiVersion`, so these two come
//! first in a stored body and are cut off by length.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::negotiate::Format;

/// A document in the text form asked for.
pub(crate) fn value_text(value: &Value, format: Format, pretty: bool) -> Bytes {
    match format {
        Format::Json if pretty => {
            let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
            text.push(b'\n');
            text.into()
        }
        Format::Json => {
            let mut text = serde_json::to_vec(value).unwrap_or_default();
            text.push(b'\n');
            text.into()
        }
        Format::Yaml => serde_saphyr::to_string(value).unwrap_or_default().into(),
    }
}

/// Stored JSON in the text form asked for.
pub(crate) fn stored_text(body: &Bytes, format: Format, pretty: bool) -> Bytes {
    if format == Format::Json && !pretty {
        return body.clone();
    }
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    value_text(&value, format, pretty)
}

/// What stands in the `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    /// The revision the list was read at.
    pub(crate) revision: u64,
    /// Where the next page starts, if there is one.
    pub(crate) continue_token: Option<String>,
    /// How many items follow, if known.
    pub(crate) remaining: Option<u64>,
}

impl ListMeta {
    /// As JSON.
    pub(crate) fn value(&self) -> Value {
        let mut out = Map::new();
        out.insert("resourceVersion".to_owned(), Value::String(self.revision.to_string()));
        if let Some(token) = &self.continue_token {
            out.insert("continue".to_owned(), Value::String(token.clone()));
        }
        if let Some(remaining) = self.remaining {
            out.insert("remainingItemCount".to_owned(), Value::from(remaining));
        }
        Value::Object(out)
    }
}

/// Puts a list around its items.
pub(crate) struct ListWriter {
    out: BytesMut,
    first: bool,
}

impl ListWriter {
    /// Starts with all that stands before the first item; room for `capacity` bytes.
    pub(crate) fn new(head: &str, capacity: usize) -> Self {
        let mut out = BytesMut::with_capacity(capacity);
        out.put_slice(head.as_bytes());
        Self { out, first: true }
    }

    /// Where the next item is to be written.
    pub(crate) fn item(&mut self) -> &mut BytesMut {
        if !std::mem::take(&mut self.first) {
            self.out.put_u8(b',');
        }
        &mut self.out
    }

    /// What has been written since the last call, to send a long list in pieces.
    pub(crate) fn take(&mut self) -> Bytes {
        self.out.split().freeze()
    }

    /// How much has been written since the last [`Self::take`], in bytes.
    pub(crate) fn pending(&self) -> usize {
        self.out.len()
    }

    /// Ends the list.
    pub(crate) fn finish(mut self) -> Bytes {
        self.out.put_slice(b"]}\n");
        self.out.freeze()
    }
}

/// Writes a stored object as an item of a list: without the `kind` and `apiVersion` it starts with.
pub(crate) fn put_item(out: &mut BytesMut, body: &[u8], prefix: &str) {
    match body.strip_prefix(prefix.as_bytes()) {
        Some(rest) => {
            out.put_u8(b'{');
            out.put_slice(rest);
        }
        None => out.put_slice(body),
    }
}

/// Writes a value as compact JSON.
pub(crate) fn put_value(out: &mut BytesMut, value: &Value) {
    // Writing to memory does not fail, and a value has no map with keys that are no texts.
    let _ = serde_json::to_writer(out.writer(), value);
}

/// `PartialObjectMetadata` of an object, in that `apiVersion`.
pub(crate) fn partial(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version,
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}
