#!/usr/bin/env bash
# Installs what the tests with real packets need (ip, nft, conntrack, iptables, curl, xxd) where it can: as root, with apt-get.
# Without them those tests say that they are skipped.
set -euo pipefail
missing=()
for pair in ip:iproute2 nft:nftables conntrack:conntrack iptables-restore:iptables curl:curl xxd:xxd; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "packet tests will be skipped: ${missing[*]} cannot be installed here"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 ||
    echo "packet tests will be skipped: ${missing[*]} could not be installed"
