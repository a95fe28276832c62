//! Granted requests as responses: code, media type, warnings, and the body in the form asked for.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::entry::Entry;
use crate::registry::object;
use crate::registry::verbs::{Answer, Page};
use crate::store::Stored;

use super::encode::{ListMeta, ListWriter, partial, stored_text, value_text};
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
pub(crate) fn answer(entry: &Entry, answer: &Answer, code: StatusCode, view: View) -> Response<Body> {
    let Rendering { format, pretty, shape } = view.rendering;
    let shaped = |value: Value| match shape {
        Shape::Object => value,
        Shape::Metadata => partial(&value),
        Shape::Table => table::single(entry, value, view.now, view.include, true),
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

/// The answer to a request for a collection.
///
/// `prefix` is what each stored body starts with.
pub(crate) fn list(entry: &Entry, prefix: &str, page: Page, view: View) -> Response<Body> {
    let meta =
        ListMeta { revision: page.revision, continue_token: page.continue_token, remaining: page.remaining };
    let Rendering { format, pretty, shape } = view.rendering;
    let as_stored = view.show.is_none() && !entry.strategy.decorates();
    if shape == Shape::Object && format == Format::Json && !pretty && as_stored {
        return spliced(entry, prefix, &meta, page.objects);
    }
    let objects = page.objects.iter().map(|stored| {
        let mut value = object::parse(&stored.body);
        entry.strategy.on_read(&mut value);
        view.shown(value)
    });
    let value = match shape {
        Shape::Table => {
            let rows: Vec<_> =
                objects.map(|object| table::row(entry, object, view.now, view.include)).collect();
            table::table(entry, &meta.value(), &rows, true)
        }
        Shape::Metadata => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta.value(),
            "items": objects.map(|object| partial(&object)).collect::<Vec<_>>(),
        }),
        Shape::Object => json!({
            "kind": format!("{}List", entry.kind), "apiVersion": entry.api_version(), "metadata": meta.value(),
            "items": objects.map(bare).collect::<Vec<_>>(),
        }),
    };
    text(StatusCode::OK, format.content_type(), value_text(&value, format, pretty))
}

/// An item of a list carries no kind.
fn bare(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// A list put together from stored bytes; sent as it is made when it is long.
fn spliced(entry: &Entry, prefix: &str, meta: &ListMeta, objects: Vec<Arc<Stored>>) -> Response<Body> {
    let size: usize = objects.iter().map(|stored| stored.body.len() + 1).sum();
    let mut writer = ListWriter::new(entry, prefix, meta, size.min(PIECE) + 256);
    let content_type = Format::Json.content_type();
    if size <= PIECE {
        for stored in &objects {
            writer.push(&stored.body);
        }
        return text(StatusCode::OK, content_type, writer.finish());
    }
    let mut rest = objects.into_iter();
    let mut writer = Some(writer);
    let pieces = std::iter::from_fn(move || {
        let current = writer.as_mut()?;
        for stored in rest.by_ref() {
            current.push(&stored.body);
            if current.pending() >= PIECE {
                return Some(current.take());
            }
        }
        writer.take().map(ListWriter::finish)
    });
    let pieces = stream::iter(pieces.map(Ok::<Bytes, std::convert::Infallible>));
    text(StatusCode::OK, content_type, Body::from_stream(pieces))
}
