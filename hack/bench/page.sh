#!/usr/bin/env bash
# Measures the page of `run --page` with many Services and prints a table: hack/bench/page.sh [SERVICES]   (default: 10000)
set -euo pipefail
cd "$(dirname "$0")/../.."
profile="${PROFILE:-dist}"
directory="$([[ $profile == dev ]] && echo debug || echo "$profile")"
cargo build --profile "$profile" --quiet -p service-controller-manager --bin service-controller-manager
cargo build --profile "$profile" --quiet -p service-tests --example bench_page
exec "target/$directory/examples/bench_page" "target/$directory/service-controller-manager" "$@"
