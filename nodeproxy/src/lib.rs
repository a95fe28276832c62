//! The node-side proxy: from Services and EndpointSlices to the packet rules of one node.
//!
//! Owns the table `kube-proxy` of the kernel's nftables (families `ip` and `ip6`), the stale UDP entries of connection tracking,
//! and the health check ports of Services. It never touches another table, never writes a Service or a slice, and knows nothing
//! of how slices are made.
//!
//! ```text
//! watches -> track (small structs) -> plan (pure: one Service to its chains and elements)
//!         -> nft::diff (pure: what changes) -> sync (transactions, retries) -> nft::netlink
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("the node-side proxy programs the nftables of Linux and cannot be built for another system");

pub mod addresses;
pub mod agent;
pub mod config;
pub mod config_file;
pub mod conntrack;
pub mod dump;
pub mod endpoint;
pub mod health;
pub mod iptables;
pub mod metrics;
pub mod names;
pub mod nft;
pub mod objects;
pub mod plan;
pub mod sync;
pub mod track;
