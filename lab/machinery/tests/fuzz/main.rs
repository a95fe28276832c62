//! Every decoder of a body or a patch, on bodies that nobody would write: none may panic, and none may take more memory
//! than a stated multiple of what it was given.
//!
//! A few thousand cases run with the other tests. `hack/fuzz.sh MINUTES` runs the same for longer, with other seeds, and
//! names inputs that take long.

#![allow(clippy::unwrap_used, clippy::panic)]

mod input;
mod targets;

use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::targets::{Target, targets};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many times its size, and that of the object it changes, a request may take.
const FACTOR: usize = 256;
/// Cases of each target in a test run.
const CASES: u64 = 60;
/// An input that takes longer is named, in long runs.
const SLOW: Duration = Duration::from_secs(2);

/// Runs one case and says what is wrong with it.
fn run(target: &Target, seed: u64) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let body = (target.input)(&mut rng);
    let allowed = target.base + FACTOR * (body.len() + target.beside);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let begun = Instant::now();
    (target.run)(&body);
    let (taken, time) = (MEMORY.peak_usage().saturating_sub(before), begun.elapsed());
    if taken > allowed {
        return Err(format!("{} bytes take {taken}, more than {allowed}", body.len()));
    }
    if long_run().is_some() && time > SLOW {
        return Err(format!("{} bytes take {time:?}", body.len()));
    }
    Ok(())
}

/// How long `hack/fuzz.sh` wants each target to run.
fn long_run() -> Option<Duration> {
    let minutes = std::env::var("FUZZ_MINUTES").ok()?.parse::<f64>().ok()?;
    Some(Duration::from_secs_f64(minutes * 60.0))
}

/// One test for all targets: memory is counted for the whole process, so they run one after the other.
#[test]
fn no_body_takes_more_than_its_share() {
    let only = std::env::var("FUZZ_TARGET").ok();
    let mut failures = Vec::new();
    for target in targets().iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name)) {
        let begun = Instant::now();
        let first = long_run().map_or(0, |_| rand::random::<u64>() >> 1);
        let mut cases = 0;
        while long_run().map_or(cases < CASES, |time| begun.elapsed() < time) {
            let seed = first + cases;
            cases += 1;
            // An abort leaves no other trace of what it was given.
            if std::env::var_os("FUZZ_TRACE").is_some() {
                eprintln!("{} seed {seed}", target.name);
            }
            // A panic names the seed; what a failed case was given can be made again from it.
            let outcome =
                std::panic::catch_unwind(|| run(target, seed)).unwrap_or_else(|_| Err("panic".to_owned()));
            if let Err(fault) = outcome {
                failures.push(format!("{} seed {seed}: {fault}", target.name));
                eprintln!("{}", failures[failures.len() - 1]);
            }
        }
        if long_run().is_some() {
            eprintln!("{}: {cases} cases", target.name);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
