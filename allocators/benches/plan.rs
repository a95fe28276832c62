//! What a whole Service costs: plan, commit, plan its removal, commit.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Service;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use service_allocators::{
    ClusterFamilies, Family, Ledger, NodePortRange, PlanOptions, PortLedger, PortSharing, RangeState,
};

fn filled(permille: u64, rng: &mut SmallRng) -> Ledger {
    let ports = PortLedger::new(NodePortRange::default(), PortSharing::WithinService);
    let mut ledger = Ledger::new(ClusterFamilies::dual(Family::V4), ports);
    let cidrs = ["10.96.0.0/16".parse().unwrap(), "fd00:10:96::/64".parse().unwrap()];
    ledger.addresses.set_range("kubernetes", &cidrs, RangeState::Ready).unwrap();
    for _ in 0..65_534 * permille / 1000 {
        for family in [Family::V4, Family::V6] {
            let address = ledger.addresses.choose(family, rng).unwrap();
            ledger.addresses.insert(address);
        }
    }
    ledger
}

fn service(spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
        .unwrap()
}

fn create_delete(c: &mut Criterion) {
    let mut group = c.benchmark_group("create_delete");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1)).sample_size(20);
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let kinds = [
        ("ClusterIP", json!({"type": "ClusterIP", "ports": ports})),
        ("NodePort-2-ports", json!({"type": "NodePort", "ports": ports})),
        (
            "LoadBalancer-dual-Local",
            json!({
                "type": "LoadBalancer", "externalTrafficPolicy": "Local",
                "ipFamilyPolicy": "RequireDualStack", "ports": ports,
            }),
        ),
    ];
    for permille in [0, 900] {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut ledger = filled(permille, &mut rng);
        for (name, spec) in &kinds {
            let wanted = service(spec);
            group.bench_function(format!("{name}/16/{}%", permille / 10), |b| {
                b.iter_batched_ref(
                    || wanted.clone(),
                    |service| {
                        let plan = ledger.plan_create(service, &mut rng, PlanOptions::default()).unwrap();
                        ledger.commit(&plan);
                        let plan = ledger.plan_delete(service);
                        ledger.commit(&plan);
                    },
                    criterion::BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, create_delete);
criterion_main!(benches);
