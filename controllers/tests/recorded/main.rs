//! The recorded cases against plans and caches alone: a store in memory stands in for the server.
//!
//! What crosses the wire is JSON as on the wire; what is left out is HTTP, time and concurrency. The
//! same cases run against a real server in the crate `service-tests`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod matcher;
mod replay;
mod store;

use std::path::Path;

/// Cases whose recorded behaviour ours is better than; each is listed in `docs/differences.md`.
const BETTER: [(&str, &str); 11] = [
    ("ep-externalname", "an external name has no endpoints"),
    ("ep-hand-edited", "noticed at once"),
    ("ep-no-node", "the other pods are listed"),
    ("ep-unknown-node", "a pod of a node that does not exist is left out, as it is of the slices"),
    ("eps-node-bound-later", "noticed at once"),
    ("eps-phase-failed-readiness-unchanged", "noticed at once"),
    ("eps-selector-removed", "a slice nobody keeps is deleted"),
    ("eps-slice-held-by-finalizer", "a slice that is being deleted is passed over"),
    ("eps-to-externalname", "an external name has no endpoints"),
    ("eps-zone-label-later", "noticed at once"),
    ("mirror-selector-all-controllers", "a slice nobody keeps is deleted"),
];

#[test]
fn recorded_cases_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/controllers");
    let only = std::env::var("CASE").unwrap_or_default();
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("the recorded cases are part of the repository")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    names.sort();
    let (mut ran, mut failures) = (0, Vec::new());
    for path in names {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name.starts_with("cidr-") || !name.contains(&only) {
            continue;
        }
        let better = BETTER.iter().any(|(case, _)| *case == name);
        let case: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        ran += 1;
        match replay::replay(&case) {
            Ok(()) if better => failures.push(format!("{name}: passes, but is listed as better")),
            Err(why) if !better => failures.push(format!("{name}: {why}")),
            Ok(()) | Err(_) => {}
        }
    }
    println!("{ran} cases, {} failures", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
