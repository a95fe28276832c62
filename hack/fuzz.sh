#!/usr/bin/env bash
# Runs the fuzz targets for longer than the tests do, one after the other: hack/fuzz.sh [MINUTES EACH (5)] [TARGET]
# Fails with the seed of each input that panics, takes more memory than its share, or takes more than two seconds of a
# processor. FUZZ_SEED=N repeats one input of TARGET,
# and writes it to the file that FUZZ_INPUT names.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_MINUTES="${1:-5}"
if [ -n "${2:-}" ]; then export FUZZ_TARGET="$2"; fi
exec cargo test --release -p service-lab-apiserver --test fuzz -- --nocapture
