//! Watches that keep the tables: one per kind, on kube-runtime.
//!
//! Owns what a failure means for what is shown: a kind that the server does not have, or does not let us read, is said
//! and tried again; the others go on.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    kinds::{self, Kind, Shown, key_of},
    run::Run,
    tables::State,
};

/// A watch that failed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(5);
/// One of a kind that the server does not have, after so long.
const ABSENT: Duration = Duration::from_secs(30);

/// Follows all kinds until it is dropped.
pub(crate) fn all(client: &Client, run: &Arc<Run>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    watches.spawn(one::<kinds::Service>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::Slice>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::Address>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::Cidr>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::NodePort>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::PortRange>(client.clone(), Arc::clone(run)));
    watches.spawn(one::<kinds::Pool>(client.clone(), Arc::clone(run)));
    watches.spawn(nodes(client.clone(), Arc::clone(run)));
    watches
}

async fn one<S: Shown + kube::Resource<DynamicType = kube::core::ApiResource>>(
    client: Client,
    run: Arc<Run>,
) {
    let api: Api<S> = Api::all_with(client, &S::KIND.resource());
    follow(api, &run, S::KIND, |object| (key_of(Shown::meta(object)), object.row())).await;
}

/// Of nodes only the metadata is read.
async fn nodes(client: Client, run: Arc<Run>) {
    let api: Api<PartialObjectMeta<core::Node>> = Api::all(client);
    let row = |node: &PartialObjectMeta<core::Node>| {
        let node = kinds::Node { metadata: node.metadata.clone() };
        (key_of(&node.metadata), node.row())
    };
    follow(api, &run, Kind::Nodes, row).await;
}

async fn follow<K>(api: Api<K>, run: &Run, kind: Kind, row: impl Fn(&K) -> (String, String))
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => run.change(|tables| tables.list_begins(kind)),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let (key, row) = row(&object);
                run.change(|tables| tables.set(kind, key, row));
            }
            Ok(Event::InitDone) => run.change(|tables| tables.list_ends(kind)),
            Ok(Event::Delete(object)) => {
                let key = key_of(object.meta());
                run.change(|tables| tables.remove(kind, &key));
            }
            Err(error) => {
                let (state, again) = failure(&error);
                if let Some(state) = state {
                    run.change(|tables| tables.set_state(kind, state));
                }
                sleep(again).await;
            }
        }
    }
}

/// What an error means for what is shown, and when the watch is tried again. One that ends and is begun anew is none.
fn failure(error: &watcher::Error) -> (Option<State>, Duration) {
    let failing = |error: &kube::Error| match error {
        kube::Error::Api(status) if status.code == 404 => (Some(State::Absent), ABSENT),
        kube::Error::Api(status) if status.code == 403 => {
            (Some(State::Failing(status.message.clone())), ABSENT)
        }
        kube::Error::Api(status) => (Some(State::Failing(status.message.clone())), AGAIN),
        error => (Some(State::Failing(with_causes(error))), AGAIN),
    };
    match error {
        watcher::Error::NoResourceVersion => (Some(State::Failing(error.to_string())), AGAIN),
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => failing(error),
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) => (None, Duration::from_millis(500)),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> (Option<State>, Duration) {
        let status = Status { code, message: "why".to_owned(), ..Status::default() };
        failure(&watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn what_a_refused_list_means() {
        assert_eq!(refused(404), (Some(State::Absent), ABSENT));
        assert_eq!(refused(403), (Some(State::Failing("why".to_owned())), ABSENT));
        assert_eq!(refused(500), (Some(State::Failing("why".to_owned())), AGAIN));
    }
}
