//! The recorded cases against the rules of this crate.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod creates;
mod statuses;
mod updates;

use std::path::Path;

use serde_json::Value;

/// The recorded cases with the names of their files, in the order of these.
fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/api");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}
