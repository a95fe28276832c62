//! `logs`: what of a log is shown, and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{GoDuration, PlaceArgs, selector};
use crate::logs::ObjectName;

/// Arguments of `logs`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LogsArgs {
    /// Files with the log of `run` or `lab`, in any of its forms; `-` is the standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// Only lines about this object: the Service, a slice of it, or the pod that called for the reconcile; the name alone for
    /// what is in no namespace.
    #[arg(long, env = "SCM_OBJECT", value_name = "[NAMESPACE/]NAME")]
    pub object: Option<ObjectName>,
    /// Only lines about Services with these labels, and about pods with them: the API server is asked for their names.
    #[arg(short = 'l', long, env = "SCM_SELECTOR", value_name = "SELECTOR", value_parser = spelt, conflicts_with = "object")]
    pub selector: Option<String>,
    /// The namespace of an object without one, and of what is selected; alone only lines about objects in it.
    #[arg(short, long, env = "SCM_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The API server, for labels.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Only lines of this controller.
    #[arg(long, env = "SCM_CONTROLLER", value_name = "NAME")]
    pub controller: Option<String>,
    /// Only lines that are not older than this.
    #[arg(long, env = "SCM_SINCE", value_name = "DURATION")]
    pub since: Option<GoDuration>,
    /// Only lines as grave as this, or more.
    #[arg(long, env = "SCM_LEVEL", value_name = "LEVEL")]
    pub level: Option<LineLevel>,
    /// Only lines of the reconcile with this number, as in the annotation of an Event or the number of a trace.
    #[arg(long, env = "SCM_ID", value_name = "ID")]
    pub id: Option<String>,
    /// How lines are shown.
    #[arg(long, short, env = "SCM_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub output: LinesFormat,
}

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LineLevel {
    /// An object is passed over.
    Error,
    /// Something does not work.
    Warn,
    /// Something changed.
    Info,
    /// What led to that.
    Debug,
    /// All.
    Trace,
}

/// How lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinesFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// Pairs of names and values.
    Logfmt,
}

/// A selector as it is spelt, once it can be read.
fn spelt(text: &str) -> Result<String, String> {
    selector(text).map(|_| text.to_owned())
}
