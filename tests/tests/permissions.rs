//! `manifests/rbac.yaml` allows what the controllers ask for, and nothing that they do not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICE_CIDRS, SERVICES, service},
    http::Target,
    launch::{free_port, kubeconfig_text, wait_ready},
    permissions::{Asked, Rules, written},
    process::Process,
    proxy::Proxy,
    tls,
};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const MANIFEST: &str = include_str!("../../manifests/rbac.yaml");
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
/// Asked by an admission plugin of the API server in the name of who writes.
const ASKED_BY_ADMISSION: [&str; 2] = ["update /endpoints/finalizers", "update /services/finalizers"];
const PATIENCE: Duration = Duration::from_mins(1);

fn rules() -> Rules {
    let objects = MANIFEST.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    Rules::read(objects.collect()).unwrap()
}

/// Controllers behind a proxy that remembers what they ask for.
struct Watched {
    lab: Lab,
    proxy: Proxy,
    controllers: Process,
}

impl Watched {
    async fn start() -> Self {
        let lab = Lab::start(BINARY, &["10.96.0.0/16"], "30000-32767").await.unwrap();
        let proxy = Proxy::start(lab.server.target.clone()).await.unwrap();
        let dir = lab.server.dir.path();
        let kubeconfig = dir.join("controllers.kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&proxy.url())).unwrap();
        let port = free_port().unwrap();
        let mut command = Command::new(BINARY);
        command
            .arg("run")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--secure-port={port}"));
        let mut controllers = Process::start(command, &dir.join("controllers.log")).unwrap();
        let admin =
            Target::new(&format!("http://127.0.0.1:{port}"), tls::trusting_anyone().unwrap(), None).unwrap();
        wait_ready(&mut controllers, &admin).await.unwrap();
        Self { lab, proxy, controllers }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) {
        let (code, said) = self.lab.client.call(method, path, body).await.unwrap();
        assert!((200..300).contains(&code), "{method} {path}: {said}");
    }

    async fn until(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            let (_, seen) = self.lab.client.get(path).await.unwrap();
            if holds(&seen) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {seen}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn until_asked(&self, verb: &str, resource: &str) {
        let start = Instant::now();
        let has = |asked: &Asked| asked.verb == verb && asked.resource == resource;
        while !self.proxy.asked().iter().any(has) {
            assert!(start.elapsed() < PATIENCE, "nobody asks to {verb} {resource}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A Service whose pod comes, changes and goes, and then loses its endpoints in each possible way.
    async fn live(&self) {
        self.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
        let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
        self.send("POST", SERVICES, &web).await;
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        self.send("POST", "/api/v1/namespaces/default/pods", &pod).await;
        for ready in ["True", "False"] {
            let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": ready}]}});
            self.send("PATCH", "/api/v1/namespaces/default/pods/p/status", &status).await;
            self.until("the endpoint", SLICES, |list| {
                list["items"][0]["endpoints"][0]["conditions"]["ready"] == (ready == "True")
            })
            .await;
            self.until("the address", &format!("{ENDPOINTS}/web"), |object| {
                let key = if ready == "True" { "addresses" } else { "notReadyAddresses" };
                object["subsets"][0][key][0]["ip"] == "10.0.0.1"
            })
            .await;
        }
        // Without zones, hints cannot be given, and an Event says so.
        let hints = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
        self.send("PATCH", &format!("{SERVICES}/web"), &hints).await;
        self.until_asked("create", "events").await;
        // Without a selector, the Endpoints are mirrored, and read for that.
        self.send("PATCH", &format!("{SERVICES}/web"), &json!({"spec": {"selector": null}})).await;
        self.until_asked("get", "endpoints").await;
        self.send("PATCH", &format!("{SERVICES}/web"), &json!({"spec": {"selector": {"app": "web"}}})).await;
        self.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await;
        self.until_asked("delete", "endpoints").await;
        self.until_asked("delete", "endpointslices").await;
    }

    /// A ServiceCIDR that comes and goes.
    async fn range(&self) {
        let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "more"}, "spec": {"cidrs": ["10.97.0.0/24"]}});
        self.send("POST", SERVICE_CIDRS, &cidr).await;
        let path = format!("{SERVICE_CIDRS}/more");
        self.until("the range", &path, |cidr| cidr["status"]["conditions"][0]["status"] == "True").await;
        self.send("DELETE", &path, &Value::Null).await;
        self.until("the end of the range", &path, |cidr| cidr["code"] == 404).await;
    }
}

#[tokio::test]
async fn the_role_is_what_the_controllers_ask_for() {
    let watched = Watched::start().await;
    watched.live().await;
    watched.range().await;
    watched.until_asked("update", "leases").await;
    let asked = watched.proxy.asked();
    watched.controllers.terminate().await.unwrap();
    let Watched { lab, .. } = watched;
    lab.stop().await.unwrap();

    let rules = rules();
    let refused: Vec<&Asked> = asked.iter().filter(|asked| !rules.allow(asked)).collect();
    assert!(refused.is_empty(), "the role does not allow {refused:#?}");
    let used: BTreeSet<String> = asked.iter().map(|a| written(a.verb, &a.group, &a.resource)).collect();
    let unused: Vec<String> = rules.all().into_iter().filter(|rule| !used.contains(rule)).collect();
    assert_eq!(unused, ASKED_BY_ADMISSION, "allowed and never asked for");
}
