//! Why there is no network.

use std::{io, net::IpAddr, path::PathBuf};

use ipnet::IpNet;

/// Why the lab's network cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Not root.
    #[error(
        "--network makes network namespaces, which only root may (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo"
    )]
    NotRoot,
    /// Too many nodes.
    #[error("--network has room for {most} nodes, not for {asked}")]
    TooManyNodes {
        /// How many are asked for.
        asked: usize,
        /// How many there can be.
        most: usize,
    },
    /// No nodes.
    #[error("--network needs nodes: give --nodes or --demo")]
    NoNodes,
    /// Addresses that the machine uses already.
    #[error("--network needs {wanted}, and the machine reaches {there} already: {hint}")]
    Taken {
        /// What the lab needs.
        wanted: IpNet,
        /// What is there.
        there: IpNet,
        /// What to do.
        hint: &'static str,
    },
    /// A namespace cannot be made, entered or removed.
    #[error("network namespace {name}: {source}")]
    Namespace {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel refuses a link, an address or a route.
    #[error("{what}: {source}")]
    Link {
        /// What was to be made.
        what: String,
        /// Why not.
        source: Box<rtnetlink::Error>,
    },
    /// A setting of the kernel cannot be written.
    #[error("{path}: {source}")]
    Setting {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The mark of a running lab cannot be made.
    #[error("{path}: {source}")]
    Mark {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// An address of a family that does not fit.
    #[error("{0} has no way in this network")]
    Family(IpAddr),
}
