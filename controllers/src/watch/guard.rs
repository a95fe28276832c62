//! What kube's watcher does not see of a server: a layer around the client of each watch.
//!
//! kube's watcher lists, watches and restarts. It does not look at `Retry-After` and bookmarks, opens a watch again at once
//! however soon it ended, opens it again at a version that has expired, and takes a server that was put back to an
//! earlier state for one that is silent. This layer sees requests and answers and gives it what it can handle: errors
//! with their reason, and the event `410` where a list is needed. Owns no object and no decision about one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tower::service_fn;

use super::lines::Lines;
use crate::api::{RequestError, WatchError};
use crate::backoff::Backoff;
use crate::client::{METADATA, request_error, retry_after};
use crate::error::{in_a_line, with_causes};
use crate::keys;
use crate::objects::{ObjectKind, partial};

/// The server ends a watch after so long; another one continues where it ended.
pub const WATCH: Duration = Duration::from_secs(290);
/// A server that does not keep to that is gone.
const OVERDUE: Duration = Duration::from_secs(15);
/// A page of a list that takes longer has failed.
const PAGE: Duration = Duration::from_mins(1);
/// A watch that ended sooner without an event is not begun again at once.
const SHORT: Duration = Duration::from_secs(1);
/// A line longer than any object (the API server stores at most 1.5 MiB) is no line.
const LONGEST_LINE: usize = 64 << 20;

/// Who is told how a watch fares.
pub trait Observer: Send + Sync {
    /// The server answered.
    fn answered(&self, kind: ObjectKind);
    /// A list begins.
    fn listed(&self, kind: ObjectKind);
    /// The watch goes on as it should.
    fn works(&self, kind: ObjectKind);
    /// The watch failed and is tried again after a while.
    fn failed(&self, kind: ObjectKind, error: &WatchError, again: Duration);
}

/// What is known of the watch of a kind.
#[derive(Debug, Default)]
struct Known {
    /// The version that the last list was taken at, or the last watch went on from.
    version: String,
    /// When the last watch was opened, and at which version.
    opened: Option<(Instant, String)>,
    /// Whether it has to be asked how far the server has come before the next watch.
    check: bool,
    /// A line of the open watch was lost: what comes after it on the same watch does not count, for it comes again.
    lost: bool,
    /// The server says that the version to go on from is not kept any more, and what it says of that.
    expired: Option<String>,
    /// The server was put back: from which version to which.
    back: Option<(String, String)>,
    /// The list under way is the first of a server that was put back.
    restored: bool,
}

/// The state of one kind's watch, and who is told of it.
pub struct Guard {
    kind: ObjectKind,
    observer: Arc<dyn Observer>,
    /// Whether metadata will do in events.
    partial: Option<Arc<AtomicBool>>,
    known: Mutex<Known>,
    /// The watch that is open ends, and who is woken for it.
    cut: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// An object could not be read: from now on they are handed over as texts, so that one does no harm to others.
    texts: AtomicBool,
    /// The server answered as it should, and the watch has lasted for a while, since somebody asked.
    answered: AtomicBool,
    proven: AtomicBool,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The metadata of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

/// Whether a version was given out before another.
fn is_before(now: &str, version: &str) -> bool {
    matches!((now.parse::<u64>(), version.parse::<u64>()), (Ok(now), Ok(version)) if now < version)
}

impl Guard {
    /// A guard of the watch of a kind. While `partial` is true, events of it come as metadata alone; lists never do.
    #[must_use]
    pub fn new(kind: ObjectKind, observer: Arc<dyn Observer>, partial: Option<Arc<AtomicBool>>) -> Arc<Self> {
        Arc::new(Self {
            kind,
            observer,
            partial,
            known: Mutex::default(),
            cut: AtomicBool::new(false),
            waker: Mutex::default(),
            texts: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            proven: AtomicBool::new(false),
        })
    }

    /// The client for the watch: `client` with this layer around it.
    #[must_use]
    pub fn around(self: &Arc<Self>, client: &kube::Client) -> kube::Client {
        let (guard, inner) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (guard, inner) = (Arc::clone(&guard), inner.clone());
            async move { guard.call(&inner, request).await }
        });
        kube::Client::new(service, client.default_namespace())
    }

    /// The kind that is watched.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Who is told how the watch fares.
    #[must_use]
    pub fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// An event of this version came. One older than those before means that the server was put back: the watch ends then,
    /// and a list follows.
    pub fn saw(&self, version: &str) {
        let mut known = self.known.lock();
        if is_before(version, &known.version) {
            known.back = Some((known.version.clone(), version.to_owned()));
            self.cut.store(true, Ordering::Relaxed);
        } else if !version.is_empty() {
            version.clone_into(&mut known.version);
        }
    }

    /// A line of the watch that is open could not be read, which may have been an event. The watch ends, and is opened again at
    /// the last version that came.
    pub fn cut(&self) {
        let mut known = self.known.lock();
        (known.opened, known.check, known.lost) = (None, true, true);
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Something could not be read: from now on objects are handed over as texts. Says whether that is new.
    #[must_use]
    pub fn hand_over_texts(&self) -> bool {
        !self.texts.swap(true, Ordering::Relaxed)
    }

    /// Whether what the watch brings does not count, for a line before it was lost.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.known.lock().lost
    }

    /// The watch that is open ends, and a list follows: its version has expired, for this reason.
    pub fn expire(&self, message: &str) {
        self.known.lock().expired = Some(message.to_owned());
        self.cut();
    }

    /// The watch that is open is opened again at the last version that came, though nothing is wrong with it: whether
    /// metadata will do has changed.
    pub fn reopen(&self) {
        self.known.lock().opened = None;
        self.cut.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    /// Whether the list under way is the first of a server that was put back; said once.
    #[must_use]
    pub fn take_restored(&self) -> bool {
        std::mem::take(&mut self.known.lock().restored)
    }

    /// From and to which version the server was put back, if that was just found out.
    #[must_use]
    pub fn take_back(&self) -> Option<(String, String)> {
        self.known.lock().back.take()
    }

    /// Whether the server has answered as it should, and whether a watch has lasted for a while, since the last time.
    #[must_use]
    pub fn take_progress(&self) -> (bool, bool) {
        (self.answered.swap(false, Ordering::Relaxed), self.proven.swap(false, Ordering::Relaxed))
    }

    /// A watch has lasted for a while, or brought something.
    pub fn works(&self) {
        if !self.proven.swap(true, Ordering::Relaxed) {
            self.observer.works(self.kind);
        }
    }

    fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
        self.observer.answered(self.kind);
    }

    async fn call(
        self: Arc<Self>,
        client: &kube::Client,
        request: Request<Body>,
    ) -> Result<Response<Answer>, WatchError> {
        let (parts, _) = request.into_parts();
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
        match query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")) {
            Some(version) if query.split('&').any(|part| part == "watch=true") => {
                let (asked, version) = (version, self.go_on_from(version));
                let query = query.replacen(
                    &format!("resourceVersion={asked}"),
                    &format!("resourceVersion={version}"),
                    1,
                );
                self.watch(client, &path, &query, &version).await
            }
            _ => self.list(client, &path, &query).await,
        }
    }

    /// A page of a list. A server that has no time for one is not asked for the pages before it again.
    async fn list(
        &self,
        client: &kube::Client,
        path: &str,
        query: &str,
    ) -> Result<Response<Answer>, WatchError> {
        let (uri, mut backoff) = (format!("{path}?{}", query.trim_start_matches('&')), Backoff::default());
        let body = loop {
            match page(client, &uri).await {
                Err(WatchError::Refused(busy @ RequestError::Busy { .. })) if query.contains("continue=") => {
                    let wait = backoff.after(&busy);
                    self.observer.failed(self.kind, &busy.into(), wait);
                    sleep(wait).await;
                }
                body => break body?,
            }
        };
        self.answered();
        let ListMeta { resource_version, r#continue } = list_meta(&body)?;
        let mut known = self.known.lock();
        if is_before(&resource_version, &known.version) {
            known.restored = true;
            known.version.clear();
        }
        if r#continue.is_none_or(|token| token.is_empty()) {
            (known.version, known.opened, known.check) = (resource_version, None, false);
            known.lost = false;
        }
        drop(known);
        let texts = self.texts.load(Ordering::Relaxed).then(|| of_texts(&body)).flatten();
        Ok(Response::new(whole(texts.unwrap_or(body))))
    }

    /// The version that a watch goes on from which kube's watcher wants to open at this one: before a line that was lost.
    fn go_on_from(&self, version: &str) -> String {
        let mut known = self.known.lock();
        if std::mem::take(&mut known.lost) && known.expired.is_none() {
            return known.version.clone();
        }
        version.to_owned()
    }

    async fn watch(
        self: &Arc<Self>,
        client: &kube::Client,
        path: &str,
        query: &str,
        version: &str,
    ) -> Result<Response<Answer>, WatchError> {
        if self.ended_at_once(version) {
            return Err(WatchError::Broken("the watch ended as soon as it began".to_owned()));
        }
        let (is_back, expired, check) = {
            let mut known = self.known.lock();
            (known.back.is_some(), known.expired.take(), known.check)
        };
        if let Some(message) = expired {
            return Ok(gone(&message));
        }
        if is_back {
            return Ok(gone("the server was put back to an earlier state"));
        }
        if check {
            let now = list_meta(&page(client, &format!("{path}?limit=1")).await?)?.resource_version;
            self.answered();
            let mut known = self.known.lock();
            known.check = false;
            if is_before(&now, version) {
                known.back = Some((version.to_owned(), now));
                return Ok(gone("the server was put back to an earlier state"));
            }
        }
        let only_metadata = self.partial.as_ref().is_some_and(|partial| partial.load(Ordering::Relaxed));
        let accept = if only_metadata { METADATA } else { "application/json" };
        let uri = format!("{path}?{}", query.trim_start_matches('&'));
        let opened = timeout(PAGE, get(client, &uri, accept)).await;
        let body = match opened.map_err(|_| silent("none to the watch in time")).and_then(|opened| opened) {
            Err(WatchError::Expired(message)) => return Ok(gone(&message)),
            body => body?,
        };
        self.answered();
        self.cut.store(false, Ordering::Relaxed);
        let now = Instant::now();
        {
            let mut known = self.known.lock();
            version.clone_into(&mut known.version);
            known.opened = Some((now, version.to_owned()));
        }
        Ok(Response::new(Answer::new(WatchBody {
            inner: body,
            guard: Arc::clone(self),
            proves: Some(Box::pin(sleep_until(now + SHORT))),
            overdue: Box::pin(sleep_until(now + WATCH + OVERDUE)),
            lines: Lines::new(self.texts.load(Ordering::Relaxed)),
            line: 0,
            ended: false,
        })))
    }

    /// Whether the watch before ended as soon as it began, without having brought anything. Takes note of what has to be
    /// asked before the next one: a watch that ended early may have ended with its server, and one that was put back to an
    /// earlier state takes a version that it has not reached without a word.
    fn ended_at_once(&self, version: &str) -> bool {
        let mut known = self.known.lock();
        let Some((at, from)) = known.opened.take() else { return false };
        let lasted = at.elapsed();
        known.check |= lasted + SHORT < WATCH;
        lasted <= SHORT && from == version
    }
}

/// What kube's client is given.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

fn whole(body: Bytes) -> Answer {
    Answer::new(Full::new(body).map_err(|never| match never {}))
}

/// The metadata of a list. What has no version is no list: taken for an empty one, it would make all objects count as deleted.
fn list_meta(body: &[u8]) -> Result<ListMeta, WatchError> {
    let meta: ListMeta =
        partial::metadata(body).map_err(|error| WatchError::Unreadable(error.to_string()))?;
    if meta.resource_version.is_empty() {
        return Err(WatchError::Unreadable("a list without a version".to_owned()));
    }
    Ok(meta)
}

/// The list with its objects as texts; nothing if it is no list.
fn of_texts(body: &[u8]) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Objects<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let list: Objects<'_> = serde_json::from_slice(body).ok()?;
    let items: Vec<&str> = list.items.iter().map(|item| item.get()).collect();
    serde_json::to_vec(&serde_json::json!({"metadata": list.metadata, "items": items})).ok().map(Bytes::from)
}

/// The answer to a watch whose version has expired, in the one form in which kube's watcher lists anew.
fn gone(message: &str) -> Response<Answer> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": 410, "reason": "Expired", "message": message,
    });
    // The type has to come first.
    let line = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
    Response::new(whole(line.into()))
}

/// Reads one page of a list.
async fn page(client: &kube::Client, uri: &str) -> Result<Bytes, WatchError> {
    let read = async { get(client, uri, "application/json").await?.collect().await.map_err(|e| broken(&e)) };
    Ok(timeout(PAGE, read).await.map_err(|_| silent("a page took too long"))??.to_bytes())
}

/// Sends a GET; gives the body of a good answer.
async fn get(client: &kube::Client, uri: &str, accept: &'static str) -> Result<Body, WatchError> {
    let request = Request::get(uri)
        .header(header::ACCEPT, HeaderValue::from_static(accept))
        .header(header::USER_AGENT, HeaderValue::from_static(keys::USER_AGENT))
        .body(Body::empty())
        .map_err(|error| WatchError::Unreadable(error.to_string()))?;
    let response = client.send(request).await.map_err(silent)?;
    let (status, after) = (response.status(), retry_after(response.headers()));
    let body = response.into_body();
    if status.is_success() {
        return Ok(body);
    }
    let said: Bytes = body.collect().await.map_err(|e| broken(&e))?.to_bytes();
    match request_error(status, after, &said) {
        RequestError::Conflict(message) if status == StatusCode::GONE => Err(WatchError::Expired(message)),
        error => Err(error.into()),
    }
}

/// There is no answer.
fn silent(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WatchError {
    RequestError::Unreachable(with_causes(&*error.into())).into()
}

fn broken(error: &(dyn std::error::Error + 'static)) -> WatchError {
    WatchError::Broken(in_a_line(&with_causes(error)))
}

/// Why the body of a watch ended before its time. (kube warns of each unexpected end by itself; one outage is one line.)
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BrokenOff(pub(super) String);

/// The body of a watch: tells when it has lasted for a while, and ends when it is cut, overdue or has a line without end.
struct WatchBody {
    inner: Body,
    guard: Arc<Guard>,
    proves: Option<Pin<Box<Sleep>>>,
    overdue: Pin<Box<Sleep>>,
    lines: Lines,
    /// How long the line is that has not ended yet.
    line: usize,
    ended: bool,
}

impl WatchBody {
    /// The next bytes that kube's watcher can have, now that these have come.
    fn take(&mut self, data: Bytes) -> Result<Bytes, BrokenOff> {
        self.line = match memchr::memrchr(b'\n', &data) {
            Some(end) => data.len() - end - 1,
            None => self.line + data.len(),
        };
        if self.line > LONGEST_LINE {
            return Err(BrokenOff("a line has no end".to_owned()));
        }
        Ok(self.lines.take(data))
    }

    /// Nothing comes for now: whether the watch has lasted for a while, and whether it lasts for too long.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<BrokenOff> {
        if self.guard.partial.is_some() {
            *self.guard.waker.lock() = Some(context.waker().clone());
        }
        if self.proves.as_mut().is_some_and(|proves| proves.as_mut().poll(context).is_ready()) {
            self.proves = None;
            self.guard.works();
        }
        let overdue = self.overdue.as_mut().poll(context);
        overdue.map(|()| BrokenOff("the server does not end the watch in time".to_owned()))
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended || self.guard.cut.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        loop {
            match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let data = self.take(data)?;
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let text = with_causes(&error).replace("unexpected EOF", "unexpected end");
                    return Poll::Ready(Some(Err(BrokenOff(text).into())));
                }
                Poll::Ready(None) => {
                    self.ended = true;
                    let rest = self.lines.rest();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
                Poll::Pending => return self.poll_waiting(context).map(|why| Some(Err(why.into()))),
            }
        }
    }
}
