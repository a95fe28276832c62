//! The rules in a real kernel: in network namespaces that the tests make themselves, with the `nft` tool as a second opinion.
//!
//! Needs root, `ip` and `nft`; without them each test says that it is skipped. With `KUBE_PROXY_BINARY` the packets also go over the rules of
//! the kube-proxy that it names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod kube_proxy;
mod namespace;
mod network;
mod packets;
mod rules;
mod scene;
mod takeover;
