//! YAML bodies to JSON, keys sorted as Go's converter does.

use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// How many bytes of text aliases may add to a document of no length.
const SPARE: usize = 64 << 10;
/// How many values aliases may add to a document of no length.
const SPARE_EVENTS: usize = 10_000;

/// How deep a document may be nested: the parser calls itself for each level, and a thread has 2 MiB for all of them.
const MAX_DEPTH: usize = 64;

/// The JSON text of a YAML document and what is to be said about keys that it sets twice, in Go's words.
///
/// The last of several equal keys counts.
///
/// # Errors
/// What the parser says to a text that is no YAML.
pub fn to_json(body: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let text = first_document(text);
    let mut findings = Vec::new();
    let value = match parse(text, DuplicateKeyPolicy::Error) {
        Err(Error::DuplicateMappingKey { key, location }) => {
            findings.push(format!(
                "{FINDING}line {}: key {:?} already set in map",
                location.line(),
                key.unwrap_or_default()
            ));
            parse(text, DuplicateKeyPolicy::LastWins)
        }
        other => other,
    };
    let mut value = value.map_err(|error| words(&error))?;
    // Go writes a number without a fraction as an integer.
    super::integral(&mut value);
    let json = serde_json::to_vec(&value).map_err(|e| e.to_string())?;
    Ok((json, findings))
}

/// How a finding about a document begins where it is an error.
const FINDING: &str = "yaml: unmarshal errors:\n  ";

/// The text of the `Warning` header for a finding.
pub(crate) fn warning(finding: String) -> String {
    match finding.strip_prefix(FINDING) {
        Some(text) => text.to_owned(),
        None => finding,
    }
}

/// What is wrong with a document; bounds and aliases in Go's words, the rest in the parser's, with line and column.
fn words(error: &Error) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => words(error),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("yaml: exceeded max depth of {MAX_DEPTH}")
        }
        Error::Budget {
            breach: BudgetBreach::ScalarBytes { .. } | BudgetBreach::RecordedAnchorBytes { .. },
            ..
        }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => {
            "yaml: document contains excessive aliasing".to_owned()
        }
        Error::Budget { .. } => {
            "yaml: document has more nodes, anchors, aliases, merges or comments than can be worked on"
                .to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { location } => {
            format!("yaml: line {}: an anchor's value contains itself", location.line())
        }
        Error::NonFiniteFloat { value, location } => {
            format!("yaml: line {}: json: unsupported value: {value}", location.line())
        }
        other => format!("yaml: {other}"),
    }
}

/// The text up to the line that begins a second document, or ends the first.
fn first_document(text: &str) -> &str {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    };
    let (mut at, mut begun, mut marked) = (0, false, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        if is_marker(bare, "...") && begun {
            return &text[..at];
        }
        if is_marker(bare, "---") {
            if begun || marked {
                return &text[..at];
            }
            marked = true;
            begun = bare.len() > 4 && !bare[4..].trim_start().starts_with('#');
        } else if !begun {
            let content = bare.trim_start();
            begun = !(content.is_empty() || content.starts_with('#') || bare.starts_with('%'));
        }
        at += line.len();
    }
    text
}

fn parse(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    let length = text.len();
    // An alias stands for as much as its anchor; what all of them stand for together is bounded by the body's length.
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_total_scalar_bytes: 4 * length + SPARE,
            max_recorded_anchor_bytes: 4 * length + SPARE,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: length + SPARE_EVENTS },
    };
    serde_saphyr::from_str_with_options(text, options)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("b: 1\na: x\n", r#"{"a":"x","b":1}"#)]
    #[case("80: x\n", r#"{"80":"x"}"#)]
    #[case("a: yes\nb: \"yes\"\n", r#"{"a":true,"b":"yes"}"#)]
    #[case("a: &x {b: 1}\nc: *x\n", r#"{"a":{"b":1},"c":{"b":1}}"#)]
    #[case("a: 1.5\nb: 0x10\nc: ~\n", r#"{"a":1.5,"b":16,"c":null}"#)]
    #[case("{\"a\": [1, 2]}", r#"{"a":[1,2]}"#)]
    #[case("port: 80.0\n", r#"{"port":80}"#)]
    #[case("a: 1\n---\nb: 2\n", r#"{"a":1}"#)]
    #[case("# note\n---\na: 1\n--- # next\nb: [\n", r#"{"a":1}"#)]
    #[case("---\n# none\n---\na: 1\n", "null")]
    #[case("a: |\n  x\n  ---\n  y\n...\nb: 2\n", r#"{"a":"x\n---\ny\n"}"#)]
    fn documents(#[case] yaml: &str, #[case] json: &str) {
        let (text, findings) = to_json(yaml.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), json);
        assert!(findings.is_empty());
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let (text, findings) = to_json(b"a: 1\nb: 2\na: 3\n").unwrap();
        assert_eq!(text, br#"{"a":3,"b":2}"#);
        assert_eq!(findings, ["yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"]);
        assert_eq!(warning(findings[0].clone()), "line 3: key \"a\" already set in map");
    }

    #[test]
    fn aliases_that_stand_for_more_than_the_body_are_refused() {
        let mut doubling = vec!["a0: &a0 x".to_owned()];
        for at in 1..8 {
            let uses = vec![format!("*a{}", at - 1); 10].join(",");
            doubling.push(format!("a{at}: &a{at} [{uses}]"));
        }
        let excessive = "yaml: document contains excessive aliasing";
        assert_eq!(to_json(doubling.join("\n").as_bytes()).unwrap_err(), excessive);
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), vec!["*a"; 90].join(","));
        assert_eq!(to_json(long.as_bytes()).unwrap_err(), excessive);
    }

    #[test]
    fn what_is_made_of_too_much_is_said_to_be() {
        let many: Vec<String> = (0..80_000).map(|at| format!("k{at}: &a{at} x")).collect();
        let refused = to_json(many.join("\n").as_bytes()).unwrap_err();
        assert!(refused.starts_with("yaml: document has more nodes, anchors"), "{refused}");
    }

    #[rstest]
    #[case::lists("[", "]")]
    #[case::maps("{a: ", "}")]
    #[case::both("[{b: ", "}]")]
    fn depth(#[case] open: &'static str, #[case] close: &'static str) {
        let nested = |depth: usize| format!("a: {}1{}", open.repeat(depth), close.repeat(depth));
        let levels = open.matches(['[', '{']).count();
        // Three quarters of what a thread has are enough, also without optimisation.
        let deep = std::thread::Builder::new().stack_size(3 << 19);
        let read = deep.spawn(move || to_json(nested((MAX_DEPTH - 1) / levels).as_bytes())).unwrap();
        assert!(read.join().unwrap().is_ok());
        let nested = |depth: usize| format!("a: {}1{}", open.repeat(depth), close.repeat(depth));
        let refused = to_json(nested(MAX_DEPTH).as_bytes()).unwrap_err();
        assert_eq!(refused, "yaml: exceeded max depth of 64");
        assert!(to_json(nested(100_000).as_bytes()).is_err());
    }

    #[rstest]
    #[case("a: [", "yaml: ")]
    #[case("a: b: c", "yaml: ")]
    #[case("a: *b", "yaml: ")]
    #[case("b: 1\na: &a [*a]", "yaml: line 2: an anchor's value contains itself")]
    #[case("a: .nan", "yaml: line 1: json: unsupported value: .nan")]
    fn what_is_no_yaml_is_refused(#[case] yaml: &str, #[case] words: &str) {
        let found = to_json(yaml.as_bytes()).unwrap_err();
        assert!(found.starts_with(words), "{found}");
    }
}
