//! What kube's `applier` costs for keys without objects, beside the runner over its scheduler: decision 0006.
//!
//! `cargo run --release -p service-controllers --example applier_cost`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, missing_docs)]

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use service_controllers::controller::{Controller, Key};
use service_controllers::reconcile::pacing::Urgency;
use service_controllers::reconcile::pending::Next;
use service_controllers::reconcile::runner::{Queue, run};
use tokio_util::sync::CancellationToken;

const KEYS: usize = 20_000;
const LATENCIES: usize = 500;

/// A key as an object, which is what a `Store` holds.
#[derive(Clone, Debug)]
struct KeyObject(ObjectMeta);

impl kube::Resource for KeyObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;
    fn kind((): &()) -> Cow<'_, str> {
        "Key".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "keys".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.0
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

fn name(number: usize) -> String {
    format!("service-{number}")
}

/// Memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn tell(who: &str, queued: usize, took: Duration, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    println!(
        "| {who} | {:.0} bytes | {:.1} us | {:.2} ms |",
        queued as f64 * 1024.0 / KEYS as f64,
        took.as_secs_f64() * 1e6 / KEYS as f64,
        latencies[latencies.len() / 2].as_secs_f64() * 1e3
    );
}

async fn with_applier() {
    let mut store = Writer::<KeyObject>::default();
    let reader = store.as_reader();
    let (asked, queue) = futures::channel::mpsc::unbounded::<Result<ObjectRef<KeyObject>, Infallible>>();
    let looked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looked);
    let looks = applier(
        move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            futures::future::ok::<_, Infallible>(Action::await_change())
        },
        |_, _, _: Arc<()>| Action::await_change(),
        Arc::new(()),
        reader,
        queue,
        controller::Config::default().concurrency(8),
    );
    let before = resident();
    let mut ask = |number: usize| {
        let meta = ObjectMeta {
            name: Some(name(number)),
            namespace: Some("default".into()),
            ..ObjectMeta::default()
        };
        let key = KeyObject(meta);
        store.apply_watcher_event(&Event::Apply(key.clone()));
        asked.unbounded_send(Ok(ObjectRef::from_obj(&key))).unwrap();
    };
    (0..KEYS).for_each(&mut ask);
    let mut looks = std::pin::pin!(looks);
    // The scheduler takes in what was asked for, and holds it until the store is ready.
    assert!(looks.next().now_or_never().is_none());
    let queued = resident() - before;
    store.apply_watcher_event(&Event::Init);
    for number in 0..KEYS {
        let meta = ObjectMeta {
            name: Some(name(number)),
            namespace: Some("default".into()),
            ..ObjectMeta::default()
        };
        store.apply_watcher_event(&Event::InitApply(KeyObject(meta)));
    }
    store.apply_watcher_event(&Event::InitDone);
    let begun = Instant::now();
    while looked.load(Ordering::Relaxed) < KEYS {
        looks.next().await;
    }
    let took = begun.elapsed();
    let mut latencies = Vec::new();
    let key = KeyObject(ObjectMeta {
        name: Some(name(0)),
        namespace: Some("default".into()),
        ..ObjectMeta::default()
    });
    for _ in 0..LATENCIES {
        let begun = Instant::now();
        asked.unbounded_send(Ok(ObjectRef::from_obj(&key))).unwrap();
        looks.next().await;
        latencies.push(begun.elapsed());
    }
    tell("applier", queued, took, latencies);
}

async fn with_runner() {
    let (queue, requests) = Queue::new(Duration::ZERO);
    let before = resident();
    let namespace = "default".into();
    let ask = |number: usize| {
        let key = Key::new(Controller::Slices, &namespace, &name(number).as_str().into());
        queue.ask(key, Urgency::Now);
    };
    (0..KEYS).for_each(ask);
    let queued = resident() - before;
    let (done, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let shutdown = CancellationToken::new();
    let look = move |_: Key| {
        let done = done.clone();
        async move {
            done.send(()).unwrap();
            Next::Idle
        }
        .boxed()
    };
    let begun = Instant::now();
    let running = tokio::spawn(run(Arc::clone(&queue), requests, 8, shutdown.clone(), look));
    for _ in 0..KEYS {
        seen.recv().await.unwrap();
    }
    let took = begun.elapsed();
    let mut latencies = Vec::new();
    for _ in 0..LATENCIES {
        let begun = Instant::now();
        ask(0);
        seen.recv().await.unwrap();
        latencies.push(begun.elapsed());
    }
    shutdown.cancel();
    running.await.unwrap();
    tell("`scheduler()` and our runner", queued, took, latencies);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!(
        "| {KEYS} keys | memory while they wait, for each | time for each, all together (wall) | from call to look, p50 |"
    );
    println!("| --- | --- | --- | --- |");
    match std::env::args().nth(1).as_deref() {
        Some("runner") => with_runner().await,
        _ => with_applier().await,
    }
}
