//! What a write costs from the request's bytes to the answer, without a network: CPU time of the process.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use service_lab_apiserver::server::{LabConfig, Portless};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

struct Bench {
    runtime: Runtime,
    router: Router,
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let router = Portless::open(&LabConfig::local()).unwrap().trusting();
        Self { runtime, router }
    }

    fn send(&self, method: Method, path: &str, body: &Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        self.runtime.block_on(async {
            let answer = self.router.clone().oneshot(request).await.unwrap();
            assert!(answer.status().is_success(), "{}", answer.status());
            answer.into_body().collect().await.unwrap();
        });
    }
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": [
            {"name": "http", "port": 80, "targetPort": 8080}, {"name": "https", "port": 443, "targetPort": 8443},
        ]},
    })
}

fn slice(endpoints: u32, turn: u64) -> Value {
    let endpoint = |n: u32| {
        json!({
            "addresses": [format!("10.244.{}.{}", n / 250, n % 250 + 1)],
            "conditions": {"ready": !(u64::from(n) + turn).is_multiple_of(10), "serving": true, "terminating": false},
            "nodeName": format!("node-{}", n % 20), "zone": "a",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("web-{n}"), "uid": format!("uid-{n}")},
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    })
}

fn writes(c: &mut Criterion) {
    let bench = Bench::new();
    let mut group = c.benchmark_group("writes");
    group.sample_size(20);
    group.bench_function("service_create_delete", |b| {
        let path = format!("{SERVICES}/web");
        b.iter_custom(|rounds| {
            let start = cpu();
            for _ in 0..rounds {
                bench.send(Method::POST, SERVICES, &service());
                bench.send(Method::DELETE, &path, &Value::Object(serde_json::Map::default()));
            }
            cpu().saturating_sub(start)
        });
    });
    for endpoints in [10, 100, 1000] {
        let path = format!("{SLICES}/web-1");
        bench.send(Method::POST, SLICES, &slice(endpoints, 0));
        let turns: Vec<Value> = (0..10).map(|turn| slice(endpoints, turn)).collect();
        group.bench_function(format!("slice_update_{endpoints}_endpoints"), |b| {
            b.iter_custom(|rounds| {
                let start = cpu();
                for (_, turn) in (0..rounds).zip(turns.iter().cycle()) {
                    bench.send(Method::PUT, &path, turn);
                }
                cpu().saturating_sub(start)
            });
        });
        bench.send(Method::DELETE, &path, &Value::Object(serde_json::Map::default()));
    }
    group.finish();
}

criterion_group!(benches, writes);
criterion_main!(benches);
