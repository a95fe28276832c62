//! Random operations against a simple model, with restarts: no address or port is given twice, none leaks, a refused request
//! changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use service_tests::{launch::Launcher, model};

const OPERATIONS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_does_what_a_simple_model_says() {
    let launcher = Launcher::Binary(PathBuf::from(env!("CARGO_BIN_EXE_control-plane-under-test")));
    for seed in 1..=2 {
        let dir = tempfile::tempdir().unwrap();
        let seen = model::run(&launcher, dir.path(), OPERATIONS, seed)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        println!("seed {seed}: {seen:?}");
        assert!(seen.written > 80 && seen.deleted > 30, "{seen:?}");
        assert!(
            seen.taken > 5 && seen.full > 5 && seen.restarts > 4,
            "a run that never runs full shows little: {seen:?}"
        );
    }
}
