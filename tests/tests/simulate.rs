//! `simulate` on manifests, and on a server whose controllers are done: there is nothing to write, until something is changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Stdio;

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, ENDPOINTS, PODS, SERVICES, SLICES},
};
use tokio::{io::AsyncWriteExt as _, process::Command};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

const MANIFESTS: &str = "\
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports:
  - {port: 80, targetPort: 8080}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: i}]}
";

/// What it prints of these objects; what it says if it fails.
async fn simulate(objects: &str, arguments: &[&str]) -> Result<String, String> {
    let mut child = Command::new(BINARY)
        .arg("simulate")
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What does not read ends before all is written.
    let _ = child.stdin.take().unwrap().write_all(objects.as_bytes()).await;
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test]
async fn manifests_and_a_drained_node_are_simulated() {
    let arguments = [
        "-f",
        "-",
        "--set",
        "node.node-1=drained",
        "--set",
        "service.default/shop.trafficDistribution=PreferSameZone",
    ];
    let text = simulate(MANIFESTS, &arguments).await.unwrap();
    for words in [
        "Create EndpointSlice default/shop-sim",
        "make it with 4 endpoints",
        "note: no Node is known: 3 are made up, in as many zones",
        "note: no Pod is known: 4 ready ones are made up for shop",
        "node node-1 drained: its pods terminate: 2 writes (1 EndpointSlice, 1 Endpoints)",
        "ready is true and should be false; terminating is false and should be true",
        "Service default/shop: spec.trafficDistribution = \"PreferSameZone\": 1 write (1 EndpointSlice)",
        "its hints should be others",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let found: Value = serde_json::from_str(
        &simulate(MANIFESTS, &[&arguments[..], &["-o", "json"]].concat()).await.unwrap(),
    )
    .unwrap();
    assert_eq!((found["kind"].as_str(), found["steps"].as_array().unwrap().len()), (Some("Simulation"), 4));
    let totals = &found["steps"][0]["totals"];
    assert_eq!((&totals["byKind"]["EndpointSlice"], &totals["eventsToNodes"]), (&json!(1), &json!(3)));
}

#[tokio::test]
async fn what_cannot_be_simulated_is_said() {
    for (objects, arguments, words) in [
        ("", &[][..], "give objects with -f FILE"),
        (
            "kind: Secret\napiVersion: v1\nmetadata: {name: a}\n",
            &["-f", "-"],
            "there is no Service in what was read",
        ),
        (
            "kind: Service\napiVersion: v1\nmetadata: {name: a}\nspec: 7\n",
            &["-f", "-"],
            "-f -: Service \"a\": invalid type",
        ),
        (MANIFESTS, &["-f", "-", "--set", "pod.a=b"], "is no edit"),
    ] {
        let said = simulate(objects, arguments).await.unwrap_err();
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

#[tokio::test]
async fn of_a_cluster_that_is_right_there_is_nothing_to_write() {
    let node = json!({"metadata": {"name": "n1"}});
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "shop"}}, "spec": {"nodeName": "n1", "containers": [
        {"name": "c", "image": "i"}]}});
    let objects = [("/api/v1/nodes", node), (PODS, pod)];
    let beside =
        Beside::start(BINARY, Account::Controllers, &objects, &["--leader-elect=false"]).await.unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "conditions": [
        {"type": "Ready", "status": "True"}]}});
    beside.send("PATCH", &format!("{PODS}/p/status"), &status).await.unwrap();
    let shop =
        json!({"metadata": {"name": "shop"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "shop"}}});
    beside.send("POST", SERVICES, &shop).await.unwrap();
    let listed = |list: &Value| {
        let slices = list["items"].as_array().into_iter().flatten();
        slices
            .filter_map(|slice| slice["endpoints"].as_array())
            .flatten()
            .any(|e| e["conditions"]["ready"] == true && e["nodeName"] == "n1")
    };
    beside.until("an endpoint", SLICES, listed).await.unwrap();
    let made = |object: &Value| object["subsets"][0]["addresses"].is_array();
    beside.until("Endpoints", &format!("{ENDPOINTS}/shop"), made).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, beside.server.kubeconfig()).unwrap();
    let namespace = &beside.server.namespace;
    let shop = format!("{namespace}/shop");
    let arguments = ["--from-server", "--kubeconfig", file.to_str().unwrap(), "-o", "json", "-n", namespace];
    let before = beside.send("GET", SLICES, &Value::Null).await.unwrap();
    let edit = format!("service.{shop}=external-name:shop.example");
    let edits = ["--set", &edit];
    let found = simulate("", &[&arguments[..], &edits].concat()).await.unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    let of_shop = |step: usize| -> Vec<(String, String)> {
        let writes = found["steps"][step]["writes"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        writes
            .filter(|w| w["service"] == shop.as_str())
            .map(|w| (text(&w["verb"]), text(&w["kind"])))
            .collect()
    };
    assert_eq!(of_shop(0), [], "{found:#}");
    let deleted = |kind: &str| ("Delete".to_owned(), kind.to_owned());
    assert_eq!(of_shop(1), [deleted("EndpointSlice"), deleted("Endpoints")]);
    // Nothing of that was written.
    assert_eq!(beside.send("GET", SLICES, &Value::Null).await.unwrap(), before);
    beside.stop().await.unwrap();
}
