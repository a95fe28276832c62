//! Follows a kind for ever, across all failures: kube's watcher, with a wait after each of its errors.
//!
//! Owns which wait follows which failure; nothing here holds objects.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::{ClusterResourceScope, Status};
use kube::runtime::watcher::{self, Event};
use kube::{Api, runtime};
use serde::Deserialize;
use tokio::time::sleep;

use super::guard::{Guard, WATCH};
use super::outage::Outage;
use crate::api::{RequestError, WatchError};
use crate::backoff::Backoff;
use crate::client::request_error_of;
use crate::error::{in_a_line, with_causes};
use crate::objects::{Lenient, ObjectKind, Watched};

/// Refused credentials are tried again after so long at most: as often as they are read again.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// What a watch yields.
#[derive(Debug)]
pub enum WatchEvent<O> {
    /// A list begins.
    ListBegins,
    /// The server was put back to an earlier state: its versions start again from there. Comes within a list.
    Restored,
    /// An object as it is now.
    Seen(O),
    /// An object that is gone, as it last was.
    Gone(O),
    /// The list is complete.
    ListEnds,
}

/// The settings of kube's watcher for a kind.
fn config(kind: ObjectKind) -> watcher::Config {
    #[allow(clippy::cast_possible_truncation)] // 290
    watcher::Config::default().page_size(kind.page_size()).timeout(WATCH.as_secs() as u32)
}

/// What a watch can be of: an object that can always be decoded, whatever the server sends.
pub trait Followed:
    kube::Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + Debug
    + Send
    + for<'de> Deserialize<'de>
    + 'static
{
}

impl<K: Watched> Followed for Lenient<K> {}

/// The waits after failures.
#[derive(Debug, Default)]
struct Waits {
    /// There is no answer, or none that helps.
    outages: Backoff,
    /// A watch is answered and ends at once.
    short: Backoff,
    /// A list is called for. A server that calls for one is there: it does not wait for as long as one that was not.
    lists: Backoff,
}

impl Waits {
    fn progress(&mut self, guard: &Guard) {
        let (answered, proven) = guard.take_progress();
        if answered {
            self.outages.reset();
        }
        if proven {
            self.short.reset();
            self.lists.reset();
        }
    }

    fn after(&mut self, error: &WatchError) -> Duration {
        let unknown = || RequestError::Unknown(error.to_string());
        match error {
            WatchError::Refused(error) => self.outages.after(error),
            WatchError::Expired(_) | WatchError::Back { .. } => self.lists.after(&unknown()),
            WatchError::Broken(_) | WatchError::Unreadable(_) => self.short.after(&unknown()),
        }
    }
}

/// Follows a kind for ever. `take` gets every event. A wait for a server that gave no answer ends when `outage` says that it
/// gave one.
pub async fn follow<O: Followed>(
    client: &kube::Client,
    guard: &Arc<Guard>,
    outage: &Outage,
    mut take: impl FnMut(WatchEvent<O>),
) {
    let api: Api<O> = Api::all(guard.around(client));
    let mut events = std::pin::pin!(runtime::watcher(api, config(guard.kind())));
    let mut waits = Waits::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => taken(guard, event, &mut take),
            // kube's watcher lists anew for the code alone: it is told so once more, in its words.
            Err(watcher::Error::WatchError(status)) if is_expired_without_code(&status) => {
                guard.expire(&status.message);
            }
            // Some object may be what cannot be read. It is found out when objects come as texts: of the list anew, or of a watch
            // from the last version that could be read.
            Err(error) if could_not_be_read(&error) && guard.hand_over_texts() => {
                if matches!(error, watcher::Error::WatchFailed(_)) {
                    guard.cut();
                }
                guard.observer().failed(guard.kind(), &reason(guard, error), Duration::ZERO);
            }
            Err(error) => {
                waits.progress(guard);
                let error = reason(guard, error);
                let again = waits.after(&error);
                let silent = matches!(error, WatchError::Refused(RequestError::Unreachable(_)));
                let unauthorized =
                    matches!(error, WatchError::Refused(RequestError::Rejected { code: 401, .. }));
                let again = if unauthorized { again.min(CREDENTIALS) } else { again };
                guard.observer().failed(guard.kind(), &error, again);
                if silent {
                    outage.unanswered();
                }
                if silent || unauthorized {
                    outage.wait(again).await;
                } else {
                    sleep(again).await;
                }
            }
        }
    }
}

fn taken<O: Followed>(guard: &Guard, event: Event<O>, take: &mut impl FnMut(WatchEvent<O>)) {
    let version_of = |object: &O| object.meta().resource_version.clone().unwrap_or_default();
    let restored = |take: &mut dyn FnMut(WatchEvent<O>)| {
        if guard.take_restored() {
            take(WatchEvent::Restored);
        }
    };
    match event {
        Event::Init => {
            guard.observer().listed(guard.kind());
            take(WatchEvent::ListBegins);
        }
        Event::InitApply(object) => {
            restored(take);
            take(WatchEvent::Seen(object));
        }
        Event::InitDone => {
            restored(take);
            take(WatchEvent::ListEnds);
        }
        Event::Apply(_) | Event::Delete(_) if guard.is_cut() => {}
        Event::Apply(object) => {
            guard.works();
            let version = version_of(&object);
            take(WatchEvent::Seen(object));
            guard.saw(&version);
        }
        Event::Delete(object) => {
            guard.works();
            let version = version_of(&object);
            take(WatchEvent::Gone(object));
            guard.saw(&version);
        }
    }
}

/// Whether what came could not be decoded. A line that is no event is a `Status` without a code to kube.
fn could_not_be_read(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchFailed(error) => match error {
            kube::Error::SerdeError(_) => true,
            kube::Error::Api(status) => status.code == 0,
            _ => false,
        },
        _ => false,
    }
}

fn is_expired_without_code(status: &Status) -> bool {
    status.code == 0 && matches!(&*status.reason, "Expired" | "Gone")
}

/// What an error of kube's watcher means.
fn reason(guard: &Guard, error: watcher::Error) -> WatchError {
    match error {
        watcher::Error::WatchError(status) if status.code == 410 => match guard.take_back() {
            Some((from, to)) => WatchError::Back { from, to },
            None => WatchError::Expired(in_a_line(&status.message)),
        },
        watcher::Error::WatchError(status) => request_error_of(&kube::Error::Api(status)).into(),
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => of_client(guard, error),
        error @ watcher::Error::NoResourceVersion => {
            guard.cut();
            WatchError::Unreadable(error.to_string())
        }
    }
}

fn of_client(guard: &Guard, error: kube::Error) -> WatchError {
    match error {
        kube::Error::Service(error) => match error.downcast::<WatchError>() {
            Ok(error) => *error,
            Err(error) => RequestError::Unreachable(with_causes(&*error)).into(),
        },
        kube::Error::ReadEvents(error) => WatchError::Broken(in_a_line(&with_causes(&error))),
        kube::Error::SerdeError(error) => {
            // The line may have been an event: the watch goes on from the last one that was read.
            guard.cut();
            WatchError::Unreadable(error.to_string())
        }
        // kube takes a line that is no event for a `Status`; one without a code is none either.
        kube::Error::Api(status) if status.code == 0 => {
            guard.cut();
            WatchError::Unreadable("no event".to_owned())
        }
        kube::Error::Api(status) => request_error_of(&kube::Error::Api(status)).into(),
        error => RequestError::Unreachable(with_causes(&error)).into(),
    }
}
