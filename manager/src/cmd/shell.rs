//! `completion` and `man`: made from the definition of the command line.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::CommandFactory as _;

use super::CommandError;
use crate::args::{Cli, CompletionArgs, ManArgs};

/// Manual pages that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write manual pages to {}: {source}; choose another directory with --dir", dir.display())]
pub struct ManError {
    dir: PathBuf,
    source: io::Error,
}

/// Prints the completions of a shell.
pub(super) fn completion(args: CompletionArgs) -> Result<(), CommandError> {
    let (mut script, mut command) = (Vec::new(), Cli::command());
    let name = command.get_name().to_owned();
    clap_complete::aot::generate(args.shell, &mut command, name, &mut script);
    match io::stdout().lock().write_all(&script) {
        // Whoever reads has enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CommandError::Output),
    }
}

/// Writes the manual pages.
pub(super) fn man(args: &ManArgs) -> Result<(), CommandError> {
    pages(&args.dir).map_err(|source| ManError { dir: args.dir.clone(), source }.into())
}

fn pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)
}
