#!/usr/bin/env bash
# Measures the admission webhook as a whole process, in front of a lab, and prints a table.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release --quiet -p service-controller-manager --bin service-controller-manager
cargo build --release --quiet -p service-tests --example bench_webhook
target=${CARGO_TARGET_DIR:-target}
exec "$target/release/examples/bench_webhook" "$target/release/service-controller-manager"
