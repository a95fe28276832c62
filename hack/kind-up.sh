#!/usr/bin/env bash
# A kind cluster with this program in it: hack/kind-up.sh [endpoints|ledger|webhook|shadow|all]
#   endpoints  in place of upstream's endpoint controllers (manifests/)
#   ledger     NodePorts, ranges, pools and audits beside kube-apiserver (manifests/ledger)
#   webhook    ServicePools in front of kube-apiserver (manifests/webhook)
#   shadow     all controllers beside upstream's, which write nothing (manifests/shadow)
# It needs docker, kind and kubectl. docs/kind.md goes through what to try; `kind delete cluster --name service-controllers` ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
case $what in endpoints | ledger | webhook | shadow | all) ;; *) sed -n '2,7p' "$0" >&2; exit 2 ;; esac
name=service-controllers
image=service-controller-manager:0.1.0

docker build -t "$image" .
if ! kind get clusters | grep -qx "$name"; then
    # Upstream's endpoint controllers are switched off only where ours take their place.
    case $what in
        endpoints | all) kind create cluster --config manifests/kind.yaml ;;
        *) kind create cluster --name "$name" ;;
    esac
fi
kind load docker-image "$image" --name "$name"
export KUBECTL="kubectl --context kind-$name"
apply() {
    $KUBECTL apply -k "$1"
    $KUBECTL -n kube-system rollout status "$2" --timeout 120s
}
case $what in endpoints | all) apply manifests deployment/service-controller-manager ;; esac
case $what in ledger | all) apply manifests/ledger deployment/service-ledger ;; esac
case $what in webhook | all) apply manifests/webhook statefulset/service-webhook ;; esac
case $what in shadow) apply manifests/shadow deployment/service-shadow ;; esac
$KUBECTL get nodes
