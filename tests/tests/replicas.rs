//! Several replicas of the controllers as whole processes: who may write when one of them was stopped for a while.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use service_tests::{
    api_server::ApiServer, cluster::service, launch::start_controllers, ledger::text, process::Process,
};
use tokio::{process::Command, time::sleep};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const SLICES: &str = "endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
const POD_COUNT: usize = 60;
const POLL: Duration = Duration::from_millis(20);

/// The node that the pods are on.
const NODE: &str = "scm-test-replicas";

async fn replica(server: &ApiServer, dir: &Path, name: &str, more: &[&str]) -> Process {
    let mut command = Command::new(BINARY);
    command.args(["run", "--leader-elect-lease-duration=9s", "--leader-elect-renew-deadline=7s"]);
    command.args(["--leader-elect-retry-period=500ms", "--max-endpoints-per-slice=1"]);
    command.args(["--controllers=endpointslice-controller"]);
    command.arg(format!("--leader-elect-resource-namespace={}", server.namespace));
    command.args(more).arg("--kubeconfig").arg(dir.join("kubeconfig"));
    start_controllers(command, &dir.join(name)).await.unwrap()
}

async fn holder(server: &ApiServer) -> String {
    let (code, lease) = server
        .client
        .get(&server.path("coordination.k8s.io/v1", "leases/service-controller-manager"))
        .await
        .unwrap();
    if code == 200 { text(&lease["spec"], "holderIdentity") } else { String::new() }
}

async fn pods(server: &ApiServer) {
    let pods = server.path("", "pods");
    for number in 0..POD_COUNT {
        let name = format!("p{number}");
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(server.client.call("POST", &pods, &pod).await.unwrap().0, 201);
        let ip = format!("10.0.0.{}", number + 1);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let (code, _) = server.client.call("PATCH", &format!("{pods}/{name}/status"), &status).await.unwrap();
        assert_eq!(code, 200);
    }
}

/// Names and versions of the slices, once there are so many.
async fn slices(server: &ApiServer, at_least: usize) -> Vec<(String, String)> {
    loop {
        let (_, list) = server.client.get(&server.path("discovery.k8s.io/v1", SLICES)).await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        if items.len() >= at_least {
            let meta = |slice: &Value, key: &str| text(&slice["metadata"], key);
            return items.iter().map(|slice| (meta(slice, "name"), meta(slice, "resourceVersion"))).collect();
        }
        sleep(POLL).await;
    }
}

#[tokio::test]
async fn a_leader_that_was_stopped_does_not_write_when_it_wakes() {
    let server = ApiServer::start(BINARY).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    server.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": NODE}})).await.unwrap();
    pods(&server).await;
    // It has much to write, and is in the middle of it when it is stopped.
    let stale = replica(&server, dir.path(), "stale", &["--kube-api-qps=20", "--kube-api-burst=20"]).await;
    while holder(&server).await.is_empty() {
        sleep(POLL).await;
    }
    let first = holder(&server).await;
    let next = replica(&server, dir.path(), "next", &[]).await;
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    assert_eq!(server.client.call("POST", &server.path("", "services"), &web).await.unwrap().0, 201);
    assert!(slices(&server, 1).await.len() < POD_COUNT, "there is nothing left to write");
    stale.signal("STOP").await.unwrap();
    while holder(&server).await == first {
        sleep(POLL).await;
    }
    let made = slices(&server, POD_COUNT).await;
    assert_eq!(made.len(), POD_COUNT, "the next leader makes what is missing");
    stale.signal("CONT").await.unwrap();
    let (status, said) = stale.ended().await.unwrap();
    assert!(!status.success());
    assert_eq!(slices(&server, POD_COUNT).await, made, "{said}");
    assert!(said.contains("this process did not run"), "{said}");
    assert!(said.contains("what was left to write is dropped"), "{said}");
    let waits = next.output();
    assert!(waits.contains("another replica leads") && waits.contains(&first), "{waits}");
    next.terminate().await.unwrap();
    server.stop().await.unwrap();
}
