//! `simulate`: what the controllers would write, and what that costs, without a server that is written to.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use service_api::labels::Selector;
use service_controllers::simulate::Edit;

use super::{ColorMode, ExplainFormat, LoggingArgs, PlaceArgs, selector};

/// Flags of `simulate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct SimulateArgs {
    /// The objects: manifests or what `kubectl get ... -A -o yaml` wrote, YAML or JSON, files or directories; `-` is the
    /// standard input. Workloads without pods get ready ones.
    #[arg(short, long, env = "SCM_FILENAME", value_name = "FILE[,FILE]", value_delimiter = ',')]
    pub filename: Vec<PathBuf>,
    /// The objects of a server, which is only read from; files come on top.
    #[arg(long, env = "SCM_FROM_SERVER")]
    pub from_server: bool,
    /// What if these objects were applied as well.
    #[arg(long, env = "SCM_WITH", value_name = "FILE[,FILE]", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// What if: `max-endpoints-per-slice=50`, `zone.NAME=NODES`, `node.NAME=drained` (or `gone`, `zone:ZONE`),
    /// `servicecidr.NAME=CIDR`, `service.NAMESPACE/NAME=dual-stack` (or `external-name:HOST`),
    /// `service.NAMESPACE/NAME.trafficDistribution=PreferSameZone` and so for any field. One after the other.
    #[arg(long, env = "SCM_SET", value_name = "KEY=VALUE")]
    pub set: Vec<Edit>,
    /// The API server.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only writes for Services of this namespace are shown and counted.
    #[arg(short, long, env = "SCM_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only writes for Services with these labels are shown and counted, as kubectl has it: `app=web,tier!=db`.
    #[arg(short = 'l', long, env = "SCM_SELECTOR", value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<Selector>,
    /// Text for people, or JSON or YAML for programs.
    #[arg(short, long, env = "SCM_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub output: ExplainFormat,
    /// How many writes of a step, and lines of a write, are shown as text; JSON and YAML have all.
    #[arg(long, env = "SCM_SHOW", value_name = "N", default_value = "20")]
    pub show: NonZeroUsize,
    /// At most so many endpoints are put into one slice to begin with.
    #[arg(long, env = "SCM_MAX_ENDPOINTS_PER_SLICE", value_name = "N", default_value = "100")]
    pub max_endpoints_per_slice: NonZeroUsize,
    /// When the text has colours; `auto` is on terminals, unless `NO_COLOR` is set.
    #[arg(long, env = "SCM_COLOR", value_name = "WHEN", default_value = "auto")]
    pub color: ColorMode,
    /// The log.
    #[command(flatten)]
    pub logging: LoggingArgs,
}
