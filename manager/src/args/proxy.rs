//! `proxy`: a node's packet rules. Flags carry kube-proxy's names.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use ipnet::IpNet;

use super::{GoDuration, LoggingArgs};

/// Flags of `proxy`. What is not given comes from the file of `--config`, then from the defaults.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ProxyArgs {
    /// kube-proxy's configuration file (KubeProxyConfiguration); flags win over it.
    #[arg(long, env = "SCM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How to reach the API server; without it the environment of a pod in the cluster.
    #[arg(long, env = "SCM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The Node that this is; without it the machine's name.
    #[arg(long, env = "SCM_HOSTNAME_OVERRIDE", value_name = "NODE")]
    pub hostname_override: Option<String>,
    /// The rules.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Ports and times.
    #[command(flatten)]
    pub running: RunningArgs,
    /// Something else than to run.
    #[command(flatten)]
    pub instead: InsteadArgs,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// What the rules depend on.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Rules")]
pub struct RuleArgs {
    /// The cluster's pod networks; traffic from elsewhere to a cluster IP is masqueraded.
    #[arg(long, env = "SCM_CLUSTER_CIDR", value_name = "CIDRS", value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,
    /// How traffic of this node's pods is known.
    #[arg(long, env = "SCM_DETECT_LOCAL_MODE", value_name = "MODE")]
    pub detect_local_mode: Option<DetectLocalMode>,
    /// The bridge that pods are on, for BridgeInterface.
    #[arg(long, env = "SCM_POD_BRIDGE_INTERFACE", value_name = "NAME")]
    pub pod_bridge_interface: Option<String>,
    /// How the names of pods' interfaces begin, for InterfaceNamePrefix.
    #[arg(long, env = "SCM_POD_INTERFACE_NAME_PREFIX", value_name = "PREFIX")]
    pub pod_interface_name_prefix: Option<String>,
    /// Which addresses take node port traffic: `primary`, or networks.
    #[arg(long, env = "SCM_NODEPORT_ADDRESSES", value_name = "CIDRS", value_delimiter = ',')]
    pub nodeport_addresses: Vec<String>,
    /// Masquerade all traffic to cluster IPs.
    #[arg(long, env = "SCM_MASQUERADE_ALL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub masquerade_all: Option<bool>,
    /// Which bit marks packets that are to be masqueraded.
    #[arg(long, env = "SCM_MASQUERADE_BIT", value_name = "BIT", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub masquerade_bit: Option<u8>,
    /// Serve only Services whose label service.kubernetes.io/service-proxy-name has this value.
    #[arg(long, env = "SCM_SERVICE_PROXY_NAME", value_name = "NAME")]
    pub service_proxy_name: Option<String>,
}

/// Ports and times.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Running")]
pub struct RunningArgs {
    /// Where /healthz and /livez answer; 0.0.0.0:10256 if nothing is said.
    #[arg(long, env = "SCM_HEALTHZ_BIND_ADDRESS", value_name = "ADDRESS")]
    pub healthz_bind_address: Option<SocketAddr>,
    /// Where /metrics answers; 127.0.0.1:10249 if nothing is said.
    #[arg(long, env = "SCM_METRICS_BIND_ADDRESS", value_name = "ADDRESS")]
    pub metrics_bind_address: Option<SocketAddr>,
    /// End if one of these ports is taken.
    #[arg(long, env = "SCM_BIND_ADDRESS_HARD_FAIL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub bind_address_hard_fail: Option<bool>,
    /// How often it is looked whether somebody changed the rules, and what failed is tried again; 30s if nothing is said.
    #[arg(long, env = "SCM_SYNC_PERIOD", value_name = "DURATION")]
    pub sync_period: Option<GoDuration>,
    /// The least time between two syncs; none if nothing is said.
    #[arg(long, env = "SCM_MIN_SYNC_PERIOD", value_name = "DURATION")]
    pub min_sync_period: Option<GoDuration>,
}

/// Something else than to run.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Instead of running")]
pub struct InsteadArgs {
    /// Remove the rules and end.
    #[arg(long, env = "SCM_CLEANUP", conflicts_with = "dry_run")]
    pub cleanup: bool,
    /// Print the rules of the node and end; needs no root.
    #[arg(long, env = "SCM_DRY_RUN")]
    pub dry_run: bool,
    /// The form of what --dry-run prints.
    #[arg(long, short, env = "SCM_OUTPUT", value_name = "FORM", default_value = "nft", requires = "dry_run")]
    pub output: RuleFormat,
    /// Take objects from a file (a List, or documents, as `kubectl get -o yaml` prints them) and not from a cluster.
    #[arg(long, env = "SCM_DUMP", value_name = "FILE", requires = "dry_run")]
    pub dump: Option<PathBuf>,
}

/// How traffic of this node's pods is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DetectLocalMode {
    /// By the cluster's pod networks.
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    /// By the Node's pod network.
    #[value(name = "NodeCIDR")]
    NodeCidr,
    /// By the bridge that it comes from.
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    /// By the names of the interfaces that it comes from.
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

/// The form of printed rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RuleFormat {
    /// What `nft -f` takes.
    Nft,
    /// What `iptables-restore` takes, in the layout of kube-proxy's iptables mode.
    Iptables,
    /// What `nft -j -f` takes.
    Json,
}
