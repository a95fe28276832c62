#!/usr/bin/env bash
# Measures the controllers as a process beside an API server: hack/bench/controllers.sh [--controllers=NAMES] [medium] [medium1ns] [large] [huge] [limit]
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --profile dist --quiet -p service-controller-manager --bin service-controller-manager
cargo build --profile dist --quiet -p service-tests --example bench_controllers --example bench_wire
exec target/dist/examples/bench_controllers target/dist/service-controller-manager "$@"
