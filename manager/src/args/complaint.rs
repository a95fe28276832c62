//! What is wrong with a command line, in one line.

/// The one line of a clap error that says what is wrong; the usage that clap adds is left to `--help`.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let line = first.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}
