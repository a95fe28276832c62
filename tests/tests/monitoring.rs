//! `manifests/monitoring`: the alerts are rules that Prometheus reads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

const ALERTS: &str = include_str!("../../manifests/monitoring/alerts.yaml");

/// The rules: name of the alert and the rule.
fn rules() -> Vec<(String, Value)> {
    let object: Value = serde_saphyr::from_str(ALERTS).unwrap();
    let groups = object["spec"]["groups"].as_array().unwrap().clone();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule)).collect()
}

#[test]
fn every_rule_parses_and_says_what_to_do() {
    for (name, rule) in rules() {
        let expression = rule["expr"].as_str().unwrap();
        promql_parser::parser::parse(expression).unwrap_or_else(|error| panic!("{name}: {error}"));
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {text}"
            );
        }
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
    }
}
