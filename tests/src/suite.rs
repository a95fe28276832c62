//! Runs many cases at once, bounded, and says how they went.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    case::Case,
    replay::{self, Options, Report},
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
