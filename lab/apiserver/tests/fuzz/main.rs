//! Every decoder of what a request brings, on requests that nobody would write: none may panic, and none may take more
//! memory than a stated multiple of what it was given.
//!
//! A few cases of each target run with the other tests. `hack/fuzz.sh MINUTES` runs the same for longer, with other seeds
//! and larger inputs, and names inputs that take long.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bodies;
mod queries;
mod requests;
mod targets;

use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use rand::{SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};

use crate::targets::{Target, targets};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many times its size, and that of the object it changes, a request may take.
const FACTOR: usize = 256;
/// What each object or list in it may take beyond that: `{}` is three bytes of a list, and an object once it has its defaults.
const CONTAINER: usize = 2048;
/// Cases of each target in a test run.
const CASES: u64 = 60;
/// An input that takes more of a processor than this is named, in long runs.
const SLOW: Duration = Duration::from_secs(2);

/// Runs one case and says what is wrong with it.
fn run(target: &Target, seed: u64) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let body = (target.input)(&mut rng);
    // In YAML, an item may be a line's hyphen.
    let containers = body.iter().filter(|byte| matches!(byte, b'{' | b'[' | b'-')).count();
    let allowed = target.base
        + FACTOR * (body.len() + target.beside)
        + CONTAINER * containers.min(service_lab_machinery::decode::scan::MAX_CONTAINERS);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let begun = processor_time();
    (target.run)(&body);
    let taken = MEMORY.peak_usage().saturating_sub(before);
    let time = processor_time().saturating_sub(begun);
    if taken > allowed {
        return Err(format!("{} bytes take {taken}, more than {allowed}", body.len()));
    }
    if long_run().is_some() && time > SLOW {
        return Err(format!("{} bytes take {time:?}", body.len()));
    }
    Ok(())
}

/// What this process has used: others may keep the machine busy.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// How long `hack/fuzz.sh` wants each target to run.
fn long_run() -> Option<Duration> {
    let minutes = std::env::var("FUZZ_MINUTES").ok()?.parse::<f64>().ok()?;
    Some(Duration::from_secs_f64(minutes * 60.0))
}

/// Runs a target, and adds what is wrong.
fn run_all(target: &Target, failures: &mut Vec<String>) {
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
        // What a failed case was given can be made again from the seed.
        let outcome =
            std::panic::catch_unwind(|| run(target, seed)).unwrap_or_else(|_| Err("panic".to_owned()));
        if let Err(fault) = outcome {
            failures.push(format!("{} seed {seed}: {fault}", target.name));
            eprintln!("{}", failures[failures.len() - 1]);
        }
    }
    if long_run().is_some() {
        eprintln!("{}: {cases} cases in {:?} of a processor", target.name, processor_time());
    }
}

/// One test for all targets: memory is counted for the whole process, so they run one after the other.
#[test]
fn no_request_takes_more_than_its_share() {
    let only = std::env::var("FUZZ_TARGET").ok();
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut failures = Vec::new();
    for target in targets().iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name)) {
        match seed {
            Some(seed) => {
                if let Ok(file) = std::env::var("FUZZ_INPUT") {
                    std::fs::write(file, (target.input)(&mut StdRng::seed_from_u64(seed))).unwrap();
                }
                failures.extend(run(target, seed).err());
            }
            None => run_all(target, &mut failures),
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
