//! The rules in a real kernel: in network namespaces that the tests make themselves, with the `nft` tool as a second opinion.
//!
//! Needs root, `ip` and `nft`; without them each test says that it is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod namespace;
mod network;
mod packets;
mod rules;
mod scene;
mod takeover;
