//! The ledger of addresses and node ports on whatever server there is: the lab, a kube-apiserver, a cluster.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use service_tests::{api_server::ApiServer, cluster::service, launch::start_controllers, process::Process};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const OWN: &str = "/apis/service-control-plane.io/v1alpha1";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRDS: [&str; 3] = [
    include_str!("../../manifests/crds/nodeportranges.yaml"),
    include_str!("../../manifests/crds/nodeports.yaml"),
    include_str!("../../manifests/crds/servicepools.yaml"),
];
const CONTROLLERS: &str = "--controllers=ip-address-audit-controller,node-port-audit-controller,node-port-range-controller,service-pool-controller";
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(50);

/// A server with our kinds and the controllers of the ledger beside it.
struct Cluster {
    server: ApiServer,
    controllers: Process,
    _dir: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::start(BINARY).await.unwrap();
        for text in CRDS {
            let definition: Value = serde_saphyr::from_str(text).unwrap();
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            // The lab has them built in, a cluster may have them already.
            if server.client.get(&format!("{OWN}/{plural}")).await.unwrap().0 == 404 {
                let (code, said) = server.client.call("POST", DEFINITIONS, &definition).await.unwrap();
                assert!(code == 201 || code == 409, "{said}");
            }
            until(&server, plural, &format!("{OWN}/{plural}"), |list| list["items"].is_array()).await;
        }
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["run", "--leader-elect=false", CONTROLLERS, "--kubeconfig"]).arg(&kubeconfig);
        let controllers = start_controllers(command, &dir.path().join("log")).await.unwrap();
        Self { server, controllers, _dir: dir }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, said) = self.server.client.call(method, path, body).await.unwrap();
        assert!((200..300).contains(&code), "{method} {path}: {said}");
        said
    }

    async fn until(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        until(&self.server, what, path, holds).await
    }

    async fn stop(self) {
        self.controllers.terminate().await.unwrap();
        self.server.stop().await.unwrap();
    }
}

async fn until(server: &ApiServer, what: &str, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let (_, seen) = server.client.get(path).await.unwrap();
        if holds(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {seen}");
        sleep(POLL).await;
    }
}

fn is_of(object: &Value, namespace: &str, name: &str) -> bool {
    let parent = &object["spec"]["parentRef"];
    parent["namespace"] == namespace
        && parent["name"] == name
        && object["metadata"]["deletionTimestamp"].is_null()
}

fn says(object: &Value, kind: &str, status: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

#[tokio::test]
async fn entries_follow_services_and_come_back() {
    let cluster = Cluster::start().await;
    let (services, namespace) = (cluster.server.path("", "services"), &cluster.server.namespace);
    let web = service("web", &json!({"type": "NodePort", "ports": [{"name": "http", "port": 80}]}));
    let made = cluster.send("POST", &services, &web).await;
    let (ip, port) =
        (made["spec"]["clusterIP"].as_str().unwrap(), made["spec"]["ports"][0]["nodePort"].to_string());
    let (entry, address) = (format!("{OWN}/nodeports/{port}"), format!("{ADDRESSES}/{ip}"));
    let first = cluster.until("the NodePort", &entry, |entry| is_of(entry, namespace, "web")).await;
    assert_eq!(first["spec"]["portNames"], json!(["http"]), "{first}");
    let is_new = |old: &Value| {
        let uid = old["metadata"]["uid"].clone();
        move |new: &Value| new["metadata"]["uid"].is_string() && new["metadata"]["uid"] != uid
    };
    // Whoever deletes an entry in use finds it made again.
    cluster.send("DELETE", &entry, &Value::Null).await;
    cluster.until("the NodePort again", &entry, is_new(&first)).await;
    let held = cluster.until("the IPAddress", &address, |entry| is_of(entry, namespace, "web")).await;
    cluster.send("DELETE", &address, &Value::Null).await;
    let again = cluster.until("the IPAddress again", &address, is_new(&held)).await;
    assert!(is_of(&again, namespace, "web"), "{again}");
    let path = format!("{services}/web");
    cluster.send("PATCH", &path, &json!({"spec": {"type": "ClusterIP"}})).await;
    cluster.until("no NodePort", &entry, |seen| seen["code"] == 404).await;
    cluster.send("DELETE", &path, &Value::Null).await;
    cluster.until("no IPAddress", &address, |seen| seen["code"] == 404).await;
    cluster.stop().await;
}

#[tokio::test]
async fn ranges_and_pools_say_how_they_are() {
    let cluster = Cluster::start().await;
    let name = cluster.server.namespace.clone();
    let absurd = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange",
        "metadata": {"name": name}, "spec": {"firstPort": 32000, "lastPort": 31000, "role": "Dynamic"}});
    let (code, said) =
        cluster.server.client.call("POST", &format!("{OWN}/nodeportranges"), &absurd).await.unwrap();
    assert_eq!(code, 422, "{said}");
    let mut range = absurd;
    range["spec"] = json!({"firstPort": 31990, "lastPort": 31999, "role": "StaticOnly"});
    cluster.send("POST", &format!("{OWN}/nodeportranges"), &range).await;
    let path = format!("{OWN}/nodeportranges/{name}");
    let ready = cluster.until("the range is ready", &path, |range| says(range, "Ready", "True")).await;
    assert!(ready["metadata"]["finalizers"].is_array(), "{ready}");
    cluster.send("DELETE", &path, &Value::Null).await;
    cluster.until("the range is gone", &path, |seen| seen["code"] == 404).await;
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": name},
        "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}, "addresses": ["10.96.16.0/28"]}});
    cluster.send("POST", &format!("{OWN}/servicepools"), &pool).await;
    let path = format!("{OWN}/servicepools/{name}");
    cluster.until("the pool is ready", &path, |pool| says(pool, "Ready", "True")).await;
    let services = cluster.server.path("", "services");
    let used = |pool: &Value| {
        let band = |band: &str| pool["status"]["ipv4"][band]["used"].as_i64().unwrap_or_default();
        band("lower") + band("upper")
    };
    for number in 1..=13 {
        let spec = json!({"clusterIP": format!("10.96.16.{number}"), "ports": [{"port": 80}]});
        cluster.send("POST", &services, &service(&format!("s{number}"), &spec)).await;
    }
    let full = |pool: &Value| used(pool) == 13 && says(pool, "Filling", "True");
    let filled = cluster.until("the pool says how full it is", &path, full).await;
    assert_eq!(filled["status"]["largestUsers"][0]["namespace"], json!(name), "{filled}");
    for number in 1..=13 {
        cluster.send("DELETE", &format!("{services}/s{number}"), &Value::Null).await;
    }
    cluster.until("the pool is empty", &path, |pool| used(pool) == 0 && says(pool, "Filling", "False")).await;
    cluster.send("DELETE", &path, &Value::Null).await;
    cluster.stop().await;
}
