//! Runs many cases at once, bounded, and says how they went.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    case::{Case, ServerOptions},
    clean::clean,
    http::Client,
    launch::LaunchError,
    real_server::RealServer,
    replay::{self, Failure, Options, Report, Servers},
};

/// Runs all cases, at most `at_once` at the same time; the reports come in the order of the cases.
pub async fn run(cases: Vec<Case>, options: &Options, at_once: usize) -> Vec<Report> {
    let slots = Arc::new(Semaphore::new(at_once.max(1)));
    let mut running = JoinSet::new();
    for (index, case) in cases.into_iter().enumerate() {
        let (slots, options) = (Arc::clone(&slots), options.clone());
        running.spawn(async move {
            // The semaphore is never closed.
            let _slot = slots.acquire_owned().await;
            (index, replay::run(&case, &options).await)
        });
    }
    let mut reports: Vec<(usize, Report)> = Vec::new();
    while let Some(done) = running.join_next().await {
        match done {
            Ok(report) => reports.push(report),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    reports.sort_by_key(|(index, _)| *index);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Runs all cases on kube-apiservers from a directory with their binaries, at most `servers` of them at the same time. Cases with the
/// same ranges have a server in turn; what one leaves is removed before the next. The reports come in the order of the names.
pub async fn run_on_real(
    cases: Vec<Case>,
    options: &Options,
    assets: &Path,
    servers: usize,
) -> Result<Vec<Report>, LaunchError> {
    let mut by_ranges: BTreeMap<ServerOptions, Vec<Case>> = BTreeMap::new();
    for case in cases {
        by_ranges.entry(case.server.clone()).or_default().push(case);
    }
    let mut reports = Vec::new();
    for (ranges, cases) in by_ranges {
        let servers = servers.clamp(1, cases.len());
        let waiting = Arc::new(Mutex::new(cases));
        let mut running = JoinSet::new();
        for _ in 0..servers {
            let server = RealServer::start(assets, &ranges).await?;
            running.spawn(in_turn(server, Arc::clone(&waiting), options.clone()));
        }
        while let Some(done) = running.join_next().await {
            match done {
                Ok(done) => reports.extend(done?),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    }
    reports.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(reports)
}

/// Runs cases on a server, one after another, until none is waiting.
async fn in_turn(
    server: RealServer,
    waiting: Arc<Mutex<Vec<Case>>>,
    options: Options,
) -> Result<Vec<Report>, LaunchError> {
    let options = Options { servers: Servers::Running(server.target.clone()), ..options };
    let client = Client::new(server.target.clone());
    let mut reports = Vec::new();
    loop {
        let next = waiting.lock().pop();
        let Some(case) = next else { break };
        reports.push(match clean(&client).await {
            Ok(()) => replay::run(&case, &options).await,
            Err(error) => {
                let failure =
                    Failure { step: 0, what: "clean".to_owned(), difference: format!("    {error}\n") };
                Report { name: case.name, failures: vec![failure], elapsed: Duration::ZERO }
            }
        });
    }
    server.stop().await?;
    Ok(reports)
}

/// The failures of the reports and a summary line.
pub fn summary(reports: &[Report], started: Instant) -> String {
    let mut out = String::new();
    for report in reports.iter().filter(|report| !report.passed()) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "FAIL {}", report.name);
        for failure in &report.failures {
            let _ = writeln!(out, "  step {} {}", failure.step, failure.what);
            out.push_str(&failure.difference);
        }
    }
    let passed = reports.iter().filter(|report| report.passed()).count();
    let _ = writeln!(
        out,
        "{passed} of {} cases passed in {:.1} s",
        reports.len(),
        started.elapsed().as_secs_f64()
    );
    out
}
