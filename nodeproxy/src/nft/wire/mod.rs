//! The table as the kernel's nf_tables takes and tells it, over netlink.
//!
//! Owns the translation between the model and the kernel's instructions, and the socket. The message format itself is
//! `netlink-bindings`' (generated from the kernel's specifications). It decides nothing about what the rules are.

mod batch;
mod decode;
mod digest;
mod elements;
mod encode;
mod expr;
mod socket;

pub use decode::Snapshot;
pub use socket::SocketError;

pub(crate) use batch::{Kind, OwnNames, message, of_family};
pub(crate) use decode::{KernelChain, KernelRule};
pub(crate) use elements::{Raw, key_of, raw_element};
pub(crate) use encode::{container_key_type, encode};
pub(crate) use expr::family_number;
pub(crate) use expr::lower;
pub(crate) use socket::Socket;
