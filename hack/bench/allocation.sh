#!/usr/bin/env bash
# Measures the controllers of addresses and node ports as whole processes, in a lab and beside one, and prints tables.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release --quiet -p service-controller-manager --bin service-controller-manager
cargo build --release --quiet -p service-tests --example bench_allocation
target=${CARGO_TARGET_DIR:-target}
exec "$target/release/examples/bench_allocation" "$target/release/service-controller-manager"
