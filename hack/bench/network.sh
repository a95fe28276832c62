#!/usr/bin/env bash
# What `lab --network` with 3 nodes and 30 pods costs: how long until all pods are ready and every node has their rules, CPU and memory.
# In a network namespace of its own, so that it stands beside other labs; needs root, ip, nft and kubectl.
#
#   cargo build --release && hack/bench/network.sh [target/release/service-controller-manager]
set -euo pipefail
program=$(realpath "${1:-target/release/service-controller-manager}")
if [ -z "${INSIDE:-}" ]; then
    namespace=scm-bench-$$
    ip netns add "$namespace"
    trap 'ip netns del "$namespace"' EXIT
    ip -n "$namespace" link set lo up
    INSIDE=1 ip netns exec "$namespace" "$0" "$program"
    exit
fi
work=$(mktemp -d)
export KUBECONFIG=$work/kubeconfig
now() { date +%s%3N; }
begin=$(now)
"$program" lab --nodes 3 --network --secure-port 0 --kubeconfig-out "$KUBECONFIG" >"$work/log" 2>&1 &
lab=$!
trap 'kill "$lab" 2>/dev/null; wait "$lab" 2>/dev/null || true; rm -rf "$work"' EXIT
until [ -s "$KUBECONFIG" ] && kubectl get --raw /readyz >/dev/null 2>&1; do
    kill -0 "$lab" || { cat "$work/log"; exit 1; }
done
kubectl create deployment hello --image=x --replicas=30 --port=8080 >/dev/null
kubectl expose deployment hello --port=80 --target-port=8080 >/dev/null
kubectl rollout status deployment hello --timeout=60s >/dev/null
ready=$(now)
for node in 1 2 3; do
    until ip netns exec "scm-lab-$lab-k8s-node-$node" nft list table ip kube-proxy | grep -q "mod 30"; do :; done
done
echo "30 pods on 3 nodes: ready after $((ready - begin)) ms, in the rules of all nodes after $(($(now) - begin)) ms, with four runs of kubectl"
awk -v t="$(getconf CLK_TCK)" '{ sub(/^.*\) /, ""); printf "  %.2f s CPU", ($12 + $13) / t }' "/proc/$lab/stat"
awk '$1 == "VmRSS:" { printf ", %d MiB\n", $2 / 1024 }' "/proc/$lab/status"
