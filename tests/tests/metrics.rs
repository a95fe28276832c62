//! The series that upstream has too are upstream's by name, type, labels and buckets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, ENDPOINTS, SERVICES, SLICES},
    cluster::service,
    http::request,
    series::{Family, families},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const UPSTREAM: &str = include_str!("../upstream-metrics.tsv");
/// What upstream has and this program cannot have.
const NOT_HERE: [(&str, &str); 2] = [
    ("rest_client_exec_plugin_", "of the Go client's plugin for credentials"),
    ("rest_client_transport_", "of the Go client's connections"),
];

/// What upstream has, by name.
fn upstream() -> BTreeMap<String, Family> {
    let lines = UPSTREAM.lines().filter(|line| !line.starts_with('#'));
    let list = |text: &str| -> Vec<String> {
        if text == "-" { Vec::new() } else { text.split(',').map(ToOwned::to_owned).collect() }
    };
    let family = |line: &str| {
        let [name, kind, labels, buckets] =
            <[&str; 4]>::try_from(line.split('\t').collect::<Vec<_>>()).unwrap();
        let labels: BTreeSet<String> = list(labels).into_iter().collect();
        let buckets = list(buckets).iter().map(|bound| bound.parse().unwrap()).collect();
        (name.to_owned(), Family { kind: kind.to_owned(), labels, buckets })
    };
    lines.map(family).collect()
}

/// Controllers that have done a little of everything.
async fn worked() -> Beside {
    let hello = json!({"selector": {"app": "hello"}, "type": "NodePort", "trafficDistribution": "PreferSameZone",
        "ports": [{"port": 80}]});
    let bare = json!({"ports": [{"port": 80}]});
    let endpoints = json!({"metadata": {"name": "bare"},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}]}]});
    let objects =
        [(SERVICES, service("hello", &hello)), (SERVICES, service("bare", &bare)), (ENDPOINTS, endpoints)];
    let open = "--authorization-always-allow-paths=/metrics,/readyz";
    let beside = Beside::start(BINARY, Account::Controllers, &objects, &[open]).await.unwrap();
    // What is taken already is asked for: an address and a node port.
    let hello = beside.send("GET", &format!("{SERVICES}/hello"), &Value::Null).await.unwrap();
    let services = beside.server.path("", "services");
    for spec in [
        json!({"clusterIP": hello["spec"]["clusterIP"], "ports": [{"port": 80}]}),
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": hello["spec"]["ports"][0]["nodePort"]}]}),
    ] {
        let refused = beside.server.client.call("POST", &services, &service("refused", &spec)).await.unwrap();
        assert_eq!(refused.0, 422, "{}", refused.1);
    }
    // The slice of `kubernetes` is the server's own.
    let managed =
        |slice: &&Value| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].is_string();
    let two =
        |list: &Value| list["items"].as_array().is_some_and(|all| all.iter().filter(managed).count() == 2);
    beside.until("two slices", SLICES, two).await.unwrap();
    beside.until_logged(&["wrote slices", "mirroring"]).await.unwrap();
    beside
}

#[tokio::test]
async fn what_upstream_has_too_is_the_same_here() {
    let beside = worked().await;
    let (code, text) = beside.ask_controllers("/metrics", None).await.unwrap();
    assert_eq!(code, 200, "{text}");
    let scraped =
        beside.server.client.send(request("GET", "/metrics", String::new().into()).unwrap()).await.unwrap();
    let (controllers, mut all) = (families(&text), families(std::str::from_utf8(&scraped.body).unwrap()));
    all.extend(controllers.clone());
    let mut wrong = Vec::new();
    for (name, theirs) in upstream() {
        if NOT_HERE.iter().any(|(prefix, _)| name.starts_with(prefix)) {
            assert!(!controllers.contains_key(&name), "{name} is there after all");
            continue;
        }
        // A counter of what did not happen has no series, and so no labels that could be seen.
        match all.get(&name) {
            Some(own) if own.agrees(&theirs) => {}
            own => wrong.push(format!("{name}: {own:?} instead of {theirs:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    beside.stop().await.unwrap();
}
