//! The controllers against a server in memory that can refuse, time out, lose answers and cut
//! watches: what must hold whatever happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod details;
mod edits;
mod faults;
mod gathering;
mod histories;
mod indexes;
mod left_out;
mod mirrors;
mod objects;
mod packing;
mod ranges;
mod readings;
mod reports;
mod server;
mod spellings;
mod triggers;
mod wakes;
