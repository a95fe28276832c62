//! Prints what a range costs in memory, as the sets count it themselves.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use service_allocators::{AddressLedger, Family, RangeState};

fn main() {
    println!("{:<24} {:>10} {:>12}", "range", "taken", "heap bytes");
    for (cidr, taken) in [
        ("10.96.0.0/12", 0),
        ("10.96.0.0/12", 50_000),
        ("10.96.0.0/12", 500_000),
        ("10.96.0.0/12", 1_000_000),
        ("10.96.0.0/12", (1 << 20) - 2),
        ("10.0.0.0/8", 50_000),
        ("fd00:10:96::/112", 50_000),
        ("fd00:10:96::/64", 50_000),
    ] {
        let Ok(net) = cidr.parse() else { continue };
        let mut ledger = AddressLedger::new();
        if let Err(error) = ledger.set_range("kubernetes", &[net], RangeState::Ready) {
            println!("{cidr}: {error}");
            continue;
        }
        let family = if net.addr().is_ipv6() { Family::V6 } else { Family::V4 };
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..taken {
            if let Ok(address) = ledger.choose(family, &mut rng) {
                ledger.insert(address);
            }
        }
        println!("{cidr:<24} {taken:>10} {:>12}", ledger.heap_bytes());
    }
}
