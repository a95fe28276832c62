//! The log says why a Service's endpoints are what they are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, EVENTS, PODS, SERVICES},
    cluster::service,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

fn pod(name: &str, node: &str, containers: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "mc"}}, "spec": {"nodeName": node, "containers": containers}})
}

fn container(name: &str, port: i32, port_name: &str) -> Value {
    json!({"name": name, "image": "i", "ports": [{"name": port_name, "containerPort": port}]})
}

/// Report P12: the missing port of one pod, and the second match of another that is not taken; and a pod that is no endpoint.
#[tokio::test]
async fn p12_ports_that_are_missing_or_there_twice_are_named() {
    let objects = [
        ("/api/v1/nodes", json!({"metadata": {"name": "n"}})),
        (PODS, pod("twice", "n", &json!([container("a", 5001, "grpc"), container("b", 5002, "grpc")]))),
        (PODS, pod("without", "n", &json!([container("a", 5001, "http")]))),
        (PODS, pod("lost", "gone", &json!([container("a", 5001, "grpc")]))),
    ];
    let beside = Beside::start(BINARY, Account::Controllers, &objects, &["--leader-elect=false", "--v=4"])
        .await
        .unwrap();
    for (number, name) in ["twice", "without", "lost"].into_iter().enumerate() {
        let ip = format!("10.1.0.{}", number + 1);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        beside.send("PATCH", &format!("{PODS}/{name}/status"), &status).await.unwrap();
    }
    let ports = json!([{"port": 80, "targetPort": "grpc"}]);
    let mc = service("mc", &json!({"selector": {"app": "mc"}, "ports": ports}));
    beside.send("POST", SERVICES, &mc).await.unwrap();
    for words in [
        ["twice has grpc/TCP more than once", "5001 is taken, 5002 is not"],
        ["without has no port grpc/TCP", "service=\"mc\""],
        ["lost is left out", "its node gone does not exist"],
    ] {
        beside.until_logged(&words).await.unwrap();
    }
    // What keeps a pod out for good is told without being asked.
    let says = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        message.contains("skipping Pod lost") && message.contains("Node gone Not Found")
    };
    beside
        .until("the Event", EVENTS, |list| {
            list["items"].as_array().is_some_and(|events| events.iter().any(says))
        })
        .await
        .unwrap();
    beside.stop().await.unwrap();
}
