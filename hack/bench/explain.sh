#!/usr/bin/env bash
# Measures `explain` as a whole process: hack/bench/explain.sh [BINARY]. Of a Service with 5,000 pods on a lab, and of a dump of
# 100,000 pods as kubectl writes it, JSON and YAML, with 100 Services; prints seconds, peak memory, and what was asked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:-}
if [ -z "$binary" ]; then
  cargo build --profile dist --quiet -p service-controller-manager --bin service-controller-manager
  binary=target/dist/service-controller-manager
fi
exec python3 hack/bench/explain.py "$binary"
