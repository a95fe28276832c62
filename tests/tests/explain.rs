//! `explain` on a server and on what kubectl wrote of it: both say the same, and what is wrong is said in words.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, ENDPOINTS, OWN, PODS, SERVICES, SLICES},
};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

struct Output {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Output {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

async fn explain(arguments: &[&str]) -> Output {
    let output =
        Command::new(BINARY).arg("explain").args(arguments).env_remove("KUBECONFIG").output().await.unwrap();
    Output {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn pod(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": "n1", "containers": [
        {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]}})
}

/// The controllers of endpoints, and the one by whom each node port has its NodePort.
const CONTROLLERS: &str = "--controllers=*,node-port-audit-controller";

/// A Service with a ready pod, one whose readiness gate is closed, and one whose label is wrong.
async fn start() -> Beside {
    let node = json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}});
    let mut gated = pod("gated", &json!({"app": "shop", "tier": "front"}));
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/lb"}]);
    let objects = [
        ("/api/v1/nodes", node),
        (PODS, pod("good", &json!({"app": "shop", "tier": "front"}))),
        (PODS, gated),
        (PODS, pod("other", &json!({"app": "shop", "tier": "back"}))),
    ];
    let beside = Beside::start(BINARY, Account::Admin, &objects, &["--leader-elect=false", CONTROLLERS])
        .await
        .unwrap();
    for (number, (name, ready)) in
        [("good", "True"), ("gated", "False"), ("other", "True")].into_iter().enumerate()
    {
        let ip = format!("10.1.0.{}", number + 1);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [
            {"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": "True"}]}});
        beside.send("PATCH", &format!("{PODS}/{name}/status"), &status).await.unwrap();
    }
    let shop = json!({"metadata": {"name": "shop", "labels": {"team": "a"}}, "spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [
        {"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080}], "selector": {"app": "shop", "tier": "front"}}});
    beside.send("POST", SERVICES, &shop).await.unwrap();
    let has_two = |list: &Value| {
        let slices = list["items"].as_array().into_iter().flatten();
        slices.filter_map(|slice| slice["endpoints"].as_array()).any(|endpoints| endpoints.len() == 2)
    };
    beside.until("two endpoints", SLICES, has_two).await.unwrap();
    let made = |object: &Value| object["subsets"][0]["notReadyAddresses"].is_array();
    beside.until("Endpoints", &format!("{ENDPOINTS}/shop"), made).await.unwrap();
    let there = |entry: &Value| entry["spec"]["parentRef"]["name"] == "shop";
    beside.until("the NodePort", &format!("{OWN}/nodeports/30080"), there).await.unwrap();
    beside
}

fn kubeconfig(beside: &Beside, dir: &Path) -> PathBuf {
    let file = dir.join("kubeconfig");
    std::fs::write(&file, beside.server.kubeconfig()).unwrap();
    file
}

async fn dump(beside: &Beside, dir: &Path) -> PathBuf {
    let mut text = String::new();
    for path in [
        "/api/v1/services",
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/events",
        "/api/v1/endpoints",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/networking.k8s.io/v1/servicecidrs",
        "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/service-control-plane.io/v1alpha1/nodeports",
        "/apis/service-control-plane.io/v1alpha1/nodeportranges",
    ] {
        let (code, list) = beside.server.client.get(path).await.unwrap();
        assert_eq!(code, 200, "{path}");
        text += &list.to_string();
    }
    let file = dir.join("dump.json");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn a_server_and_a_dump_of_it_are_explained_alike() {
    let beside = start().await;
    let dir = tempfile::tempdir().unwrap();
    let (file, dumped) = (kubeconfig(&beside, dir.path()), dump(&beside, dir.path()).await);
    let (shop, live) =
        (format!("{}/shop", beside.server.namespace), ["--kubeconfig", file.to_str().unwrap()]);
    let dumped = ["--dump", dumped.to_str().unwrap()];
    let asked = |more: &[&'static str], place: [&str; 2]| {
        let words: Vec<String> =
            ["svc", &shop].iter().chain(more).chain(&place).map(|word| (*word).to_owned()).collect();
        async move { explain(&words.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };
    let (said, from_dump) =
        (asked(&["-o", "json"], live).await.json(), asked(&["-o", "json"], dumped).await.json());
    for part in [
        "service",
        "addresses",
        "ports",
        "counts",
        "pods",
        "nearMisses",
        "slices",
        "hints",
        "endpoints",
        "changes",
    ] {
        assert_eq!(said[part], from_dump[part], "{part}");
    }
    assert_eq!(said["apiVersion"], "explain.service-control-plane.io/v1");
    let reasons: Vec<(&str, &str)> = said["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| (pod["name"].as_str().unwrap(), pod["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(reasons, [("gated", "ReadinessGate"), ("good", "Ready")]);
    let near = &said["nearMisses"][0];
    assert_eq!((&near["reason"], &near["pods"]["first"]), (&json!("OneLabelOff"), &json!(["other"])));
    let (_, slices) = beside.server.client.get(&beside.server.at(SLICES)).await.unwrap();
    let written = &slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|slice| slice["metadata"]["generateName"] == "shop-");
    assert_eq!(said["pods"][0]["families"][0]["slice"], written.unwrap()["metadata"]["name"]);
    assert_eq!(said["slices"][0]["state"], "Right");
    assert_eq!(said["endpoints"]["state"], "Right");
    let address = &said["addresses"][0]["origin"];
    assert_eq!(
        (&address["range"], &address["band"], &address["ledger"]["agrees"]),
        (&json!("kubernetes"), &json!("Lower"), &json!(true))
    );
    assert_eq!(said["ports"][0]["origin"]["ledger"]["name"], "30080");
    let text = asked(&[], live).await.out;
    for words in [
        &format!("Service {shop}: NodePort, IPv4, selector app=shop,tier=front"),
        "PODS: 2 selected, 1 ready, 1 not ready, 0 left out",
        "its readiness gate example.com/lb is not True",
        "1 pod, OneLabelOff: they have tier=back, and the selector wants tier=front: other",
        "taken by NodePort 30080",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
    let yaml = asked(&["-o", "yaml"], dumped).await.out;
    assert!(yaml.starts_with("addresses:") && yaml.contains("\nkind: ServiceExplanation\n"), "{yaml}");
    beside.stop().await.unwrap();
}

#[tokio::test]
async fn all_that_labels_select_is_explained() {
    let beside = start().await;
    let dir = tempfile::tempdir().unwrap();
    let (file, dumped) = (kubeconfig(&beside, dir.path()), dump(&beside, dir.path()).await);
    let (live, dumped) = (["--kubeconfig", file.to_str().unwrap()], ["--dump", dumped.to_str().unwrap()]);
    let namespace = &beside.server.namespace;
    let asked = |what: &[&'static str], place: [&str; 2]| {
        let arguments: Vec<String> =
            what.iter().chain(&["-n", namespace]).chain(&place).map(|text| (*text).to_owned()).collect();
        async move { explain(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };
    for place in [live, dumped] {
        let list = asked(&["services", "-l", "team in (a, b)", "-o", "json"], place).await.json();
        assert_eq!(list["kind"], "ServiceExplanationList");
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let one = asked(&["svc/shop", "-o", "json"], place).await.json();
        for part in ["findings", "addresses", "ports", "pods", "slices", "endpoints", "changes"] {
            assert_eq!(list["items"][0][part], one[part], "{part}");
        }
        let pods = asked(&["pods", "-l", "app=shop,tier=front", "-o", "json"], place).await.json();
        let names: Vec<&Value> =
            pods["items"].as_array().unwrap().iter().map(|item| &item["pod"]["name"]).collect();
        assert_eq!(names, ["gated", "good"]);
        let text = asked(&["svc", "-l", "team=a"], place).await.out;
        assert!(text.starts_with(&format!("Service {namespace}/shop: NodePort")), "{text}");
        let none = asked(&["svc", "-l", "team=c"], place).await;
        assert_eq!(none.code, Some(1));
        assert!(
            none.err.contains("no Service in namespace")
                && none.err.contains("has labels that the selector selects"),
            "{}",
            none.err
        );
    }
    beside.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_explained_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump.yaml");
    let dump = |text: &str| std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: hello, namespace: demo}\nspec: {selector: {a: b}}\n";
    for (text, words) in [
        (service, "there is no Service demo/helo; is it hello?"),
        ("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n", "it ends in the middle of an object"),
        (
            "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{\"meta",
            "it ends in the middle of an object",
        ),
        ("services:\n  web:\n    image: nginx\n", "this is no Kubernetes object"),
        ("a: [1\n", "no YAML, at line 1"),
        ("", "Service demo/helo cannot be looked at: the dump has no services"),
    ] {
        dump(text);
        let said = explain(&["service", "demo/helo", "--dump", path]).await;
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains(words), "{words:?} is not in {}", said.err);
    }
    dump(service);
    let found = explain(&["service", "demo/hello", "--dump", path, "-o", "json"]).await.json();
    let unknown: Vec<&str> = found["unknown"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unknown| unknown["kind"].as_str().unwrap())
        .collect();
    assert!(
        unknown.contains(&"Pod") && unknown.contains(&"EndpointSlice") && !unknown.contains(&"Service"),
        "{unknown:?}"
    );
}
