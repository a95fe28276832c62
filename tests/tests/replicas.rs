//! Several replicas of the controllers as whole processes: who may write when one of them was stopped for a while.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICES, service},
    launch::{kubeconfig_text, start_controllers},
    ledger::text,
    process::Process,
};
use tokio::{process::Command, time::sleep};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/service-controller-manager";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
const PODS: &str = "/api/v1/namespaces/default/pods";
const POD_COUNT: usize = 60;
const POLL: Duration = Duration::from_millis(20);

async fn replica(dir: &Path, name: &str, more: &[&str]) -> Process {
    let mut command = Command::new(BINARY);
    command.args(["run", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s"]);
    command.args(["--leader-elect-retry-period=200ms", "--max-endpoints-per-slice=1"]);
    command.args(["--controllers=endpointslice-controller"]);
    command.args(more).arg("--kubeconfig").arg(dir.join("kubeconfig"));
    start_controllers(command, &dir.join(name)).await.unwrap()
}

async fn holder(lab: &Lab) -> String {
    let (code, lease) = lab.client.get(LEASE).await.unwrap();
    if code == 200 { text(&lease["spec"], "holderIdentity") } else { String::new() }
}

async fn pods(lab: &Lab) {
    for number in 0..POD_COUNT {
        let name = format!("p{number}");
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(lab.client.call("POST", PODS, &pod).await.unwrap().0, 201);
        let ip = format!("10.0.0.{}", number + 1);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let (code, _) = lab.client.call("PATCH", &format!("{PODS}/{name}/status"), &status).await.unwrap();
        assert_eq!(code, 200);
    }
}

/// Names and versions of the slices, once there are so many.
async fn slices(lab: &Lab, at_least: usize) -> Vec<(String, String)> {
    loop {
        let items = lab.items(SLICES).await.unwrap();
        if items.len() >= at_least {
            let meta = |slice: &Value, key: &str| text(&slice["metadata"], key);
            return items.iter().map(|slice| (meta(slice, "name"), meta(slice, "resourceVersion"))).collect();
        }
        sleep(POLL).await;
    }
}

#[tokio::test]
async fn a_leader_that_was_stopped_does_not_write_when_it_wakes() {
    let lab = Lab::start(BINARY, &["10.96.0.0/16"], "30000-32767").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kubeconfig"), kubeconfig_text(&lab.server.target.url())).unwrap();
    lab.client.call("POST", "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await.unwrap();
    pods(&lab).await;
    // It has much to write, and is in the middle of it when it is stopped.
    let stale = replica(dir.path(), "stale", &["--kube-api-qps=20", "--kube-api-burst=20"]).await;
    while holder(&lab).await.is_empty() {
        sleep(POLL).await;
    }
    let first = holder(&lab).await;
    let next = replica(dir.path(), "next", &[]).await;
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    assert_eq!(lab.client.call("POST", SERVICES, &web).await.unwrap().0, 201);
    assert!(slices(&lab, 1).await.len() < POD_COUNT, "there is nothing left to write");
    stale.signal("STOP").await.unwrap();
    while holder(&lab).await == first {
        sleep(POLL).await;
    }
    let made = slices(&lab, POD_COUNT).await;
    assert_eq!(made.len(), POD_COUNT, "the next leader makes what is missing");
    stale.signal("CONT").await.unwrap();
    let (status, said) = stale.ended().await.unwrap();
    assert!(!status.success());
    assert_eq!(slices(&lab, POD_COUNT).await, made, "{said}");
    assert!(said.contains("this process did not run"), "{said}");
    assert!(said.contains("what was left to write is dropped"), "{said}");
    let waits = next.output();
    assert!(waits.contains("another replica leads") && waits.contains(&first), "{waits}");
    next.terminate().await.unwrap();
    lab.stop().await.unwrap();
}
