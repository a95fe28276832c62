//! A reader of all EndpointSlices that knows for each pod whether its endpoint is ready, and when that became so.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::Notify, task::JoinHandle, time::timeout};

use crate::{
    crowd,
    http::{Client, HttpError, Target, request},
};

/// What the slices say, as far as they have been read.
#[derive(Debug, Default)]
struct View {
    /// Of each pod by number: whether its endpoint is ready, and since when that is known.
    pods: HashMap<usize, (bool, Instant)>,
    slices: HashMap<String, Vec<usize>>,
    events: usize,
}

/// The reader; it ends when dropped.
#[derive(Debug)]
pub struct EndpointsSeen {
    view: Arc<Mutex<View>>,
    changed: Arc<Notify>,
    reading: JoinHandle<()>,
}

impl Drop for EndpointsSeen {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl EndpointsSeen {
    /// Reads what is there and what comes.
    pub async fn follow(target: &Target) -> Result<Self, HttpError> {
        let path = "/apis/discovery.k8s.io/v1/endpointslices?watch=true&resourceVersion=0";
        let response = Client::new(target.clone()).open(request("GET", path, Bytes::new())?).await?;
        let (view, changed) = (Arc::new(Mutex::new(View::default())), Arc::new(Notify::new()));
        let reading = tokio::spawn(read(response.into_body(), Arc::clone(&view), Arc::clone(&changed)));
        Ok(Self { view, changed, reading })
    }

    /// How many pods have a ready endpoint.
    pub fn ready(&self) -> usize {
        self.view.lock().pods.values().filter(|(ready, _)| *ready).count()
    }

    /// How many events of slices came.
    pub fn events(&self) -> usize {
        self.view.lock().events
    }

    /// Waits until the endpoint of a pod is ready, or not; gives when it was seen.
    pub async fn until(&self, pod: usize, ready: bool, patience: Duration) -> Option<Instant> {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if let Some((state, since)) = self.view.lock().pods.get(&pod)
                    && *state == ready
                {
                    return *since;
                }
                changed.await;
            }
        };
        timeout(patience, wait).await.ok()
    }

    /// Waits until so many pods have a ready endpoint; gives whether that came.
    pub async fn until_ready(&self, pods: usize, patience: Duration) -> bool {
        let wait = async {
            while self.ready() != pods {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(patience, wait).await.is_ok()
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Slice,
}

#[derive(Deserialize)]
struct Slice {
    metadata: Named,
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    target_ref: Option<Named>,
    conditions: Conditions,
}

#[derive(Deserialize)]
struct Conditions {
    ready: Option<bool>,
}

async fn read(mut body: hyper::body::Incoming, view: Arc<Mutex<View>>, changed: Arc<Notify>) {
    let mut pending: Vec<u8> = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let now = Instant::now();
        pending.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
        let mut begin = 0;
        while let Some(length) = pending[begin..].iter().position(|byte| *byte == b'\n') {
            if let Ok(event) = serde_json::from_slice(&pending[begin..begin + length]) {
                view.lock().take(event, now);
            }
            begin += length + 1;
        }
        pending.drain(..begin);
        changed.notify_waiters();
    }
}

impl View {
    fn take(&mut self, event: Event, now: Instant) {
        let slice = event.object;
        let key = format!("{}/{}", slice.metadata.namespace, slice.metadata.name);
        self.events += 1;
        let before = self.slices.remove(&key).unwrap_or_default();
        let gone = event.kind == "DELETED";
        let states: HashMap<usize, bool> = slice
            .endpoints
            .into_iter()
            .flatten()
            .filter(|_| !gone)
            .filter_map(|endpoint| {
                Some((crowd::number(&endpoint.target_ref?.name)?, endpoint.conditions.ready.unwrap_or(true)))
            })
            .collect();
        for pod in before.into_iter().filter(|pod| !states.contains_key(pod)) {
            if !self.slices.values().any(|pods| pods.contains(&pod)) {
                self.pods.remove(&pod);
            }
        }
        for (pod, ready) in &states {
            let known = self.pods.entry(*pod).or_insert((*ready, now));
            if known.0 != *ready {
                *known = (*ready, now);
            }
        }
        self.slices.insert(key, states.into_keys().collect());
    }
}
