//! `run`: the controllers against any API server. Flags carry kube-controller-manager's names.

use std::{net::IpAddr, num::NonZeroU16, path::PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use service_allocators::NodePortRange;

use super::{ControllersArg, GoDuration, LoggingArgs, OpenPath, PlaceArgs};

/// Flags of `run`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// How to reach the API server; without it the environment of a pod in the cluster.
    #[arg(long, env = "SCM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Which controllers run.
    #[command(flatten)]
    pub controllers: ControllersArg,
    /// The port for people and scrapers.
    #[command(flatten)]
    pub serving: ServingArgs,
    /// Serve a page to look at on the secure port, at /page/: addresses, node ports, Services and reconciles. It is shown
    /// to whoever may get the path /page/.
    #[arg(long, env = "SCM_PAGE")]
    pub page: bool,
    /// Names of hosts by which the page is reached, as those of an Ingress; without them by addresses and as localhost alone:
    /// another name could have been pointed here by anybody.
    #[arg(long, env = "SCM_PAGE_HOSTS", value_name = "HOST[,HOST]", value_delimiter = ',', requires = "page", value_parser = host_name)]
    pub page_hosts: Vec<String>,
    /// How much is done at once.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// How fast requests go out.
    #[command(flatten)]
    pub rate: RateArgs,
    /// Plan, and write nothing: what would be written for longer than --shadow-grace is logged once and counted. Runs
    /// beside the controllers that write, without their Lease.
    #[arg(long, env = "SCM_SHADOW")]
    pub shadow: bool,
    /// How long a difference has to last before it is told with --shadow.
    #[arg(long, env = "SCM_SHADOW_GRACE", value_name = "DURATION", default_value = "30s")]
    pub shadow_grace: GoDuration,
    /// Addresses and node ports.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// One of several replicas.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// File with a TracingConfiguration, as kube-apiserver reads it: where traces of reconciles go over OTLP, and how many
    /// of a million; without it there are none.
    #[arg(long, env = "SCM_TRACING_CONFIG_FILE", value_name = "FILE", help_heading = "Logging")]
    pub tracing_config_file: Option<PathBuf>,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// Flags of `diff`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DiffArgs {
    /// The API server.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only differences of objects in this namespace are told.
    #[arg(short, long, env = "SCM_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Which controllers plan.
    #[command(flatten)]
    pub controllers: ControllersArg,
    /// How much is done at once.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// How long a difference has to last before it is told.
    #[arg(long, env = "SCM_SHADOW_GRACE", value_name = "DURATION", default_value = "5s")]
    pub shadow_grace: GoDuration,
    /// Range of node ports of a cluster that has no NodePortRange objects.
    #[arg(
        long,
        env = "SCM_SERVICE_NODE_PORT_RANGE",
        value_name = "FIRST-LAST",
        default_value = "30000-32767"
    )]
    pub service_node_port_range: NodePortRange,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}

/// The port for people and scrapers.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Secure port")]
pub struct ServingArgs {
    /// HTTPS port for /metrics, /livez, /readyz and /debug; 0 takes any free one.
    #[arg(long, env = "SCM_SECURE_PORT", value_name = "PORT", default_value_t = 10257)]
    pub secure_port: u16,
    /// Address of that port; 0.0.0.0 or :: for all addresses of both families.
    #[arg(long, env = "SCM_BIND_ADDRESS", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind_address: IpAddr,
    /// File with its certificate and the chain after it, PEM; without one a certificate is made at each start.
    #[arg(long, env = "SCM_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File with the key of that certificate, PEM.
    #[arg(long, env = "SCM_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Paths that are answered to anybody; a `*` at the end stands for all that begin so. For others, the API server is
    /// asked who the caller is (TokenReview) and whether they may (SubjectAccessReview).
    #[arg(
        long,
        env = "SCM_AUTHORIZATION_ALWAYS_ALLOW_PATHS",
        value_name = "PATH[,PATH]",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub authorization_always_allow_paths: Vec<OpenPath>,
}

/// How the controllers work; the lab's controllers take the same.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Controllers")]
pub struct SyncArgs {
    /// Services whose EndpointSlices are synced at once.
    #[arg(long, env = "SCM_CONCURRENT_SERVICE_ENDPOINT_SYNCS", value_name = "N", default_value = "8")]
    pub concurrent_service_endpoint_syncs: NonZeroU16,
    /// Services whose Endpoints are synced at once.
    #[arg(long, env = "SCM_CONCURRENT_ENDPOINT_SYNCS", value_name = "N", default_value = "8")]
    pub concurrent_endpoint_syncs: NonZeroU16,
    /// The most endpoints in one EndpointSlice, up to 1000.
    #[arg(long, env = "SCM_MAX_ENDPOINTS_PER_SLICE", value_name = "N", default_value = "100", value_parser = up_to_a_thousand)]
    pub max_endpoints_per_slice: NonZeroU16,
    /// How long changes of pods are gathered before EndpointSlices are written.
    #[arg(
        long,
        env = "SCM_ENDPOINTSLICE_UPDATES_BATCH_PERIOD",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub endpointslice_updates_batch_period: GoDuration,
    /// How long changes of pods are gathered before Endpoints are written.
    #[arg(long, env = "SCM_ENDPOINT_UPDATES_BATCH_PERIOD", value_name = "DURATION", default_value = "0s")]
    pub endpoint_updates_batch_period: GoDuration,
    /// Endpoints objects that are mirrored at once.
    #[arg(
        long,
        env = "SCM_MIRRORING_CONCURRENT_SERVICE_ENDPOINT_SYNCS",
        value_name = "N",
        default_value = "5"
    )]
    pub mirroring_concurrent_service_endpoint_syncs: NonZeroU16,
    /// The most endpoints that are mirrored of one subset, up to 1000.
    #[arg(long, env = "SCM_MIRRORING_MAX_ENDPOINTS_PER_SUBSET", value_name = "N", default_value = "1000", value_parser = up_to_a_thousand)]
    pub mirroring_max_endpoints_per_subset: NonZeroU16,
    /// How long changes of mirrored slices are gathered before they are put right.
    #[arg(
        long,
        env = "SCM_MIRRORING_ENDPOINTSLICE_UPDATES_BATCH_PERIOD",
        value_name = "DURATION",
        default_value = "0s"
    )]
    pub mirroring_endpointslice_updates_batch_period: GoDuration,
}

fn up_to_a_thousand(text: &str) -> Result<NonZeroU16, String> {
    text.parse()
        .ok()
        .filter(|number: &NonZeroU16| number.get() <= 1000)
        .ok_or_else(|| "it must be 1 to 1000".to_owned())
}

/// What the controllers of addresses and node ports go by.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Addresses and node ports")]
pub struct LedgerArgs {
    /// What the audits do about what they find: count it, tell it in Events too, or put right what no living object can
    /// lose by.
    #[arg(long, env = "SCM_REPAIR", value_name = "HOW", default_value = "safe")]
    pub repair: RepairMode,
    /// Put a finalizer on IPAddresses while a Service has them (with --repair=safe): one that is deleted stays, and nobody
    /// else can take it. Run once without this flag before you remove the controllers: that takes it off again.
    #[arg(long, env = "SCM_PROTECT_ADDRESSES")]
    pub protect_addresses: bool,
    /// Range of node ports of a cluster that has no NodePortRange objects.
    #[arg(
        long,
        env = "SCM_SERVICE_NODE_PORT_RANGE",
        value_name = "FIRST-LAST",
        default_value = "30000-32767"
    )]
    pub service_node_port_range: NodePortRange,
}

/// What the audits do about what they find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RepairMode {
    /// Count it.
    Off,
    /// Tell it in Events, too.
    Report,
    /// And put right what no living object can lose by.
    Safe,
}

/// How fast requests go to the API server.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Requests")]
pub struct RateArgs {
    /// Requests a second to the API server over time; 0 leaves the limit to the server's priority and fairness.
    #[arg(long, env = "SCM_KUBE_API_QPS", value_name = "N", default_value = "1000", value_parser = rate)]
    pub kube_api_qps: f64,
    /// Requests to the API server at once before that limit holds.
    #[arg(long, env = "SCM_KUBE_API_BURST", value_name = "N", default_value_t = 2000)]
    pub kube_api_burst: u32,
}

fn host_name(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if text.split('.').all(is_part) {
        Ok(text.to_owned())
    } else {
        Err("it must be a name such as services.example.com, without scheme and port".to_owned())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "it must be a number from 0".to_owned())
}

/// How replicas agree which of them works.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Whether to work only while holding the Lease.
    #[arg(long, env = "SCM_LEADER_ELECT", value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub leader_elect: bool,
    /// How long a lease holds without being renewed.
    #[arg(long, env = "SCM_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: GoDuration,
    /// How long the leader tries to renew before it stops working.
    #[arg(long, env = "SCM_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: GoDuration,
    /// How long to wait between two tries.
    #[arg(long, env = "SCM_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: GoDuration,
    /// Name of the Lease.
    #[arg(
        long,
        env = "SCM_LEADER_ELECT_RESOURCE_NAME",
        value_name = "NAME",
        default_value = "service-controller-manager"
    )]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(
        long,
        env = "SCM_LEADER_ELECT_RESOURCE_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    pub leader_elect_resource_namespace: String,
}

/// Lease times that cannot work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The leader would go on after another took over.
    #[error("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")]
    Deadline,
    /// No second try fits.
    #[error("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period")]
    Retry,
}

impl LeaseArgs {
    /// Checks the times against each other, as client-go does.
    pub fn check(&self) -> Result<(), LeaseError> {
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return Err(LeaseError::Deadline);
        }
        if self.leader_elect_renew_deadline.0 <= self.leader_elect_retry_period.0.mul_f64(1.2) {
            return Err(LeaseError::Retry);
        }
        Ok(())
    }
}
