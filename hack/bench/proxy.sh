#!/usr/bin/env bash
# What the node's proxy costs: CPU and memory of the whole process at the start with many Services, CPU of a readiness flip at 50 a
# second, and how long a slice event takes to become a rule. In a network namespace of its own; needs root, ip and python3.
#
#   cargo build --release && hack/bench/proxy.sh [target/release/service-controller-manager]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-target/release/service-controller-manager}
flips=${FLIPS:-1000} rate=${RATE:-50}
namespace=scm-bench-$$
work=$(mktemp -d)
ip netns add "$namespace"
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$namespace" || true
    rm -rf "$work"
}
trap cleanup EXIT
inside() { ip netns exec "$namespace" "$@"; }
inside ip link set lo up
ticks=$(getconf CLK_TCK)
# CPU of a process in milliseconds: user and system.
cpu() { awk -v t="$ticks" '{ sub(/^.*\) /, ""); print int(($12 + $13) * 1000 / t) }' "/proc/$1/stat"; }
kib() { awk -v key="$2:" '$1 == key { print $2 }' "/proc/$1/status"; }
cat >"$work/kubeconfig" <<CONFIG
{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}],
 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}
CONFIG
metric() { inside python3 -c '
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:10249/metrics").read().decode())'; }

for services in ${SERVICES:-1000 10000}; do
    # Not by a function: what is in the background must be the program itself.
    ip netns exec "$namespace" python3 hack/bench/proxy-api.py 8001 "$services" 10 &
    api=$!
    pids+=("$api")
    until inside python3 -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:8001/version")' 2>/dev/null; do :; done
    # What the last one said must not be taken for this one's.
    : >"$work/log"
    ip netns exec "$namespace" "$program" proxy --hostname-override node-0 --kubeconfig "$work/kubeconfig" --cluster-cidr 172.16.0.0/12 \
        >"$work/log" 2>&1 &
    proxy=$!
    pids+=("$proxy")
    until grep -q "the rules are in the kernel" "$work/log"; do
        kill -0 "$proxy" || { cat "$work/log"; exit 1; }
        sleep 0.1
    done
    echo "$services Services x 10: start $(cpu "$proxy") ms CPU, $(($(kib "$proxy" VmRSS) / 1024)) MiB (peak $(($(kib "$proxy" VmHWM) / 1024))," \
        "$(($(kib "$proxy" RssAnon) / 1024)) without the pages of the program's file)"
    before=$(cpu "$proxy")
    inside python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8001/flip?count=$flips&rate=$rate', b'').read()"
    sleep 1
    after=$(cpu "$proxy")
    awk -v ms=$((after - before)) -v n="$flips" 'BEGIN { printf "  %d flips: %.3f ms CPU each\n", n, ms / n }'
    metric | python3 -c '
import re, sys
buckets = [(float(le), int(n)) for le, n in re.findall(r"programming_duration_seconds_bucket\{le=\"([0-9.e+-]+)\"\} (\d+)", sys.stdin.read())]
total = max((n for _, n in buckets), default=0)
p99 = next((le for le, n in buckets if n >= 0.99 * total), None)
print(f"  slice event to rule: p99 within {p99 * 1000:.0f} ms of {total}" if total else "  no flip was seen")'
    kill "$proxy" "$api"
    wait "$proxy" "$api" 2>/dev/null || true
    inside "$program" proxy --cleanup --hostname-override node-0
done
