//! Kills the embedded API server with SIGKILL under write load, again and again: `hack/crash-loop.sh [ROUNDS] [SEED]`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{path::PathBuf, process::ExitCode, time::Instant};

use service_tests::{crash, launch::Launcher};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(binary), rounds, seed) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: crash_loop BINARY [ROUNDS] [SEED]");
        return ExitCode::from(2);
    };
    let number = |text: Option<String>, default: u64| text.map_or(Ok(default), |text| text.parse());
    let (Ok(rounds), Ok(seed)) = (number(rounds, 200), number(seed, u64::from(std::process::id()))) else {
        eprintln!("ROUNDS and SEED must be numbers");
        return ExitCode::from(2);
    };
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{rounds} rounds, seed {seed}");
    let started = Instant::now();
    let launcher = Launcher::Binary(PathBuf::from(binary));
    match crash::run(&launcher, dir.path(), usize::try_from(rounds).unwrap_or(usize::MAX), seed).await {
        Ok(tally) => {
            println!(
                "{} kills, {} writes answered and all there; {} were under way, {} of them had come to be; {:.0} s",
                tally.kills,
                tally.answered,
                tally.under_way,
                tally.came_to_be,
                started.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\nthe data directory is kept: {}", dir.keep().display());
            ExitCode::FAILURE
        }
    }
}
