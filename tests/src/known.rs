//! Cases that may fail, each with one of the two reasons that `tests/conformance/README.md` allows.

use std::collections::{BTreeMap, BTreeSet};

/// Why a case may fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The recorded behaviour is plainly wrong and ours is right; says where ours is described.
    Better(String),
    /// Only a message of the Go runtime or its JSON decoder differs.
    Wording(String),
}

/// A line of the list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {text:?} must read `case-name: better: <where>` or `case-name: wording: <what>`, each case once"
)]
pub struct BadLine {
    /// Counted from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// Reads the list; empty lines and lines that start with `#` do not count.
pub fn parse(text: &str) -> Result<BTreeMap<String, Reason>, BadLine> {
    let mut known = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || BadLine { line: index + 1, text: line.to_owned() };
        let mut parts = line.splitn(3, ':').map(str::trim);
        let (Some(name), Some(kind), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad());
        };
        let reason = match kind {
            "better" => Reason::Better(rest.to_owned()),
            "wording" => Reason::Wording(rest.to_owned()),
            _ => return Err(bad()),
        };
        if name.is_empty() || rest.is_empty() || known.insert(name.to_owned(), reason).is_some() {
            return Err(bad());
        }
    }
    Ok(known)
}

/// What is wrong with the list, given how all cases went.
pub fn complaints(known: &BTreeMap<String, Reason>, went: &BTreeMap<String, bool>) -> BTreeSet<String> {
    let mut complaints = BTreeSet::new();
    for name in known.keys() {
        match went.get(name) {
            None => complaints.insert(format!("{name} is listed in known-failures.txt and does not exist")),
            Some(true) => complaints.insert(format!("{name} is listed in known-failures.txt and passes")),
            Some(false) => false,
        };
    }
    let failed = went.iter().filter(|(name, passed)| !**passed && !known.contains_key(*name));
    complaints.extend(failed.map(|(name, _)| format!("{name} fails")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_held_against_what_happened() {
        let known =
            parse("# why\n\na: better: docs/differences.md#a: b\nb: wording: Go's decoder\nc: better: x\n")
                .unwrap();
        assert_eq!(known["a"], Reason::Better("docs/differences.md#a: b".into()));
        let went = [("a", false), ("b", true), ("d", false), ("e", true)]
            .map(|(name, passed)| (name.to_owned(), passed));
        let found: Vec<String> = complaints(&known, &went.into()).into_iter().collect();
        assert_eq!(
            found,
            [
                "b is listed in known-failures.txt and passes",
                "c is listed in known-failures.txt and does not exist",
                "d fails"
            ]
        );
    }

    #[test]
    fn bad_lines_are_refused() {
        for bad in
            ["a", "a: better", "a: better:", "a: later: x", ": better: x", "a: better: x\na: better: y"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
