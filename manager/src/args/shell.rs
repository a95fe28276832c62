//! What makes the binary at home in a shell: completions and manual pages.

use std::path::PathBuf;

use clap::Args;
use clap_complete::aot::Shell;

/// Arguments of `completion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ManArgs {
    /// Where the pages are written; the directory is made if it is not there.
    #[arg(long, env = "SCM_DIR", value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}
