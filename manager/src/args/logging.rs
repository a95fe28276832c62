//! What is logged and how.

use clap::{Args, ValueEnum};

use crate::levels::ControllerLevel;

/// Flags about the log.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Logging")]
pub struct LoggingArgs {
    /// How much is logged: 0 changes and problems, 4 decisions, 6 every request.
    #[arg(short, long = "v", env = "SCM_V", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
    /// Levels of controllers that are not that of all.
    #[arg(long, env = "SCM_VMODULE", value_name = "CONTROLLER=LEVEL[,...]", value_delimiter = ',')]
    pub vmodule: Vec<ControllerLevel>,
    /// The form of a log line.
    #[arg(
        long,
        visible_alias = "logging-format",
        env = "SCM_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// Pairs of names and values, as Go's logfmt.
    Logfmt,
}
