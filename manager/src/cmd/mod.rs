//! What each subcommand does, from checked flags to the end of the process.

mod controllers;
mod explain;
mod lab;
pub mod lab_network;
mod logs;
mod node_proxy;
mod private_directory;
mod proxy;
mod ranges;
mod run;
mod shadow;
mod shell;
mod simulate;
mod webhook;

use std::io;

use service_lab_apiserver::server::BuildError;
use service_lab_simulator::{demo::DemoError, nodes::SettingsError};
use service_lab_store::StoreError;
use service_page::Reconciles;

use crate::otlp::TracingError;
use crate::{
    admin::{BindError, CertificateError},
    args::{Command, LabError, LeaseError},
    cluster::ClusterError,
    objects::dump::DumpError,
    trace::{self, TraceError},
};

/// Why a command ends before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Flags that do not work together.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// No log.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No signals.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    /// The server cannot start.
    #[error("{}", start_hint(.0))]
    Build(#[from] BuildError),
    /// The nodes cannot be simulated.
    #[error(transparent)]
    Nodes(#[from] SettingsError),
    /// What was written last is not known to be on disk.
    #[error("close the store: {0}")]
    Store(#[from] StoreError),
    /// A place for the kubeconfig cannot be made.
    #[error("cannot make a temporary directory for the kubeconfig: {0}; choose a file with --kubeconfig-out")]
    TemporaryDirectory(io::Error),
    /// Lease times that do not work together.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The port for metrics and readiness cannot be had.
    #[error(transparent)]
    Admin(#[from] BindError),
    /// No certificate for it.
    #[error(transparent)]
    Tls(#[from] CertificateError),
    /// The API server cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The controllers ended.
    #[error(transparent)]
    Controllers(#[from] service_controllers::error::Error),
    /// The node's rules cannot be made.
    #[error(transparent)]
    Proxy(#[from] proxy::ProxyError),
    /// Objects cannot be listed.
    #[error(transparent)]
    List(#[from] ranges::ListError),
    /// A file is no dump.
    #[error("--dump {0}")]
    Dump(#[from] DumpError),
    /// Nothing can be explained.
    #[error(transparent)]
    Explain(#[from] explain::ExplainError),
    /// Nothing can be simulated.
    #[error(transparent)]
    Simulate(#[from] simulate::SimulateError),
    /// A replica that there is not.
    #[error("--replica-index and --replicas: {0}")]
    Share(#[from] service_allocators::pools::ShareError),
    /// No certificate for the webhook.
    #[error(transparent)]
    Certificate(#[from] webhook::WebhookCertificateError),
    /// What is to be printed cannot be.
    #[error("cannot write to the standard output: {0}")]
    Output(io::Error),
    /// The lab's network cannot be made.
    #[error(transparent)]
    Network(#[from] lab_network::LabNetworkError),
    /// A log that cannot be read.
    #[error(transparent)]
    Logs(#[from] logs::ReadError),
    /// Labels of which no lines can be shown.
    #[error(transparent)]
    Select(#[from] logs::SelectError),
    /// Traces that are not configured as they have to be.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// No manual pages.
    #[error(transparent)]
    Man(#[from] shell::ManError),
    /// `diff` was told to end before it had compared.
    #[error("stopped before plan and cluster were compared")]
    NotCompared,
    /// `diff` found some.
    #[error("{0} differences between plan and cluster")]
    Differences(usize),
    /// The demo's objects cannot be created or shown.
    #[error("demo: {0}")]
    Demo(#[from] DemoError),
}

/// The error of a start, with the flag that helps.
fn start_hint(error: &BuildError) -> String {
    match error {
        BuildError::Listen { .. } => format!("{error}; choose another port with --secure-port"),
        BuildError::Kubeconfig { .. } => format!("{error}; choose another file with --kubeconfig-out"),
        error => error.to_string(),
    }
}

/// Runs a command to its end.
pub async fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Lab(args) => {
            let reconciles = Reconciles::default();
            trace::start(&args.logging, args.demo, Some(&reconciles))?;
            lab::run(args, reconciles).await
        }
        Command::Proxy(args) => {
            trace::start(&args.logging, false, None)?;
            proxy::run(args).await
        }
        Command::Run(args) => {
            let reconciles = args.page.then(Reconciles::default);
            let verbosity = trace::start(&args.logging, false, reconciles.as_ref())?;
            run::run(args, verbosity, reconciles).await
        }
        Command::Webhook(args) => {
            let verbosity = trace::start(&args.logging, false, None)?;
            webhook::run(args, verbosity).await
        }
        Command::Diff(args) => {
            trace::start(&args.logging, true, None)?;
            shadow::diff(args).await
        }
        Command::Explain(args) => {
            trace::start(&args.logging, true, None)?;
            explain::run(args).await
        }
        Command::Simulate(args) => {
            trace::start(&args.logging, true, None)?;
            simulate::run(args).await
        }
        Command::Ranges(args) => {
            trace::start(&args.logging, true, None)?;
            ranges::run(args).await
        }
        Command::Logs(args) => logs::run(&args).await,
        Command::Completion(args) => shell::completion(args),
        Command::Man(args) => shell::man(&args),
    }
}
