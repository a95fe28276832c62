//! The command line: what can be said, and the one-line errors for what cannot. Values are checked here, at the edge.

mod complaint;
mod controllers;
mod duration;
mod examples;
mod explain;
mod lab;
mod logging;
mod logs;
mod open_path;
mod place;
mod proxy;
mod ranges;
mod reference;
mod run;
mod shell;
mod simulate;
mod survey;
mod webhook;

pub use complaint::one_line;
pub use controllers::{Controller, ControllerSelection, ControllersArg, SelectionError};
pub use duration::{DurationError, GoDuration};
pub use explain::{ColorMode, ExplainArgs, ExplainFormat, SubjectError};
pub use lab::{AllocationMode, LabArgs, LabError, LabSettings};
pub use logging::{LogFormat, LoggingArgs};
pub use logs::{LineLevel, LinesFormat, LogsArgs};
pub use open_path::{OpenPath, OpenPathError};
pub use place::PlaceArgs;
pub use proxy::{DetectLocalMode, InsteadArgs, ProxyArgs, RuleArgs, RuleFormat, RunningArgs};
pub use ranges::{RangeError, ServiceRanges};
pub use reference::reference;
pub use run::{
    DiffArgs, LeaseArgs, LeaseError, LedgerArgs, RateArgs, RepairMode, RunArgs, ServingArgs, SyncArgs,
};
pub use shell::{CompletionArgs, ManArgs};
pub use simulate::SimulateArgs;
pub use survey::{OutputFormat, RangesArgs};
pub use webhook::{ServiceName, ServiceNameError, WebhookArgs};

use clap::{Parser, Subcommand};
use service_api::labels::Selector;

/// Gives Kubernetes Services their addresses and ports and keeps the EndpointSlices behind them true.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "service-controller-manager", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary can do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Run an embedded API server with the controllers in it: no cluster, no etcd, no containers.
    #[command(after_help = examples::LAB)]
    Lab(LabArgs),
    /// Run the controllers against any Kubernetes API server.
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Print what the controllers would write to a cluster, and write nothing; ends with 1 if that is anything, and with 2 if it
    /// could not compare.
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Explain why pods are endpoints of a Service or are not, and where addresses and ports come from.
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Print what the controllers would write for manifests, a dump or a cluster, what if something were otherwise, and what
    /// that costs; nothing is written.
    #[command(after_help = examples::SIMULATE)]
    Simulate(SimulateArgs),
    /// Program this node's packet rules from Services and EndpointSlices, as kube-proxy does.
    #[command(after_help = examples::PROXY)]
    Proxy(ProxyArgs),
    /// Show the ranges of cluster IPs and node ports: how full they are, who blocks their removal, what clashes, and what
    /// another range would mean.
    #[command(after_help = examples::RANGES)]
    Ranges(RangesArgs),
    /// Run the admission webhook: it chooses values for Services that a ServicePool is for, before the API server does.
    #[command(after_help = examples::WEBHOOK)]
    Webhook(WebhookArgs),
    /// Show what the log of the controllers says of an object, a controller or a reconcile.
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Print what makes a shell complete this command: put it where the shell looks for completions.
    #[command(after_help = examples::COMPLETION)]
    Completion(CompletionArgs),
    /// Write the manual pages, one for each command.
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
}

impl Command {
    /// What is logged and how, by a command that has a log.
    #[must_use]
    pub const fn logging(&self) -> Option<&LoggingArgs> {
        match self {
            Self::Lab(args) => Some(&args.logging),
            Self::Run(args) => Some(&args.logging),
            Self::Diff(args) => Some(&args.logging),
            Self::Explain(args) => Some(&args.logging),
            Self::Simulate(args) => Some(&args.logging),
            Self::Proxy(args) => Some(&args.logging),
            Self::Ranges(args) => Some(&args.logging),
            Self::Webhook(args) => Some(&args.logging),
            Self::Completion(_) | Self::Man(_) | Self::Logs(_) => None,
        }
    }
}

/// Reads labels as kubectl's `-l` takes them.
fn selector(text: &str) -> Result<Selector, String> {
    Selector::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The command lines of some help, without what a shell does with their output.
    fn command_lines(help: &str) -> Vec<Vec<&str>> {
        let lines = help.lines().filter_map(|line| line.trim_start().split(" | ").last());
        let ours = lines.filter(|line| line.starts_with("service-controller-manager "));
        ours.map(|line| line.split(" > ").next().unwrap_or_default().split(' ').collect()).collect()
    }

    #[test]
    fn every_command_has_examples_that_can_be_given() {
        for command in Cli::command().get_subcommands() {
            let help =
                command.get_after_help().unwrap_or_else(|| panic!("{}", command.get_name())).to_string();
            let lines = command_lines(&help);
            assert!(!lines.is_empty(), "{}", command.get_name());
            for line in lines {
                assert_eq!(line[1], command.get_name());
                Cli::try_parse_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            }
        }
    }

    #[rstest::rstest]
    #[case("-v=4")]
    #[case("-v4")]
    #[case("--v=4")]
    fn the_log_is_set_as_that_of_kube_controller_manager(#[case] level: &str) {
        let line = ["service-controller-manager", "run", level, "--logging-format=json"];
        let cli = Cli::try_parse_from(line).unwrap();
        let logging = cli.command.logging().unwrap();
        assert_eq!((logging.verbosity, logging.log_format), (4, LogFormat::Json));
    }

    #[test]
    fn every_flag_is_an_environment_variable_too() {
        for command in Cli::command().get_subcommands() {
            let of_clap = |flag: &&clap::Arg| ["help", "version"].contains(&flag.get_id().as_str());
            for flag in command
                .get_opts()
                .chain(command.get_arguments().filter(|flag| !flag.get_action().takes_values()))
                .filter(|flag| !of_clap(flag))
            {
                let long = flag.get_long().expect("every flag has a long form");
                let name = format!("SCM_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(
                    flag.get_env().and_then(|env| env.to_str()),
                    Some(name.as_str()),
                    "{}",
                    command.get_name()
                );
            }
        }
    }
}
