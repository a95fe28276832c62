//! The watches, as one stream.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _, stream::select_all};
use jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event, watcher},
    },
};
use serde::de::DeserializeOwned;

use super::Settings;
use crate::{
    objects::{NodeWire, ServiceCidrWire, ServiceWire, SliceWire},
    track::{HEADLESS_LABEL, PROXY_NAME_LABEL, Seen},
};

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What the loop takes in.
#[derive(Debug)]
pub(super) enum Input {
    Service(Seen<ServiceWire>),
    Slice(Seen<SliceWire>),
    Node(Seen<NodeWire>),
    Cidr(Seen<ServiceCidrWire>),
    /// A watch failed; it is tried again.
    Failed(&'static str, watcher::Error),
    /// A watch that failed works.
    Works(&'static str),
}

/// Which lists are complete.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Synced {
    pub(super) services: bool,
    pub(super) slices: bool,
    pub(super) node: bool,
}

impl Synced {
    /// Whether rules can be made: ones from half a list would take endpoints out.
    pub(super) const fn complete(self) -> bool {
        self.services && self.slices && self.node
    }
}

/// Whether a list ends.
pub(super) const fn ends<K>(seen: &Seen<K>) -> bool {
    matches!(seen, Seen::ListEnds)
}

/// When the change happened that a slice tells of.
pub(super) fn trigger(seen: &Seen<SliceWire>) -> Option<Timestamp> {
    let Seen::Object(slice) = seen else { return None };
    slice.metadata.annotations.as_ref()?.get(TRIGGER)?.parse().ok()
}

/// All watches.
pub(super) fn watches(client: &Client, settings: &Settings) -> impl Stream<Item = Input> + use<> {
    let ours = match &settings.proxy_name {
        Some(name) => format!("{PROXY_NAME_LABEL}={name}"),
        None => format!("!{PROXY_NAME_LABEL}"),
    };
    let labelled = Config::default().labels(&format!("{ours},!{HEADLESS_LABEL}"));
    let node = Config::default().fields(&format!("metadata.name={}", settings.node_name));
    select_all([
        one(client, labelled.clone(), "Services", Input::Service).boxed(),
        one(client, labelled, "EndpointSlices", Input::Slice).boxed(),
        one(client, node, "Node", Input::Node).boxed(),
        one(client, Config::default(), "ServiceCIDRs", Input::Cidr).boxed(),
    ])
}

fn one<K>(
    client: &Client,
    config: Config,
    kind: &'static str,
    wrap: fn(Seen<K>) -> Input,
) -> impl Stream<Item = Input> + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut failing = false;
    watcher(Api::<K>::all(client.clone()), config).default_backoff().flat_map(move |event| {
        let inputs = match event {
            Ok(event) => {
                let works = std::mem::take(&mut failing).then_some(Input::Works(kind));
                let seen = match event {
                    Event::Init => Seen::ListBegins,
                    Event::InitApply(object) | Event::Apply(object) => Seen::Object(object),
                    Event::Delete(object) => Seen::Gone(object),
                    Event::InitDone => Seen::ListEnds,
                };
                [works, Some(wrap(seen))]
            }
            Err(error) => {
                failing = true;
                [Some(Input::Failed(kind, error)), None]
            }
        };
        futures::stream::iter(inputs.into_iter().flatten())
    })
}
