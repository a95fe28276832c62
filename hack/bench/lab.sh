#!/usr/bin/env bash
# Measures the embedded API server as a whole process and prints tables: hack/bench/lab.sh [fill] [rate] [start] [watch]
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --profile dist --quiet -p service-controller-manager --bin service-controller-manager
cargo build --profile dist --quiet -p service-tests --example bench_lab
exec target/dist/examples/bench_lab target/dist/service-controller-manager "$@"
