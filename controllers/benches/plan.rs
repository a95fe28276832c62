//! What a change of one pod costs, planning only: from the decoded event to the planned write.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use service_controllers::api::{Reply, ReplyMeta};
use service_controllers::objects::{
    ConditionWire, IpWire, MetaWire, NodeWire, Pairs, PodMetaWire, PodSpecWire, PodStatusWire, PodWire,
    ServicePortWire, ServiceSpecWire, ServiceWire,
};
use service_controllers::reconcile::slices::SliceState;
use service_controllers::reconcile::step::{SliceJob, SliceStep, Step};
use service_controllers::requests::slices::SliceWrite;
use service_controllers::text::Text;
#[path = "../tests/common/mod.rs"]
mod common;
use common::{Cluster, Limits};

fn pod(i: usize, ready: bool) -> PodWire {
    let ip = format!("10.{}.{}.{}", i >> 16 & 255, i >> 8 & 255, i & 255);
    PodWire {
        metadata: PodMetaWire {
            name: format!("web-7f8d9c-{i:05}"),
            namespace: "default".into(),
            uid: format!("{i:08x}-0000-4000-8000-000000000001"),
            labels: Pairs(vec![("app".into(), "web".into())]),
            ..PodMetaWire::default()
        },
        spec: PodSpecWire { node_name: format!("n{}", i % 50), ..PodSpecWire::default() },
        status: PodStatusWire {
            phase: "Running".into(),
            pod_ip: ip.clone(),
            pod_ips: vec![IpWire { ip }],
            conditions: vec![ConditionWire {
                r#type: "Ready".into(),
                status: if ready { "True" } else { "False" }.into(),
                last_transition_time: Some("2031-01-01T00:00:00Z".into()),
            }],
        },
    }
}

fn service() -> ServiceWire {
    ServiceWire {
        metadata: MetaWire {
            name: "web".into(),
            namespace: "default".into(),
            uid: "service".into(),
            ..MetaWire::default()
        },
        spec: ServiceSpecWire {
            cluster_ip: "10.96.0.7".into(),
            ip_families: vec!["IPv4".into()],
            selector: Some(Pairs(vec![("app".into(), "web".into())])),
            ports: vec![ServicePortWire { port: 80, ..ServicePortWire::default() }],
            ..ServiceSpecWire::default()
        },
    }
}

fn keys() -> (Text, Text) {
    ("default".into(), "web".into())
}

/// Answers every write, as a server would.
fn accept(cluster: &Cluster, job: SliceJob, version: &mut u64) {
    let answers = job
        .writes
        .iter()
        .map(|change| {
            *version += 1;
            let name = match change {
                SliceWrite::Update { new, .. } => new.name.to_string(),
                _ => format!("web-{version}"),
            };
            let metadata =
                ReplyMeta { uid: name.clone(), name, resource_version: version.to_string(), generation: 1 };
            Ok(Reply { metadata })
        })
        .collect();
    cluster.slices.lock().finish(&mut cluster.index.lock(), job, answers);
}

fn step(cluster: &Cluster, namespace: &Text, name: &Text) -> SliceStep {
    let mut out = service_controllers::reconcile::outbox::Outbox::default();
    cluster.slices.lock().step(&cluster.index.lock(), namespace, name, tokio::time::Instant::now(), &mut out)
}

fn filled(pods: usize, version: &mut u64) -> Cluster {
    let cluster = Cluster::new(&Limits::default());
    cluster.start();
    for i in 0..50 {
        let mut node = NodeWire::default();
        node.metadata.name = format!("n{i}");
        cluster.feed.node(&node);
    }
    cluster.feed.service(&service());
    for i in 0..pods {
        cluster.feed.pod(&pod(i, true));
    }
    let (namespace, name) = keys();
    if let Step::Send(job) = step(&cluster, &namespace, &name) {
        accept(&cluster, job, version);
    }
    cluster.take_asks();
    cluster
}

fn readiness(criterion: &mut Criterion) {
    for pods in [10, 100, 5000] {
        let mut version = 1;
        let cluster = filled(pods, &mut version);
        let (namespace, name) = keys();
        let mut ready = false;
        criterion.bench_function(&format!("plan/readiness_of_one_pod_in_{pods}"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = std::time::Duration::ZERO;
                for i in 0..iterations {
                    let changed = pod(usize::try_from(i).unwrap() % pods, ready);
                    let start = std::time::Instant::now();
                    cluster.feed.pod(&changed);
                    let step = black_box(step(&cluster, &namespace, &name));
                    spent += start.elapsed();
                    if let Step::Send(job) = step {
                        accept(&cluster, job, &mut version);
                    }
                    cluster.take_asks();
                    if usize::try_from(i).unwrap() % pods == pods - 1 {
                        ready = !ready;
                    }
                }
                ready = !ready;
                spent
            });
        });
    }
}

fn whole(criterion: &mut Criterion) {
    criterion.bench_function("plan/service_of_5000_from_nothing", |bencher| {
        bencher.iter(|| black_box(filled(5000, &mut 1)));
    });
}

criterion_group!(benches, readiness, whole);
criterion_main!(benches);
