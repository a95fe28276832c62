//! What one choice costs: choose a free value, take it, release it.
//!
//! Names carry the size of the range and how full it is, so that runs can be compared.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use service_allocators::{
    AddressLedger, Family, NodePortRange, PortLedger, PortSharing, Protocols, RangeState, ServiceKey,
};

/// A ledger with one range, filled at random to `taken` addresses.
fn filled(cidr: &str, taken: u64, rng: &mut SmallRng) -> (AddressLedger, Family) {
    let mut ledger = AddressLedger::new();
    ledger.set_range("kubernetes", &[cidr.parse().unwrap()], RangeState::Ready).unwrap();
    let family = if cidr.contains(':') { Family::V6 } else { Family::V4 };
    for _ in 0..taken {
        let address = ledger.choose(family, rng).unwrap();
        ledger.insert(address);
    }
    (ledger, family)
}

fn addresses(c: &mut Criterion) {
    let mut group = c.benchmark_group("choose_release");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1)).sample_size(20);
    for bits in [20_u32, 16, 12] {
        let cidr = format!("10.96.0.0/{bits}");
        let usable = (1_u64 << (32 - bits)) - 2;
        for permille in [0, 100, 500, 900, 999] {
            let mut rng = SmallRng::seed_from_u64(1);
            let (mut ledger, family) = filled(&cidr, usable * permille / 1000, &mut rng);
            let percent = f64::from(u32::try_from(permille).unwrap()) / 10.0;
            group.bench_function(format!("{bits}/{percent}%"), |b| {
                b.iter(|| {
                    let address = ledger.choose(family, &mut rng).unwrap();
                    ledger.insert(address);
                    ledger.remove(black_box(address))
                });
            });
        }
    }
    for taken in [0_u64, 5_000, 50_000, 500_000] {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut ledger, family) = filled("fd00:10:96::/64", taken, &mut rng);
        group.bench_function(format!("v6-64/{taken}"), |b| {
            b.iter(|| {
                let address = ledger.choose(family, &mut rng).unwrap();
                ledger.insert(address);
                ledger.remove(black_box(address))
            });
        });
    }
    group.finish();
}

fn node_ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("choose_release_port");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1)).sample_size(20);
    let range = NodePortRange::default();
    for permille in [0_u64, 500, 999] {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut ledger = PortLedger::new(range, PortSharing::WithinService);
        let other = ServiceKey::new("default", "other");
        for _ in 0..u64::from(range.size()) * permille / 1000 {
            let port = ledger.choose(&[], &mut rng).unwrap();
            ledger.hold(port, &other, Protocols::TCP);
        }
        let owner = ServiceKey::new("default", "web");
        let percent = f64::from(u32::try_from(permille).unwrap()) / 10.0;
        group.bench_function(format!("2768/{percent}%"), |b| {
            b.iter(|| {
                let port = ledger.choose(&[], &mut rng).unwrap();
                ledger.hold(port, &owner, Protocols::TCP);
                ledger.release(black_box(port), &owner);
            });
        });
    }
    group.finish();
}

/// The same with no address staying the same: a range that lives at its fill.
fn churn(c: &mut Criterion) {
    let mut group = c.benchmark_group("churn");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1)).sample_size(20);
    for (name, cidr, taken) in
        [("12/50%", "10.96.0.0/12", 1 << 19), ("v6-64/50000", "fd00:10:96::/64", 50_000)]
    {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut ledger, family) = filled(cidr, 0, &mut rng);
        let mut held = Vec::new();
        for _ in 0..taken {
            let address = ledger.choose(family, &mut rng).unwrap();
            ledger.insert(address);
            held.push(address);
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                let at = rng.random_range(0..held.len());
                let address = ledger.choose(family, &mut rng).unwrap();
                ledger.insert(address);
                let old = std::mem::replace(&mut held[at], address);
                ledger.remove(old)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, addresses, node_ports, churn);
criterion_main!(benches);
