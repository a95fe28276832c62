//! Replays recorded cases against any API server and prints pass or fail for each: `hack/replay --help`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use service_tests::{
    case::{Case, load_folder},
    http::Target,
    launch::Launcher,
    replay::{Options, Report, Servers},
    suite, tls,
};

const HELP: &str = "\
Replays recorded conformance cases and prints pass or fail for each.

usage: hack/replay [options] [CASE...]

CASE is the name of a case, a part of names that ends in `*`, a file, or a folder; without any, all cases of `api` run.

  --binary FILE      start a fresh lab for each case with this binary (default: the one built by cargo)
  --start COMMAND    start a fresh server for each case by a shell command; {port} {cidrs} {node-ports} {token} {dir}
                     are replaced; it must serve HTTPS on 127.0.0.1:{port} and take the token
  --server URL       use this running server for all cases, one after another. Only cases whose ranges fit it can pass,
                     and what one case leaves behind the next one sees: --only-cidrs and --only-node-ports choose
  --token TOKEN      the bearer token for --server
  --ca FILE          the certificate authority of --server (default: trust whoever answers)
  --only-cidrs LIST  only cases whose server has these service CIDRs, for instance 10.96.0.0/12
  --only-node-ports R  only cases whose server has this node port range
  --controllers FILE the binary that runs the controllers (default: as --binary)
  --jobs N           cases at once (default 4; with --server 1)
  --keep-going       go on in a case after a step that failed
  --list             only print the names of the cases
";

struct Arguments {
    values: BTreeMap<String, String>,
    switches: BTreeSet<String>,
    cases: Vec<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { values: BTreeMap::new(), switches: BTreeSet::new(), cases: Vec::new() };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--keep-going" | "--list" | "--help" => {
                found.switches.insert(argument);
            }
            "--binary" | "--start" | "--server" | "--token" | "--ca" | "--controllers" | "--jobs"
            | "--only-cidrs" | "--only-node-ports" => {
                let value = given.next().ok_or_else(|| format!("{argument} needs a value"))?;
                found.values.insert(argument, value);
            }
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}; see --help")),
            _ => found.cases.push(argument),
        }
    }
    Ok(found)
}

fn chosen(arguments: &Arguments) -> Result<Vec<Case>, String> {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let load = |folder: &Path| load_folder(folder).map_err(|error| error.to_string());
    let mut cases = Vec::new();
    if arguments.cases.is_empty() {
        cases = load(&recorded.join("api"))?;
    }
    for name in &arguments.cases {
        let path = Path::new(name);
        if path.is_dir() {
            cases.extend(load(path)?);
        } else if path.is_file() {
            cases.push(Case::load(path).map_err(|error| error.to_string())?);
        } else {
            let fits = |case: &Case| {
                name.strip_suffix('*').map_or(case.name == *name, |part| case.name.contains(part))
            };
            let all = [load(&recorded.join("api"))?, load(&recorded.join("controllers"))?].concat();
            let found: Vec<Case> = all.into_iter().filter(fits).collect();
            if found.is_empty() {
                return Err(format!("no case is called {name}"));
            }
            cases.extend(found);
        }
    }
    if let Some(cidrs) = arguments.values.get("--only-cidrs") {
        cases.retain(|case| case.server.service_cidrs.join(",") == *cidrs);
    }
    if let Some(range) = arguments.values.get("--only-node-ports") {
        cases.retain(|case| case.server.node_port_range == *range);
    }
    Ok(cases)
}

/// The binary next to this example's folder.
fn built_binary() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().and_then(Path::parent).unwrap_or(Path::new("")).join("service-controller-manager")
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let value = |name: &str| arguments.values.get(name).cloned();
    let binary = value("--binary").map_or_else(built_binary, PathBuf::from);
    let servers = match (value("--server"), value("--start")) {
        (Some(url), _) => {
            let tls = match value("--ca") {
                Some(file) => {
                    let pem = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
                    tls::trusting(&pem)
                }
                None => tls::trusting_anyone(),
            };
            let tls = tls.map_err(|error| error.to_string())?;
            Servers::Running(Target::new(&url, tls, value("--token")).map_err(|error| error.to_string())?)
        }
        (None, Some(command)) => Servers::Fresh(Launcher::Shell(command)),
        (None, None) => Servers::Fresh(Launcher::Binary(binary.clone())),
    };
    let controllers = value("--controllers").map_or(binary, PathBuf::from);
    Ok(Options { servers, controllers, keep_going: arguments.switches.contains("--keep-going") })
}

async fn replay(arguments: &Arguments) -> Result<bool, String> {
    let cases = chosen(arguments)?;
    if arguments.switches.contains("--list") {
        for case in &cases {
            println!("{}: {}", case.name, case.about);
        }
        return Ok(true);
    }
    let options = options(arguments)?;
    let jobs = match (&options.servers, arguments.values.get("--jobs")) {
        (Servers::Running(_), _) => 1,
        (Servers::Fresh(_), None) => 4,
        (Servers::Fresh(_), Some(jobs)) => jobs.parse().map_err(|_| format!("--jobs {jobs}: no number"))?,
    };
    let started = Instant::now();
    let reports = suite::run(cases, &options, jobs).await;
    for report in &reports {
        println!(
            "{} {} ({:.2} s)",
            if report.passed() { "pass" } else { "FAIL" },
            report.name,
            report.elapsed.as_secs_f64()
        );
    }
    println!("\n{}", suite::summary(&reports, started));
    Ok(reports.iter().all(Report::passed))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) if arguments.switches.contains("--help") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match replay(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
