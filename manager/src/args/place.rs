//! Where a command that a person gives finds the API server: as kubectl does.

use std::path::PathBuf;

use clap::Args;

/// Flags of commands that read from the server that kubectl would talk to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct PlaceArgs {
    /// How to reach the API server; without it `KUBECONFIG`, `~/.kube/config`, or the environment of a pod.
    #[arg(long, env = "SCM_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; without it the current one.
    #[arg(long, env = "SCM_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}
