//! One watch per kind: lists in pages, then events, as JSON for the caches.
//!
//! Owns what keeps a watch alive: versions, bookmarks, expiry, waits after failures. An object is
//! handed on as the bytes that came, so that whoever knows the caches decides how much of it is read;
//! nothing here holds objects. (Why not kube's watcher: docs/decisions/0004.)

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::lines::{self, EventType, LineError, Lines};
use super::objects::VersionWire;
use super::peek;
use super::reach::Reach;
use super::relist::Kind;
use crate::api::Refusal;
use crate::backoff::Backoff;
use crate::client::refusal;
use crate::error::{in_a_line, with_causes};
use crate::keys;

/// The server ends a watch after so long; another one continues where it ended.
const WATCH: Duration = Duration::from_secs(290);
/// A server that does not keep to that is gone.
const OVERDUE: Duration = Duration::from_secs(15);
/// A page of a list that takes longer has failed.
const PAGE: Duration = Duration::from_mins(1);
/// A watch that ended sooner without an event is not begun again at once.
const SHORT: Duration = Duration::from_secs(1);

/// What a watch yields.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// The server was put back to an earlier state: its versions start again from there, and a list
    /// follows.
    Restored,
    /// A list begins.
    ListBegins,
    /// An object as it is now, JSON.
    Seen(&'a [u8]),
    /// An object that is gone, as it last was, JSON.
    Gone(&'a [u8]),
    /// The list is complete.
    ListEnds,
    /// The server answered.
    Answered,
    /// The watch goes on as it should.
    Works,
    /// The watch failed and is tried again.
    Failed {
        /// Why.
        error: &'a WatchError,
        /// After how long.
        again: Duration,
    },
}

/// What has become of a happening: the version of the object, as its metadata gives it.
pub type Taken = Result<String, serde_json::Error>;

/// A list or watch that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The version it should go on from is not kept any more: a list is needed.
    #[error("the version to continue from has expired: {0}")]
    Expired(String),
    /// The server was put back to an earlier state: a list is needed.
    #[error("the server's versions went back from {from} to {to}")]
    Back {
        /// The last version known.
        from: String,
        /// The version that the server is at.
        to: String,
    },
    /// The server does not answer as it should.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer breaks off.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// The answer is nothing an API server says.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

/// How many objects of a kind come with one page of a list.
fn page_size(kind: Kind) -> u32 {
    match kind {
        // About 1 MB each: a pod has 5 KB, a full slice or Endpoints object much more.
        Kind::Pods => 200,
        Kind::Slices => 100,
        Kind::Endpoints => 20,
        Kind::Nodes | Kind::Services | Kind::Cidrs | Kind::Addresses => 250,
    }
}

/// What is asked of the server next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// All objects.
    List,
    /// Whether the version to continue from still means what it did: a watch that ended early may have
    /// ended with its server, and one that was put back to an earlier state takes a version that it
    /// has not reached without a word.
    Check,
    /// What has changed since.
    Watch,
}

/// Follows a kind for ever, across all failures. `take` gets every happening and gives the version of
/// an object; one that it cannot read is passed over. A wait for a server that gave no answer ends when `reach` says that
/// it gave one.
pub async fn follow(
    client: kube::Client,
    kind: Kind,
    reach: &Reach,
    mut take: impl FnMut(Happening<'_>) -> Taken,
) {
    let (mut version, mut next) = (String::new(), Next::List);
    // A server that calls for a list is there: it does not wait for as long as one that was not.
    let (mut backoff, mut relists) = (Backoff::default(), Backoff::default());
    loop {
        let failure = match next {
            Next::List => match list(&client, kind, &mut version, &mut take).await {
                Ok(()) => {
                    next = Next::Watch;
                    continue;
                }
                Err(failure) => failure,
            },
            Next::Check => match check(&client, kind, &version).await {
                Ok(()) => {
                    let _ = take(Happening::Answered);
                    next = Next::Watch;
                    continue;
                }
                Err(failure) => failure,
            },
            Next::Watch => {
                let (begun, from) = (Instant::now(), version.clone());
                let ended = watch(&client, kind, &mut version, &mut take).await;
                let lasted = begun.elapsed();
                let useful = lasted > SHORT || from != version;
                if useful {
                    backoff.reset();
                    relists.reset();
                }
                if lasted + SHORT < WATCH {
                    next = Next::Check;
                }
                match ended {
                    Ok(()) if useful => continue,
                    Ok(()) => WatchError::Broken("the watch ended as soon as it began".to_owned()),
                    Err(failure) => failure,
                }
            }
        };
        let again = match &failure {
            WatchError::Refused(refused) => backoff.after(refused),
            WatchError::Expired(_) | WatchError::Back { .. } => {
                next = Next::List;
                relists.after(&Refusal::Unknown(failure.to_string()))
            }
            other => backoff.after(&Refusal::Unknown(other.to_string())),
        };
        // What is taken only says how far this version has come.
        let _ = take(Happening::Failed { error: &failure, again });
        if matches!(failure, WatchError::Refused(Refusal::Unreachable(_))) {
            reach.wait(again).await;
        } else {
            sleep(again).await;
        }
    }
}

/// The metadata of a list, with its objects unread.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

impl<'a> List<'a> {
    fn read(body: &'a [u8]) -> Result<Self, WatchError> {
        let list: Self =
            serde_json::from_slice(body).map_err(|error| WatchError::Unreadable(error.to_string()))?;
        if list.metadata.resource_version.is_empty() {
            // Taken for an empty list, it would end the life of all objects.
            return Err(WatchError::Unreadable("a list without a version".to_owned()));
        }
        Ok(list)
    }
}

/// Reads one page of a list.
async fn page(client: &kube::Client, path: &str) -> Result<Bytes, WatchError> {
    let read = async { get(client, path).await?.collect().await.map_err(broken) };
    Ok(timeout(PAGE, read).await.map_err(|_| silent("a page took too long"))??.to_bytes())
}

/// Whether the server has come as far as `version`.
async fn check(client: &kube::Client, kind: Kind, version: &str) -> Result<(), WatchError> {
    let body = page(client, &format!("{}?limit=1", kind.path())).await?;
    reached(&List::read(&body)?.metadata.resource_version, version)
}

fn reached(now: &str, version: &str) -> Result<(), WatchError> {
    if is_before(now, version) {
        return Err(WatchError::Back { from: version.to_owned(), to: now.to_owned() });
    }
    Ok(())
}

fn is_before(now: &str, version: &str) -> bool {
    matches!((now.parse::<u64>(), version.parse::<u64>()), (Ok(now), Ok(version)) if now < version)
}

/// Reads all objects of a kind, and puts `version` at that of the list.
async fn list(
    client: &kube::Client,
    kind: Kind,
    version: &mut String,
    take: &mut impl FnMut(Happening<'_>) -> Taken,
) -> Result<(), WatchError> {
    let _ = take(Happening::ListBegins);
    let (mut next, mut backoff) = (String::new(), Backoff::default());
    loop {
        let body = match page(client, &format!("{}?limit={}{next}", kind.path(), page_size(kind))).await {
            // A server that has no time is not asked for the pages before this one again.
            Err(WatchError::Refused(refused @ Refusal::Busy { .. })) if !next.is_empty() => {
                let wait = backoff.after(&refused);
                let _ = take(Happening::Failed { error: &refused.into(), again: wait });
                sleep(wait).await;
                continue;
            }
            body => body?,
        };
        backoff.reset();
        let _ = take(Happening::Answered);
        let list = List::read(&body)?;
        if is_before(&list.metadata.resource_version, version) {
            let _ = take(Happening::Restored);
            version.clear();
        }
        for object in list.items.iter().flatten() {
            // Whoever takes it says what is wrong with it; the others are still wanted.
            let _ = take(Happening::Seen(object.get().as_bytes()));
        }
        let Some(token) = list.metadata.r#continue.filter(|token| !token.is_empty()) else {
            let _ = take(Happening::ListEnds);
            *version = list.metadata.resource_version;
            return Ok(());
        };
        next = format!("&continue={}", utf8_percent_encode(&token, NON_ALPHANUMERIC));
    }
}

/// Reads events until the watch ends, and keeps `version` at what has been read.
async fn watch(
    client: &kube::Client,
    kind: Kind,
    version: &mut String,
    take: &mut impl FnMut(Happening<'_>) -> Taken,
) -> Result<(), WatchError> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
        kind.path(),
        WATCH.as_secs(),
    );
    let mut body =
        timeout(PAGE, get(client, &path)).await.map_err(|_| silent("none to the watch in time"))??;
    let _ = take(Happening::Answered);
    let mut lines = Lines::default();
    let begun = Instant::now();
    let mut overdue = std::pin::pin!(sleep_until(begun + WATCH + OVERDUE));
    let mut proven = false;
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = sleep_until(begun + SHORT), if !proven => {
                proven = true;
                let _ = take(Happening::Works);
                continue;
            }
            () = &mut overdue => return Err(broken("the server does not end the watch in time")),
        };
        let Some(frame) = frame else { return Ok(()) };
        let Ok(mut data) = frame.map_err(broken)?.into_data() else { continue };
        while data.has_remaining() {
            let chunk = data.chunk();
            let length = chunk.len();
            lines.feed(chunk, |line| event(line, version, take)).map_err(|error| match error {
                LineError::Refused(error) => error,
                LineError::Endless => WatchError::Unreadable("a line has no end".to_owned()),
            })?;
            data.advance(length);
        }
        if !std::mem::replace(&mut proven, true) {
            let _ = take(Happening::Works);
        }
    }
}

/// Takes one line of a watch.
fn event(
    line: &[u8],
    version: &mut String,
    take: &mut impl FnMut(Happening<'_>) -> Taken,
) -> Result<(), WatchError> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    let Some((kind, object)) = lines::event(line) else {
        let text = in_a_line(&String::from_utf8_lossy(&line[..line.len().min(200)]));
        return Err(WatchError::Unreadable(format!("no event: {text}")));
    };
    let taken = match kind {
        EventType::Seen => take(Happening::Seen(&object)),
        EventType::Gone => take(Happening::Gone(&object)),
        EventType::Bookmark => Ok(String::new()),
        EventType::Error => return Err(ended(&object)),
    };
    let seen = match taken {
        Ok(seen) if !seen.is_empty() => seen,
        _ => peek::metadata::<VersionWire>(&object).map(|meta| meta.resource_version).unwrap_or_default(),
    };
    if !seen.is_empty() {
        reached(&seen, version)?;
        *version = seen;
    }
    Ok(())
}

/// What the `Status` says that ended a watch.
fn ended(status: &[u8]) -> WatchError {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Code {
        code: u16,
        message: String,
    }
    let said: Code = serde_json::from_slice(status).unwrap_or_default();
    let code = StatusCode::from_u16(said.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == StatusCode::GONE {
        return WatchError::Expired(in_a_line(&said.message));
    }
    refusal(code, None, status).into()
}

/// Sends a GET; gives the body of a good answer.
async fn get(client: &kube::Client, path: &str) -> Result<Body, WatchError> {
    let request = Request::get(path)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, keys::USER_AGENT)
        .body(Body::empty())
        .map_err(|error| WatchError::Unreadable(error.to_string()))?;
    let response = client.send(request).await.map_err(silent)?;
    let status = response.status();
    let after = crate::client::retry_after(response.headers());
    let body = response.into_body();
    if status.is_success() {
        return Ok(body);
    }
    let said: Bytes = body.collect().await.map_err(broken)?.to_bytes();
    match refusal(status, after, &said) {
        Refusal::Conflict(message) if status == StatusCode::GONE => Err(WatchError::Expired(message)),
        refused => Err(refused.into()),
    }
}

/// There is no answer.
fn silent(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WatchError {
    Refusal::Unreachable(with_causes(&*error.into())).into()
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> WatchError {
    WatchError::Broken(with_causes(&*error.into()))
}
