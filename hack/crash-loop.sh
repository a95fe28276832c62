#!/usr/bin/env bash
# Kills the embedded API server under write load and compares what it answered with what is there:
# hack/crash-loop.sh [ROUNDS (200)] [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet -p service-controller-manager -p service-tests --bins --examples
exec target/debug/examples/crash_loop target/debug/service-controller-manager "$@"
