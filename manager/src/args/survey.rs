//! `ranges`: what the address and port ranges of a cluster look like.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use service_allocators::NodePortRange;

use super::{LoggingArgs, PlaceArgs};

/// Flags of `ranges`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RangesArgs {
    /// The API server.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only what Services of this namespace hold is listed; how full ranges are counts all.
    #[arg(short, long, env = "SCM_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Objects in files instead of those of a server, as `kubectl get services,servicecidrs,ipaddresses,nodes -A -o yaml`
    /// writes them, YAML or JSON; `-` is the standard input.
    #[arg(long, env = "SCM_DUMP", value_name = "FILE[,FILE]", value_delimiter = ',')]
    pub dump: Vec<PathBuf>,
    /// What if this were the range of cluster IPs: who would have to be created anew, and what clashes.
    #[arg(long, env = "SCM_IF_CIDR", value_name = "CIDR[,CIDR]", value_delimiter = ',')]
    pub if_cidr: Vec<IpNet>,
    /// What if this were the range of node ports.
    #[arg(long, env = "SCM_IF_NODE_PORT_RANGE", value_name = "FIRST-LAST")]
    pub if_node_port_range: Option<NodePortRange>,
    /// Range of node ports of a cluster that has no NodePortRange objects.
    #[arg(
        long,
        env = "SCM_SERVICE_NODE_PORT_RANGE",
        value_name = "FIRST-LAST",
        default_value = "30000-32767"
    )]
    pub service_node_port_range: NodePortRange,
    /// Ports that nodes give to their own connections.
    #[arg(long, env = "SCM_EPHEMERAL_PORTS", value_name = "FIRST-LAST", default_value = "32768-60999")]
    pub ephemeral_ports: NodePortRange,
    /// Text or JSON.
    #[arg(long, short, env = "SCM_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// How many of a long list are shown.
    #[arg(long, env = "SCM_SHOW", value_name = "N", default_value = "5")]
    pub show: NonZeroUsize,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}
