//! Every recorded case passes, or is listed in `conformance/known-failures.txt` with a reason that the README allows.
//!
//! The cases of the controllers also run beside a kube-apiserver, with `KUBEBUILDER_ASSETS`. `CASES=part` runs only the cases whose name has that part, `KEEP_GOING=1` goes on in a case after a step that failed,
//! `CONTROL_PLANE_BINARY=FILE` runs another binary than the one cargo built.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use service_tests::{
    api_server::Choice,
    case::{Case, load_folder},
    known,
    launch::{GARBAGE_COLLECTOR, Launcher},
    replay::{Options, Report, Servers},
    suite,
};

fn binary() -> PathBuf {
    std::env::var_os("CONTROL_PLANE_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_control-plane-under-test")), PathBuf::from)
}

/// kube-apiservers that run at the same time.
const REAL_SERVERS: usize = 3;

/// Runs cases on the servers that the environment asks for; none where they would not be the only ones, or say nothing of us.
async fn run(folder: &str, cases: Vec<Case>, options: &Options, at_once: usize) -> Option<Vec<Report>> {
    match Choice::of_environment() {
        Choice::Lab => Some(suite::run(cases, options, at_once).await),
        Choice::Assets(dir) if folder == "controllers" => {
            Some(suite::run_on_real(cases, options, &dir, REAL_SERVERS).await.unwrap())
        }
        Choice::Assets(_) => {
            println!("skipped: these cases were recorded from a kube-apiserver and say nothing of one");
            None
        }
        Choice::Cluster(_) => {
            println!("skipped: these cases need servers that nobody else uses");
            None
        }
    }
}

/// Runs a folder and holds the outcome against the list, of which only the lines about this folder count.
async fn folder_passes(folder: &str, at_once: usize) {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let mut cases = load_folder(&recorded.join(folder)).unwrap();
    let list = std::fs::read_to_string(recorded.join("known-failures.txt")).unwrap();
    let mut known = known::parse(&list).unwrap();
    let others = if folder == "api" { "controllers" } else { "api" };
    for other in load_folder(&recorded.join(others)).unwrap() {
        known.remove(&other.name);
    }
    if let Ok(part) = std::env::var("CASES") {
        cases.retain(|case| case.name.contains(&part));
        known.retain(|name, _| name.contains(&part));
    }
    if Choice::of_environment() != Choice::Lab {
        let collects = |case: &Case| case.controllers.iter().any(|name| name == GARBAGE_COLLECTOR);
        for case in cases.extract_if(.., |case| collects(case)) {
            println!("skipped: {} needs a garbage collector beside the server", case.name);
            known.remove(&case.name);
        }
    }
    let options = Options {
        servers: Servers::Fresh(Launcher::Binary(binary())),
        controllers: binary(),
        keep_going: std::env::var_os("KEEP_GOING").is_some(),
    };
    let started = Instant::now();
    let Some(reports) = run(folder, cases, &options, at_once).await else { return };
    println!("{}", suite::summary(&reports, started));
    let went: BTreeMap<String, bool> =
        reports.iter().map(|report| (report.name.clone(), report.passed())).collect();
    let complaints = known::complaints(&known, &went);
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api() {
    folder_passes("api", 4).await;
}

/// Most of the time of these cases is waiting for quiet, so many run at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers() {
    folder_passes("controllers", 16).await;
}
