//! `manifests/monitoring`: alerts and dashboard are what Prometheus and Grafana read, and ask for nothing that there is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use promql_parser::{
    parser::{Expr, parse},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;
use service_tests::{account::Account, beside::Beside, series::families};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const ALERTS: &str = include_str!("../../manifests/monitoring/alerts.yaml");
const DASHBOARD: &str = include_str!("../../manifests/monitoring/dashboard.json");
const KUSTOMIZATION: &str = include_str!("../../manifests/monitoring/kustomization.yaml");
/// All series: a counter of what did not happen yet is in no scrape.
const LISTED: &str = include_str!("../../controllers/tests/metrics.rs");
const OF_THE_LEDGER: &str = "--controllers=*,service-allocation-controller,ip-address-audit-controller,node-port-audit-controller,node-port-range-controller,service-pool-controller";

/// The rules: name of the alert and the rule.
fn rules() -> Vec<(String, Value)> {
    let object: Value = serde_saphyr::from_str(ALERTS).unwrap();
    let groups = object["spec"]["groups"].as_array().unwrap().clone();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.map(|rule| (rule["alert"].as_str().unwrap().to_owned(), rule)).collect()
}

/// The expressions of the dashboard, by the title of their panel, with an interval where Grafana puts one in.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let mut expressions = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap().to_owned();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
            expressions.push((title.clone(), expression));
        }
    }
    expressions
}

fn parsed(whose: &str, expression: &str) -> Expr {
    parse(expression).unwrap_or_else(|error| panic!("{whose}: {expression}: {error}"))
}

/// Collects the metrics that an expression asks for.
#[derive(Default)]
struct Asked(BTreeSet<String>);

impl ExprVisitor for Asked {
    type Error = ();

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, ()> {
        let name = match expression {
            Expr::VectorSelector(selector) => &selector.name,
            Expr::MatrixSelector(selector) => &selector.vs.name,
            Expr::Call(call) => {
                for argument in &call.args.args {
                    walk_expr(self, argument)?;
                }
                return Ok(true);
            }
            _ => return Ok(true),
        };
        self.0.extend(name.clone());
        Ok(true)
    }
}

#[test]
fn every_rule_parses_and_says_what_to_do() {
    for (name, rule) in rules() {
        parsed(&name, rule["expr"].as_str().unwrap());
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {text}"
            );
        }
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
    }
}

#[test]
fn the_kustomization_has_all_files_of_its_folder() {
    let object: Value = serde_saphyr::from_str(KUSTOMIZATION).unwrap();
    assert_eq!(object["resources"], serde_json::json!(["servicemonitor.yaml", "alerts.yaml"]));
    let files = &object["configMapGenerator"][0]["files"];
    assert_eq!(files, &serde_json::json!(["service-controllers.json=dashboard.json"]));
}

#[tokio::test]
async fn every_metric_that_is_asked_for_exists() {
    let open = "--authorization-always-allow-paths=/metrics,/readyz";
    let beside = Beside::start(BINARY, Account::Admin, &[], &[open, OF_THE_LEDGER]).await.unwrap();
    beside.until_logged(&["leading"]).await.unwrap();
    let (code, text) = beside.ask_controllers("/metrics", None).await.unwrap();
    assert_eq!(code, 200, "{text}");
    let known = families(&text);
    let rules = rules().into_iter().map(|(name, rule)| (name, rule["expr"].as_str().unwrap().to_owned()));
    let mut missing = Vec::new();
    for (whose, expression) in rules.chain(panels()) {
        let mut asked = Asked::default();
        walk_expr(&mut asked, &parsed(&whose, &expression)).unwrap();
        assert!(!asked.0.is_empty(), "{whose}: {expression} asks for nothing");
        for name in asked.0 {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_histogram = |name: &str| known.get(name).is_some_and(|family| family.kind == "histogram");
            let is_counter = LISTED.contains(&format!("\n{name} counter"));
            if !known.contains_key(&name) && !of_histogram.is_some_and(is_histogram) && !is_counter {
                missing.push(format!("{whose}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "nobody has these:\n{}", missing.join("\n"));
    beside.stop().await.unwrap();
}
