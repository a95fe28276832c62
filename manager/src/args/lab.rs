//! `lab`: the embedded API server. Flags carry kube-apiserver's names where it has them.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use service_allocators::{NodePortRange, PortSharing};

use super::{ControllersArg, GoDuration, LoggingArgs, ServiceRanges, SyncArgs};

/// The fewest characters of a token: one that can be guessed is none.
const SHORTEST_TOKEN: usize = 4;

/// Flags of `lab`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct LabArgs {
    /// Range of cluster IPs, or two for a dual stack, the primary one first; 10.96.0.0/12 if none is given.
    #[arg(long, env = "SCM_SERVICE_CLUSTER_IP_RANGE", value_name = "CIDR[,CIDR]")]
    pub service_cluster_ip_range: Option<ServiceRanges>,
    /// Range of node ports.
    #[arg(
        long,
        env = "SCM_SERVICE_NODE_PORT_RANGE",
        value_name = "FIRST-LAST",
        default_value = "30000-32767"
    )]
    pub service_node_port_range: NodePortRange,
    /// Who may share a node port: `service`, the protocols of one Service, as upstream; `protocol`, also several Services,
    /// each for protocols of its own.
    #[arg(long, env = "SCM_NODE_PORT_SHARING", value_name = "WHO", default_value = "service")]
    pub node_port_sharing: NodePortSharing,
    /// Who gives Services their addresses and ports: `transaction`, the server while it stores the Service, as upstream;
    /// `reconcile`, service-allocation-controller after it, here or beside the server.
    #[arg(long, env = "SCM_ALLOCATION", value_name = "HOW", default_value = "transaction")]
    pub allocation: AllocationMode,
    /// HTTPS port; 0 takes any free one.
    #[arg(long, env = "SCM_SECURE_PORT", value_name = "PORT", default_value_t = 6443)]
    pub secure_port: u16,
    /// Address to listen on. The default cannot be reached from other machines.
    #[arg(long, env = "SCM_BIND_ADDRESS", value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,
    /// Bearer token that gives access; one is generated if none is given.
    #[arg(
        long,
        env = "SCM_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<String>,
    /// File with the bearer token.
    #[arg(long, env = "SCM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where objects are kept; without it they are gone when the server ends.
    #[arg(long, env = "SCM_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where the kubeconfig for kubectl is written; without it in the data directory or a temporary one.
    #[arg(long, env = "SCM_KUBECONFIG_OUT", value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,
    /// How long an Event is kept after it was last written; 0 keeps all.
    #[arg(long, env = "SCM_EVENT_TTL", value_name = "DURATION", default_value = "1h0m0s")]
    pub event_ttl: GoDuration,
    /// Which controllers run in the server.
    #[command(flatten)]
    pub controllers: ControllersArg,
    /// Show Services of every type and the endpoints behind them, in the namespace `demo`; logs problems only, more
    /// with --v 1.
    #[arg(long, env = "SCM_DEMO")]
    pub demo: bool,
    /// Simulated nodes, which run pods that are bound to them.
    #[arg(long, env = "SCM_NODES", value_name = "N", default_value_t = 0)]
    pub nodes: u16,
    /// Zones of the simulated nodes, in turn; goes with --nodes or --demo.
    #[arg(long, env = "SCM_ZONES", value_name = "NAME[,NAME]", value_delimiter = ',')]
    pub zones: Vec<String>,
    /// Give nodes and pods real network namespaces, with a proxy on each node, so that Services carry traffic; needs Linux and
    /// root, and nodes (--nodes or --demo).
    #[arg(long, env = "SCM_NETWORK")]
    pub network: bool,
    /// Give the nodes their rules by this program and its arguments, in the place of our proxy: an unmodified kube-proxy; it is started in
    /// each node's namespace with --config and a file.
    #[arg(long, env = "SCM_PROXY_COMMAND", value_name = "COMMAND", requires = "network")]
    pub proxy_command: Option<String>,
    /// How the controllers work.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// Who may share a node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodePortSharing {
    /// The protocols of one Service.
    Service,
    /// Several Services, each for protocols of its own.
    Protocol,
}

/// Who gives Services their addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AllocationMode {
    /// The server while it stores the Service.
    Transaction,
    /// A controller after it.
    Reconcile,
}

impl From<NodePortSharing> for PortSharing {
    fn from(sharing: NodePortSharing) -> Self {
        match sharing {
            NodePortSharing::Service => Self::WithinService,
            NodePortSharing::Protocol => Self::PerProtocol,
        }
    }
}

/// Settings that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Unreadable token file.
    #[error("--token-file {file}: {source}")]
    TokenFile {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No proper token.
    #[error("the token must be {SHORTEST_TOKEN} or more printable characters without blanks")]
    Token,
    /// A network, and nothing to be in it.
    #[error("--network needs simulated nodes: give --nodes or --demo")]
    NetworkWithoutNodes,
    /// Zones, and nothing to be in them.
    #[error("--zones needs simulated nodes: give --nodes or --demo")]
    ZonesWithoutNodes,
}

/// What follows from the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabSettings {
    /// The token, if one was given.
    pub token: Option<String>,
}

impl LabArgs {
    /// Checks what one flag alone cannot show, and reads the token.
    pub fn settings(&self) -> Result<LabSettings, LabError> {
        if !self.zones.is_empty() && self.nodes == 0 && !self.demo {
            return Err(LabError::ZonesWithoutNodes);
        }
        if self.network && self.nodes == 0 && !self.demo {
            return Err(LabError::NetworkWithoutNodes);
        }
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => {
                let read = std::fs::read_to_string(file);
                let text = read.map_err(|source| LabError::TokenFile { file: file.clone(), source })?;
                Some(text.trim().to_owned())
            }
            (None, None) => None,
        };
        if token
            .as_ref()
            .is_some_and(|token| token.len() < SHORTEST_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()))
        {
            return Err(LabError::Token);
        }
        Ok(LabSettings { token })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rstest::rstest;

    use crate::args::{Cli, Command};

    #[rstest]
    #[case(&["--zones", "a,b"], false)]
    #[case(&["--zones", "a,b", "--nodes", "0"], false)]
    #[case(&["--zones", "a,b", "--nodes", "1"], true)]
    #[case(&["--zones", "a,b", "--demo"], true)]
    #[case(&["--network"], false)]
    #[case(&["--network", "--nodes", "2"], true)]
    #[case(&[], true)]
    fn zones_and_networks_go_with_nodes(#[case] flags: &[&str], #[case] taken: bool) {
        let line = ["service-controller-manager", "lab"].iter().chain(flags);
        let Command::Lab(args) = Cli::parse_from(line).command else { panic!("this is `lab`") };
        let settings = args.settings();
        assert_eq!(settings.is_ok(), taken, "{settings:?}");
    }
}
