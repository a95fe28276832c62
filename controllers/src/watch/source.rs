//! One watch per kind: lists in pages, then events, into the caches.
//!
//! kube's watcher keeps the watch alive; this keeps what it yields. Objects are decoded into small
//! structs page by page, so that a list of pods never is in memory as a whole.

use std::pin::pin;

use futures::{Stream, StreamExt, TryStreamExt};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::objects::{Seen, Watched};
use super::relist::Kind;

/// What a watch yields.
#[derive(Debug)]
pub enum Happening<W> {
    /// A list begins.
    ListBegins,
    /// An object as it is now.
    Seen(W),
    /// An object that is gone.
    Gone(W),
    /// The list is complete.
    ListEnds,
    /// The watch failed and is tried again.
    Failed(String),
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

/// Follows a kind for ever, across restarts of the watch.
pub fn follow<W: Watched>(client: kube::Client, kind: Kind) -> impl Stream<Item = Happening<W>> {
    let config = watcher::Config::default().page_size(page_size(kind));
    watcher(Api::<Seen<W>>::all(client), config).default_backoff().map(|event| match event {
        Ok(Event::Init) => Happening::ListBegins,
        Ok(Event::Apply(seen) | Event::InitApply(seen)) => Happening::Seen(seen.object),
        Ok(Event::Delete(seen)) => Happening::Gone(seen.object),
        Ok(Event::InitDone) => Happening::ListEnds,
        Err(error) => Happening::Failed(error.to_string()),
    })
}

/// Reads `stream` to its end, giving each happening to `take`.
pub async fn drain<W>(stream: impl Stream<Item = Happening<W>>, mut take: impl FnMut(Happening<W>)) {
    let mut stream = pin!(stream.map(Ok::<_, std::convert::Infallible>));
    while let Ok(Some(happening)) = stream.try_next().await {
        take(happening);
    }
}
