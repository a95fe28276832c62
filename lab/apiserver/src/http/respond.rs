//! Granted requests as responses: code, media type, warnings, and the body in the form asked for.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::object;
use crate::registry::resource_info::ResourceInfo;
use crate::registry::strategy::Strategy;
use crate::registry::table::Table;
use crate::registry::verbs::{Answer, Page};
use crate::store::Stored;

use super::encode::{ListMeta, ListWriter, partial, put_item, put_value, stored_text, value_text};
use super::errors::status_value;
use super::negotiate::{Format, Rendering, Shape};
use super::table::{self, Include};

/// Lists beyond this many bytes are sent in pieces of about this size.
const PIECE: usize = 128 * 1024;

/// How an object or list is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Form and shape.
    pub(crate) rendering: Rendering,
    /// What of the object stands in a table's row.
    pub(crate) include: Include,
    /// For ages in tables.
    pub(crate) now: Timestamp,
    /// The form in which stored objects are shown, if not their own.
    pub(crate) show: Option<fn(&Value) -> Value>,
}

impl View {
    /// A stored object as it is shown.
    pub(crate) fn shown(&self, object: Value) -> Value {
        match self.show {
            Some(show) => show(&object),
            None => object,
        }
    }
}

/// A response with that text.
pub(crate) fn text(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A document that has one shape only.
pub(crate) fn document(value: &Value, rendering: Rendering) -> Response<Body> {
    let body = value_text(value, rendering.format, rendering.pretty);
    text(StatusCode::OK, rendering.format.content_type(), body)
}

/// The answer to a request for one object.
pub(crate) fn answer(info: &ResourceInfo, answer: &Answer, code: StatusCode, view: View) -> Response<Body> {
    let Rendering { format, pretty, shape, .. } = view.rendering;
    let meta_version = view.rendering.meta_version();
    let shaped = |value: Value| match shape {
        Shape::Object => value,
        Shape::Metadata | Shape::MetadataList => partial(&value, meta_version),
        Shape::Table => table::single(info, value, view.now, view.include, true, meta_version),
    };
    let body = match answer {
        Answer::Status(status) => value_text(&status_value(status), format, pretty),
        Answer::Stored(stored) if shape == Shape::Object && view.show.is_none() => {
            stored_text(&stored.body, format, pretty)
        }
        Answer::Stored(stored) => {
            value_text(&shaped(view.shown(object::parse(&stored.body))), format, pretty)
        }
        Answer::Value(value) => value_text(&shaped(view.shown(value.clone())), format, pretty),
    };
    text(code, format.content_type(), body)
}

/// The answer to a request for a collection; `prefix` is what each stored body starts with.
pub(crate) fn list(info: &ResourceInfo, prefix: &str, page: Page, view: View) -> Response<Body> {
    let meta =
        ListMeta { revision: page.revision, continue_token: page.continue_token, remaining: page.remaining };
    let Rendering { format, pretty, shape, .. } = view.rendering;
    let items = Items {
        strategy: Arc::clone(&info.strategy),
        table: info.table,
        prefix: prefix.to_owned(),
        as_stored: shape == Shape::Object && view.show.is_none() && !info.strategy.decorates(),
        view,
    };
    let (mut head, member) = envelope(info, view.rendering, &meta);
    if format == Format::Json && !pretty {
        // Up to the bracket that closes the envelope: the items come in between.
        let mut text = head.to_string();
        text.pop();
        let _ = write!(text, ",\"{member}\":[");
        return streamed(&text, items, page.objects);
    }
    head[member] = page.objects.iter().map(|stored| items.value(stored)).collect();
    text(StatusCode::OK, format.content_type(), value_text(&head, format, pretty))
}

/// A list without its items, and the name of the member they belong in.
fn envelope(info: &ResourceInfo, rendering: Rendering, meta: &ListMeta) -> (Value, &'static str) {
    let meta = meta.value();
    let version = rendering.meta_version();
    match rendering.shape {
        Shape::Object => {
            let kind = format!("{}List", info.kind);
            (json!({ "kind": kind, "apiVersion": info.api_version(), "metadata": meta }), "items")
        }
        Shape::Metadata | Shape::MetadataList => {
            let kind = "PartialObjectMetadataList";
            (json!({ "kind": kind, "apiVersion": version, "metadata": meta }), "items")
        }
        Shape::Table => (
            json!({
                "kind": "Table", "apiVersion": version, "metadata": meta,
                "columnDefinitions": table::columns(info.table),
            }),
            "rows",
        ),
    }
}

/// How the items of a list are written.
struct Items {
    strategy: Arc<dyn Strategy>,
    table: &'static Table,
    /// What each stored body starts with.
    prefix: String,
    /// Stored bytes can be shown as they are.
    as_stored: bool,
    view: View,
}

impl Items {
    fn value(&self, stored: &Stored) -> Value {
        let mut object = object::parse(&stored.body);
        self.strategy.on_read(&mut object);
        let object = self.view.shown(object);
        let version = self.view.rendering.meta_version();
        match self.view.rendering.shape {
            Shape::Object => bare(object),
            Shape::Metadata | Shape::MetadataList => partial(&object, version),
            Shape::Table => table::row(self.table, object, self.view.now, self.view.include, version),
        }
    }

    fn put(&self, stored: &Stored, out: &mut BytesMut) {
        if self.as_stored {
            put_item(out, &stored.body, &self.prefix);
        } else {
            put_value(out, &self.value(stored));
        }
    }
}

/// An item of a list carries no kind.
fn bare(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// A list written item by item; sent as it is made when it is long.
fn streamed(head: &str, items: Items, objects: Vec<Arc<Stored>>) -> Response<Body> {
    let size: usize = objects.iter().map(|stored| stored.body.len() + 1).sum();
    let mut writer = ListWriter::new(head, size.min(PIECE) + head.len() + 16);
    let content_type = Format::Json.content_type();
    if size <= PIECE {
        for stored in &objects {
            items.put(stored, writer.item());
        }
        return text(StatusCode::OK, content_type, writer.finish());
    }
    let mut rest = objects.into_iter();
    let mut writer = Some(writer);
    let pieces = std::iter::from_fn(move || {
        let current = writer.as_mut()?;
        for stored in rest.by_ref() {
            items.put(&stored, current.item());
            if current.pending() >= PIECE {
                return Some(current.take());
            }
        }
        writer.take().map(ListWriter::finish)
    });
    let pieces = stream::iter(pieces.map(Ok::<Bytes, std::convert::Infallible>));
    text(StatusCode::OK, content_type, Body::from_stream(pieces))
}
