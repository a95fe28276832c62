//! The reference page of the command line, made from its definition.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;

const HEAD: &str = "\
# Command line

Made from the definition in `manager/src/args`; `UPDATE_DOCS=1 cargo test -p service-controller-manager --test cli`
writes it anew. Every flag is an environment variable too; the flag wins.
";

/// The page in Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    let mut root = Cli::command();
    root.build();
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        section(&mut page, command);
    }
    page
}

fn section(page: &mut String, command: &Command) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "\n## `service-controller-manager {}`\n", command.get_name());
    if let Some(about) = command.get_about() {
        let _ = writeln!(page, "{about}\n");
    }
    page.push_str("| flag | default | environment | meaning |\n| --- | --- | --- | --- |\n");
    for flag in command.get_arguments().filter(|flag| flag.get_id() != "help" && flag.get_id() != "version") {
        row(page, flag);
    }
    if let Some(examples) = command.get_after_help() {
        let _ = writeln!(page, "\n```text\n{examples}\n```");
    }
}

fn row(page: &mut String, flag: &Arg) {
    let takes_value = flag.get_action().takes_values();
    let names = flag.get_value_names().filter(|_| takes_value).unwrap_or_default();
    let called =
        [flag.get_short().map(|short| format!("-{short}")), flag.get_long().map(|long| format!("--{long}"))];
    let called: Vec<String> = called.into_iter().flatten().collect();
    let called = [called.join(", "), names.join(" ")];
    let called: Vec<&str> = called.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let defaults: Vec<String> = flag
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let possible: Vec<String> = flag
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let mut help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    if !possible.is_empty() {
        let _ = write!(help, ": {}", possible.join(", "));
    }
    let env = flag.get_env().map(|env| env.to_string_lossy().into_owned()).unwrap_or_default();
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {} |",
        called.join(" "),
        defaults.join(" "),
        if env.is_empty() { env } else { format!("`{env}`") },
        help.replace('|', "\\|")
    );
}
