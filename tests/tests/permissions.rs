//! `manifests/rbac.yaml` allows what the controllers ask for, and nothing that they do not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    beside::{Beside, ENDPOINTS, PODS, SERVICES, SLICES},
    cluster::{SERVICE_CIDRS, service},
    permissions::{Asked, written},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const OF_WEB: &str = "labelSelector=kubernetes.io%2Fservice-name%3Dweb";
/// Asked by an admission plugin of the API server in the name of who writes.
const ASKED_BY_ADMISSION: [&str; 2] = ["update /endpoints/finalizers", "update /services/finalizers"];

/// A Service whose pod comes, changes and goes, and then loses its endpoints in each possible way.
async fn live(beside: &Beside) {
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    beside.send("POST", PODS, &pod).await.unwrap();
    for ready in ["True", "False"] {
        let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": ready}]}});
        beside.send("PATCH", &format!("{PODS}/p/status"), &status).await.unwrap();
        beside
            .until("the endpoint", &format!("{SLICES}?{OF_WEB}"), |list| {
                list["items"][0]["endpoints"][0]["conditions"]["ready"] == (ready == "True")
            })
            .await
            .unwrap();
        beside
            .until("the address", &format!("{ENDPOINTS}/web"), |object| {
                let key = if ready == "True" { "addresses" } else { "notReadyAddresses" };
                object["subsets"][0][key][0]["ip"] == "10.0.0.1"
            })
            .await
            .unwrap();
    }
    // Without zones, hints cannot be given, and an Event says so.
    let hints = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    beside.send("PATCH", &format!("{SERVICES}/web"), &hints).await.unwrap();
    beside.until_asked("create", "events").await.unwrap();
    // Without a selector, the Endpoints are mirrored, and read for that.
    beside.send("PATCH", &format!("{SERVICES}/web"), &json!({"spec": {"selector": null}})).await.unwrap();
    beside.until_asked("get", "endpoints").await.unwrap();
    beside
        .send("PATCH", &format!("{SERVICES}/web"), &json!({"spec": {"selector": {"app": "web"}}}))
        .await
        .unwrap();
    beside.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    beside.until_asked("delete", "endpoints").await.unwrap();
    beside.until_asked("delete", "endpointslices").await.unwrap();
}

/// A ServiceCIDR that comes and goes.
async fn range(beside: &Beside) {
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "more"}, "spec": {"cidrs": ["10.97.0.0/24"]}});
    beside.send("POST", SERVICE_CIDRS, &cidr).await.unwrap();
    let path = format!("{SERVICE_CIDRS}/more");
    beside
        .until("the range", &path, |cidr| cidr["status"]["conditions"][0]["status"] == "True")
        .await
        .unwrap();
    beside.send("DELETE", &path, &Value::Null).await.unwrap();
    beside.until("the end of the range", &path, |cidr| cidr["code"] == 404).await.unwrap();
}

#[tokio::test]
async fn the_role_is_what_the_controllers_ask_for() {
    // What is left of a Service that went while nobody looked; an API server deletes it with the Service.
    let leftover = json!({"metadata": {"name": "left", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    let objects = [("/api/v1/nodes", json!({"metadata": {"name": "n"}})), (ENDPOINTS, leftover)];
    let beside = Beside::start(BINARY, Account::Controllers, &objects, &[]).await.unwrap();
    live(&beside).await;
    range(&beside).await;
    beside.until_asked("update", "leases").await.unwrap();
    for token in [None, Some("a token")] {
        beside.ask_controllers("/metrics", token).await.unwrap();
    }
    let asked = beside.proxy.asked();
    beside.stop().await.unwrap();

    let rules = Account::Controllers.rules().unwrap();
    let refused: Vec<&Asked> = asked.iter().filter(|asked| !rules.allow(asked)).collect();
    assert!(refused.is_empty(), "the role does not allow {refused:#?}");
    let used: BTreeSet<String> = asked.iter().map(|a| written(a.verb, &a.group, &a.resource)).collect();
    let unused: Vec<String> = rules.all().into_iter().filter(|rule| !used.contains(rule)).collect();
    assert_eq!(unused, ASKED_BY_ADMISSION, "allowed and never asked for");
}
