//! The recorded cases against plans and caches alone: a store in memory stands in for the server.
//!
//! What crosses the wire is JSON as on the wire; what is left out is HTTP, time and concurrency. The
//! same cases run against a real server in the crate `service-tests`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod matcher;
mod replay;
mod shadow;
mod store;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use service_controllers::differences::Named;
use shadow::Found;

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

/// Cases in which upstream leaves something until it is started again; whoever begins beside it finds it at once.
const AT_THE_START: [(&str, &str); 2] = [
    ("ep-leftover-later", "leftover Endpoints are looked for at the start, as ep-leftover-at-start shows"),
    ("eps-slice-owner-removed-by-hand", "a slice that its Service does not own is taken for somebody else's"),
];

/// The recorded cases but those of ServiceCIDRs, by name.
fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/controllers");
    let only = std::env::var("CASE").unwrap_or_default();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the recorded cases are part of the repository")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let named =
        paths.into_iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path));
    named
        .filter(|(name, _)| !name.starts_with("cidr-") && name.contains(&only))
        .map(|(name, path)| (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()))
        .collect()
}

#[test]
fn recorded_cases_hold() {
    let (mut ran, mut failures) = (0, Vec::new());
    for (name, case) in cases() {
        let better = BETTER.iter().any(|(case, _)| *case == name);
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

/// Beside upstream's controllers nothing differs but what the page of differences has, and each of those is called by it.
#[test]
fn beside_upstream_only_known_differences_are_found() {
    let (mut looked, mut failures) = (0, Vec::new());
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, case) in cases() {
        let (states, found) = match shadow::beside(&case, replay::limits(&case)) {
            Ok(found) => found,
            Err(why) => {
                failures.push(format!("{name}: {why}"));
                continue;
            }
        };
        looked += states;
        for Found { step, write, named } in found {
            match named {
                Named::Known(row) => *rows.entry(row).or_default() += 1,
                _ if AT_THE_START.iter().any(|(case, _)| *case == name) => {}
                _ => failures.push(format!("{name}, step {step}: {write:.2000}")),
            }
        }
    }
    println!("{looked} states; differences by row: {rows:#?}");
    let better: Vec<&str> = rows.keys().copied().collect();
    assert!(better.len() >= 9, "rows that no case shows any more: {better:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
