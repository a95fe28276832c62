//! Objects and lists as answers: spliced from stored bytes where the client wants them whole, parsed only for tables,
//! metadata, YAML and indentation.
//!
//! Stored bodies are complete JSON. In a list upstream prints items without `kind` and `apiVersion`, so these two come
//! first in a stored body and are cut off by length.

use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use crate::registry::entry::Entry;

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

/// Puts a list around stored items.
pub(crate) struct ListWriter {
    prefix: String,
    out: BytesMut,
    first: bool,
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

impl ListWriter {
    /// Starts a list of that kind, whose stored bodies start with `prefix`; room for `capacity` bytes.
    pub(crate) fn new(entry: &Entry, prefix: &str, meta: &ListMeta, capacity: usize) -> Self {
        let mut out = BytesMut::with_capacity(capacity);
        let (kind, version) = (entry.kind, entry.api_version());
        let mut head = String::new();
        let _ = write!(
            head,
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{version}\",\"metadata\":{},\"items\":[",
            meta.value()
        );
        out.put_slice(head.as_bytes());
        Self { prefix: prefix.to_owned(), out, first: true }
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, body: &[u8]) {
        if !std::mem::take(&mut self.first) {
            self.out.put_u8(b',');
        }
        match body.strip_prefix(self.prefix.as_bytes()) {
            Some(rest) => {
                self.out.put_u8(b'{');
                self.out.put_slice(rest);
            }
            None => self.out.put_slice(body),
        }
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

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}
