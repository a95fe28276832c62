//! The `webhook` command in front of a lab: it knows what the lab has, over HTTPS, and ends in order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use service_tests::{
    cluster::Lab,
    http::{Client, Target},
    launch::{kubeconfig_text, start_controllers},
    process::Process,
    tls,
};
use tokio::{process::Command, time::sleep};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const OWN: &str = "/apis/service-control-plane.io/v1alpha1";

struct Webhook {
    process: Process,
    client: Client,
    url: String,
    _dir: tempfile::TempDir,
}

/// A webhook that watches the lab and is ready.
async fn webhook(lab: &Lab) -> Webhook {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url())).unwrap();
    let mut command = Command::new(BINARY);
    command
        .args(["webhook", "--webhook-port=0", "--bind-address=127.0.0.1", "--kubeconfig"])
        .arg(&kubeconfig);
    let process = start_controllers(command, &dir.path().join("log")).await.unwrap_or_else(|e| panic!("{e}"));
    let output = process.output();
    let port = output.split_once("the webhook listens address=127.0.0.1:").unwrap().1;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let url = format!("https://127.0.0.1:{port}");
    let target = Target::new(&url, tls::trusting_anyone().unwrap(), None).unwrap();
    Webhook { process, client: Client::new(target), url, _dir: dir }
}

async fn ask(webhook: &Webhook, uid: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": uid, "resource": {"group": "", "version": "v1", "resource": "services"}, "name": "web",
        "namespace": "default", "operation": "CREATE", "object": object, "oldObject": null, "dryRun": false}});
    let (code, answer) = webhook.client.call("POST", "/mutate", &review).await.unwrap();
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["response"]["uid"], uid);
    answer["response"].clone()
}

#[tokio::test]
async fn it_steers_by_the_pools_that_there_are_at_the_moment() {
    let lab = Lab::start(BINARY, &["10.96.0.0/24"], "30000-30009").await.unwrap();
    let webhook = webhook(&lab).await;
    assert_eq!(ask(&webhook, "before").await, json!({"uid": "before", "allowed": true}));
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool",
        "metadata": {"name": "gold"}, "spec": {"addresses": ["10.96.0.128/28"]}});
    lab.client.call("POST", &format!("{OWN}/servicepools"), &pool).await.unwrap();
    let mut tries = 0;
    while !ask(&webhook, &format!("uid-{tries}")).await["patch"].is_string() {
        tries += 1;
        assert!(tries < 2000, "the pool is not heeded");
        sleep(Duration::from_millis(5)).await;
    }
    let (code, text) = webhook.client.call("POST", "/mutate", &json!({"kind": "Pod"})).await.unwrap();
    assert_eq!(code, 400, "{text}");
    webhook.process.terminate().await.unwrap();
    lab.stop().await.unwrap();
}

/// An API server that does not trust the certificate tells nobody but its own log: the webhook says so too, once.
#[tokio::test]
async fn a_client_that_does_not_trust_its_certificate_is_told_of() {
    let lab = Lab::start(BINARY, &["10.96.0.0/24"], "30000-30009").await.unwrap();
    let webhook = webhook(&lab).await;
    let target = Target::new(&webhook.url, tls::trusting(b"").unwrap(), None).unwrap();
    for _ in 0..2 {
        let review = json!({"kind": "AdmissionReview"});
        Client::new(target.clone()).call("POST", "/mutate", &review).await.unwrap_err();
    }
    let told =
        || webhook.process.output().matches("a client does not trust the webhook's certificate").count();
    while told() == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ask(&webhook, "others").await["allowed"], true, "whoever trusts it is answered");
    let output = webhook.process.output();
    assert_eq!(told(), 1, "{output}");
    assert!(output.contains("alert=UnknownCA") && output.contains("see caBundle"), "{output}");
    webhook.process.terminate().await.unwrap();
    lab.stop().await.unwrap();
}
