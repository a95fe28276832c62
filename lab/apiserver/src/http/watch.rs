//! Watches: events of one resource as lines of JSON, until the client, the time or the server ends them.
//!
//! Owns what a selector makes of an event, the initial events of a streaming list, bookmarks and the last event of a
//! watch that fell behind. Where the events come from is the store's business.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use service_api::status;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::decode;
use crate::registry::error::ApiError;
use crate::registry::object::queried_version;
use crate::registry::resource_info::ResourceInfo;
use crate::registry::selectors::Selection;
use crate::registry::verbs::Api;
use crate::registry::{LabIndex, Target, object};
use crate::store::{Event, EventType, Gone, Stored, Watch};

use super::encode::partial;
use super::errors::status_value;
use super::negotiate::{Format, Shape};
use super::params::ListOptions;
use super::respond::{self, View};
use super::table;

/// How often a quiet watch is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts that names no time, at least; a random part of the same comes on top.
const LEAST_LENGTH: u64 = 1800;
/// No watch lasts for longer; a clock does not reach as far as a number that a client can write.
const MOST_LENGTH: Duration = Duration::from_hours(24 * 365);
/// So many comparisons of an event with a term of the selector are made before other connections have their turn.
const COMPARED: usize = 4096;
/// Events are sent in pieces of about this many bytes.
const PIECE: usize = 64 * 1024;

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With all objects there are, as if they were just made.
    Objects,
    /// With what happens from now on.
    Now,
    /// With what happened after this revision.
    After(u64),
}

/// Begins a watch.
///
/// # Errors
/// 500 for a resource version that is none, as upstream. A version that is too old is an event of the stream.
pub(crate) fn watch(
    api: Arc<Api>,
    target: &Target,
    options: &ListOptions,
    selection: Selection,
    view: View,
    closing: CancellationToken,
) -> Result<Response<Body>, ApiError> {
    let start = start(options)?;
    if view.rendering.format != Format::Json {
        let streams = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
        return Err(status::not_acceptable(&streams).into());
    }
    let mut state = State {
        namespace: target.namespace_filter().map(str::to_owned),
        target: target.clone(),
        selection,
        view,
        headers_sent: false,
        watch: None,
        ready: VecDeque::new(),
        bookmarks: options.bookmarks,
        bookmark_at: Instant::now() + BOOKMARK_EVERY,
        ends_at: Instant::now() + length(options.timeout_seconds),
        closing,
        api,
    };
    match start {
        // A watch that names no version is a streaming list too, whether it says so or not.
        Start::Objects => state.begin_with_objects(options.bookmarks),
        Start::Now => state.watch = Some(state.api.store.read_and_watch(target.id, |_| ()).1),
        Start::After(revision) => match state.api.store.watch(target.id, revision) {
            Ok(watch) => state.watch = Some(watch),
            Err(gone) => state.end_with(&gone),
        },
    }
    let frames = stream::unfold(state, |mut state| async move {
        let piece = state.next_piece().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), state))
    });
    Ok(respond::text(StatusCode::OK, Format::Json.content_type(), Body::from_stream(frames)))
}

fn start(options: &ListOptions) -> Result<Start, ApiError> {
    let version = match options.resource_version.as_str() {
        "" => None,
        text => Some(queried_version(text).map_err(status::plain_500)?),
    };
    Ok(match (options.send_initial_events, version) {
        (Some(true), _) | (None, None | Some(0)) => Start::Objects,
        (Some(false), None | Some(0)) => Start::Now,
        (Some(false) | None, Some(revision)) => Start::After(revision),
    })
}

fn length(seconds: Option<i64>) -> Duration {
    match seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
        Some(seconds) => Duration::from_secs(seconds).min(MOST_LENGTH),
        None => Duration::from_secs(LEAST_LENGTH + rand::random_range(0..LEAST_LENGTH)),
    }
}

/// A watch under way.
struct State {
    api: Arc<Api>,
    target: Target,
    namespace: Option<String>,
    selection: Selection,
    view: View,
    /// A table's columns stand in its first event only.
    headers_sent: bool,
    /// `None` once there is nothing more to come.
    watch: Option<Watch<LabIndex>>,
    /// What is to be sent next.
    ready: VecDeque<Bytes>,
    bookmarks: bool,
    bookmark_at: Instant,
    ends_at: Instant,
    closing: CancellationToken,
}

impl State {
    fn begin_with_objects(&mut self, end_mark: bool) {
        let (objects, revision, watch) =
            self.api.store.list_and_watch(self.target.id, self.namespace.as_deref());
        self.watch = Some(watch);
        let mut buffer = BytesMut::new();
        for stored in &objects {
            if self.selected(stored) {
                self.frame(&mut buffer, "ADDED", stored);
                self.flush(&mut buffer, PIECE);
            }
        }
        if end_mark {
            self.bookmark(&mut buffer, revision, true);
        }
        self.flush(&mut buffer, 0);
    }

    fn end_with(&mut self, gone: &Gone) {
        let mut buffer = BytesMut::new();
        let status = status_value(&status::gone(gone.to_string()));
        line(&mut buffer, "ERROR", &serde_json::to_vec(&status).unwrap_or_default());
        self.flush(&mut buffer, 0);
        self.watch = None;
    }

    fn flush(&mut self, buffer: &mut BytesMut, above: usize) {
        if buffer.len() > above {
            self.ready.push_back(buffer.split().freeze());
        }
    }

    /// The next bytes to send; `None` ends the stream.
    async fn next_piece(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            let mut watch = self.watch.take()?;
            let batch = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                () = tokio::time::sleep_until(self.ends_at) => return None,
                () = tokio::time::sleep_until(self.bookmark_at), if self.bookmarks => None,
                batch = watch.next_batch() => Some(batch),
            };
            let mut buffer = BytesMut::new();
            match batch {
                Some(Ok(events)) => {
                    let at_a_time = (COMPARED / self.selection.terms().max(1)).max(1);
                    for (at, event) in events.iter().enumerate() {
                        if at > 0 && at % at_a_time == 0 {
                            tokio::task::yield_now().await;
                        }
                        self.event(&mut buffer, event);
                    }
                    self.watch = Some(watch);
                }
                Some(Err(gone)) => self.end_with(&gone),
                None => {
                    let revision = watch.progress();
                    self.bookmark(&mut buffer, revision, false);
                    self.bookmark_at = Instant::now() + BOOKMARK_EVERY;
                    self.watch = Some(watch);
                }
            }
            self.flush(&mut buffer, 0);
        }
    }

    fn selected(&self, stored: &Stored) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *namespace == *stored.namespace)
            && (self.selection.is_everything()
                || self.selection.matches(self.api.registry.info(self.target.id), stored))
    }

    /// An object that comes into the selection is added to it, one that leaves it is deleted from it.
    fn event(&mut self, buffer: &mut BytesMut, event: &Event) {
        let before = event.previous.as_deref().is_some_and(|previous| self.selected(previous));
        let after = event.ty != EventType::Deleted && self.selected(&event.object);
        match (before, after) {
            (false, false) => {}
            (false, true) => self.frame(buffer, "ADDED", &event.object),
            (true, true) => self.frame(buffer, "MODIFIED", &event.object),
            (true, false) if event.ty == EventType::Deleted => self.frame(buffer, "DELETED", &event.object),
            (true, false) => {
                let Some(previous) = &event.previous else { return };
                let mut last = object::parse(&previous.body);
                let version = Value::String(event.revision.to_string());
                object::set_meta(&mut last, "resourceVersion", Some(version));
                self.value(buffer, "DELETED", last);
            }
        }
    }

    fn frame(&mut self, buffer: &mut BytesMut, ty: &str, stored: &Stored) {
        let decorates = self.api.registry.info(self.target.id).strategy.decorates();
        if self.view.rendering.shape == Shape::Object && self.view.show.is_none() && !decorates {
            line(buffer, ty, &stored.body);
        } else {
            self.value(buffer, ty, object::parse(&stored.body));
        }
    }

    fn value(&mut self, buffer: &mut BytesMut, ty: &str, mut value: Value) {
        let api = Arc::clone(&self.api);
        let info: &ResourceInfo = api.registry.info(self.target.id);
        info.strategy.on_read(&mut value);
        let value = self.view.shown(value);
        let (include, version) = (self.view.include, self.view.rendering.meta_version());
        let shaped = match self.view.rendering.shape {
            Shape::Object => value,
            Shape::Metadata | Shape::MetadataList => partial(&value, version),
            Shape::Table => {
                let headers = !std::mem::replace(&mut self.headers_sent, true);
                table::single(info, value, Timestamp::now(), include, headers, version)
            }
        };
        line(buffer, ty, &serde_json::to_vec(&shaped).unwrap_or_default());
    }

    fn bookmark(&mut self, buffer: &mut BytesMut, revision: u64, end_of_initial: bool) {
        let schema = self.api.registry.schema(self.target.id);
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if end_of_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let mut mark = decode::with_type_meta(schema, schema.zero().as_object().cloned().unwrap_or_default());
        mark["metadata"] = metadata;
        self.value(buffer, "BOOKMARK", mark);
    }
}

fn line(buffer: &mut BytesMut, ty: &str, object: &[u8]) {
    buffer.reserve(object.len() + 40);
    buffer.put_slice(b"{\"type\":\"");
    buffer.put_slice(ty.as_bytes());
    buffer.put_slice(b"\",\"object\":");
    buffer.put_slice(object);
    buffer.put_slice(b"}\n");
}
