//! A server that is killed under write load has everything that it answered. The long run is `hack/crash-loop.sh`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use service_tests::{crash, launch::Launcher};

const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_there_after_a_kill() {
    let launcher = Launcher::Binary(PathBuf::from(env!("CARGO_BIN_EXE_control-plane-under-test")));
    let dir = tempfile::tempdir().unwrap();
    let tally = crash::run(&launcher, dir.path(), ROUNDS, 1).await.unwrap_or_else(|error| panic!("{error}"));
    println!("{tally:?}");
    assert_eq!(tally.kills, ROUNDS);
    assert!(tally.answered > ROUNDS, "hardly anything was written: {tally:?}");
}
