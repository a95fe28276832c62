//! What the store costs: a put in memory and on disk, a large list, a fan-out to watches, a start with 100,000 records.
//! Sizes are in the names; a Service is about 1.6 KB with its managed fields, an IPAddress about 0.9 KB.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use service_lab_store::{Index, ObjectChange, ResourceId, Store, StoreOptions, Stored, Sync};
use tempfile::TempDir;

const SERVICES: ResourceId = ResourceId(0);
const ADDRESSES: ResourceId = ResourceId(1);
const MANY: usize = 50_000;

/// Derived state that costs next to nothing, so that the store itself is measured.
#[derive(Default)]
struct Count(usize);

impl Index for Count {
    fn apply(&mut self, change: &ObjectChange<'_>) {
        self.0 += usize::from(change.old.is_none());
    }
}

fn padded(kind: &str, namespace: Option<&str>, name: &str, bytes: usize) -> Value {
    let mut fields = serde_json::Map::new();
    let mut object = json!({
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": "bench"}, "resourceVersion": ""},
        "spec": {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    while object.to_string().len() + Value::Object(fields.clone()).to_string().len() < bytes {
        fields.insert(format!("f:field-{}", fields.len()), json!({"f:sub": {}, ".": {}}));
    }
    object["metadata"]["managedFields"] = json!([{"manager": "bench", "fieldsV1": fields}]);
    object
}

/// A Service and its IPAddress, renamed from a template.
struct Templates {
    service: Value,
    address: Value,
}

impl Templates {
    fn new() -> Self {
        Self {
            service: padded("Service", Some("default"), "service-000000", 1600),
            address: padded("IPAddress", None, "10.96.000.000", 900),
        }
    }

    fn pair(&self, n: usize) -> (Value, Value) {
        let (mut service, mut address) = (self.service.clone(), self.address.clone());
        service["metadata"]["namespace"] = format!("ns-{}", n % 100).into();
        service["metadata"]["name"] = format!("service-{n:06}").into();
        address["metadata"]["name"] = format!("10.{}.{}.{}", 96 + (n >> 16), (n >> 8) & 255, n & 255).into();
        (service, address)
    }
}

fn options(directory: Option<&TempDir>) -> StoreOptions {
    let options = StoreOptions::in_memory(["services", "ipaddresses"]);
    match directory {
        Some(directory) => options.with_data_dir(directory.path()),
        None => options,
    }
}

fn put_pair(store: &Store<Count>, (service, address): (Value, Value)) -> Arc<Stored> {
    let written = store.write(|tx| {
        tx.put(ADDRESSES, address)?;
        tx.put(SERVICES, service)
    });
    written.unwrap()
}

fn puts(criterion: &mut Criterion) {
    let templates = Templates::new();
    for (name, on_disk, sync) in [
        ("memory", false, Sync::Background),
        ("disk", true, Sync::Background),
        ("disk_sync_always", true, Sync::Always),
    ] {
        let directory = on_disk.then(|| TempDir::new().unwrap());
        let mut options = options(directory.as_ref());
        options.sync = sync;
        let store = Store::open(&options, Count::default()).unwrap();
        let mut n = 0;
        criterion.bench_function(&format!("put_service_and_address/{name}"), |bencher| {
            bencher.iter_batched(
                || {
                    n = (n + 1) % MANY;
                    templates.pair(n)
                },
                |pair| put_pair(&store, pair),
                BatchSize::SmallInput,
            );
        });
    }
}

fn lists(criterion: &mut Criterion) {
    let store = Store::open(&options(None), Count::default()).unwrap();
    let templates = Templates::new();
    for n in 0..MANY {
        put_pair(&store, templates.pair(n));
    }
    criterion.bench_function("list_50000/clone_all", |bencher| {
        bencher.iter(|| store.read(|view| view.list(SERVICES, None, None).cloned().collect::<Vec<_>>()));
    });
    criterion.bench_function("list_50000/page_of_500", |bencher| {
        bencher.iter(|| {
            store.read(|view| {
                let page = view.list(SERVICES, None, Some(("ns-5", "service-030005"))).take(500);
                page.cloned().collect::<Vec<_>>()
            })
        });
    });
    criterion.bench_function("get_of_50000", |bencher| {
        bencher.iter(|| store.read(|view| view.get(SERVICES, "ns-42", black_box("service-020042")).cloned()));
    });
}

fn fan_out(criterion: &mut Criterion) {
    let templates = Templates::new();
    let store = Store::open(&options(None), Count::default()).unwrap();
    let mut watches: Vec<_> = (0..10).map(|_| store.watch(SERVICES, store.revision()).unwrap()).collect();
    let mut n = 0;
    criterion.bench_function("put_and_10_watches_read", |bencher| {
        bencher.iter_batched(
            || {
                n = (n + 1) % MANY;
                templates.pair(n)
            },
            |pair| {
                put_pair(&store, pair);
                watches.iter_mut().map(|watch| watch.poll().unwrap().len()).sum::<usize>()
            },
            BatchSize::SmallInput,
        );
    });
}

fn starts(criterion: &mut Criterion) {
    let directory = TempDir::new().unwrap();
    println!("memory before the fill: {}", memory());
    let store = Store::open(&options(Some(&directory)), Count::default()).unwrap();
    let templates = Templates::new();
    let mut waits: Vec<Duration> = (0..MANY)
        .map(|n| {
            let pair = templates.pair(n);
            let begun = Instant::now();
            put_pair(&store, pair);
            begun.elapsed()
        })
        .collect();
    waits.sort_unstable();
    let total: Duration = waits.iter().sum();
    println!(
        "fill 50000 pairs on disk: {total:?}, p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
        waits[MANY / 2],
        waits[MANY * 99 / 100],
        waits[MANY * 999 / 1000],
        waits[MANY - 1]
    );
    println!("memory after the fill: {}", memory());
    store.close().unwrap();
    drop(store);
    println!("memory before a start with 100000 records: {}", memory());
    let opened = Store::open(&options(Some(&directory)), Count::default()).unwrap();
    println!("memory after it: {}", memory());
    let stats = opened.read(|view| (view.stats(SERVICES), view.stats(ADDRESSES)));
    println!("{stats:?}");
    opened.close().unwrap();
    drop(opened);
    let mut group = criterion.benchmark_group("open");
    group.sample_size(10);
    group.bench_function("100000_records", |bencher| {
        bencher.iter_with_large_drop(|| {
            let store = Store::open(&options(Some(&directory)), Count::default()).unwrap();
            store.close().unwrap();
            store
        });
    });
    group.bench_function("empty", |bencher| {
        bencher.iter_batched(
            || TempDir::new().unwrap(),
            |directory| (Store::open(&options(Some(&directory)), Count::default()).unwrap(), directory),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Resident memory, now and at its peak, as Linux says it.
fn memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

criterion_group!(benches, starts, puts, lists, fan_out);
criterion_main!(benches);
