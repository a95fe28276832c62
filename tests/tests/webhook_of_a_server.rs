//! The webhook where an API server asks it: the configurations and the role of `manifests/webhook`, what is recorded of what it
//! chooses, and that nothing depends on it.
//!
//! Only a kube-apiserver on this machine (`KUBEBUILDER_ASSETS`) asks a webhook on this machine; elsewhere each test says that it
//! is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use service_tests::{
    account::{self, Account},
    api_server::ApiServer,
    beside::{OWN, SERVICES},
    cluster::{IP_ADDRESSES, service},
    eventually::eventually,
    launch::start_controllers,
    permissions::{Asked, written},
    process::Process,
    proxy::Proxy,
};
use tempfile::TempDir;
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const CONFIGURATION: &str = include_str!("../../manifests/webhook/configuration.yaml");
/// The pool has all 16 addresses of this part of the range.
const POOL: &str = "10.96.16.0/28";

/// A server that asks webhooks of this machine, or nothing and the reason on standard output.
async fn server() -> Option<ApiServer> {
    let server = ApiServer::start(BINARY).await.unwrap();
    let Some(reason) = server.asks_no_webhook() else {
        // Of this type the API server takes the name, and the port from the configuration.
        let found = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "service-webhook", "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let there = |namespace: &Value| namespace["status"]["phase"] == "Active";
        server.until("kube-system", "/api/v1/namespaces/kube-system", there).await.unwrap();
        server.apply(&found).await.unwrap();
        return Some(server);
    };
    println!("skipped: {reason}");
    server.stop().await.unwrap();
    None
}

/// A webhook as a process, and what it asks the server for.
struct Webhook {
    process: Process,
    port: u16,
    proxy: Proxy,
    _dir: TempDir,
}

impl Webhook {
    async fn start(server: &ApiServer, account: Account, more: &[&str]) -> Self {
        let proxy = Proxy::start(server.target.clone()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig_of(account, &proxy.url()).await.unwrap()).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["webhook", "--webhook-port=0", "--bind-address=127.0.0.1", "--kubeconfig"]);
        command.arg(&kubeconfig).args(more);
        let process = start_controllers(command, &dir.path().join("log")).await.unwrap();
        let output = process.output();
        let (_, rest) = output.split_once("the webhook listens address=127.0.0.1:").unwrap();
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Self { process, port: port.parse().unwrap(), proxy, _dir: dir }
    }
}

/// Makes the configurations of the manifest, by another name and for one namespace if these are given, lead to the webhook, and waits
/// until it has put its authority into them.
async fn configure(server: &ApiServer, webhook: &Webhook, name: &str, namespace: Option<&str>) {
    let mut paths = Vec::new();
    for mut object in account::documents(CONFIGURATION).unwrap() {
        object["metadata"]["name"] = json!(name);
        let asked = &mut object["webhooks"][0];
        asked["clientConfig"]["service"]["port"] = json!(webhook.port);
        if let Some(namespace) = namespace {
            asked["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        }
        paths.push(server.apply(&object).await.unwrap());
    }
    for path in paths {
        let trusted = |seen: &Value| seen["webhooks"][0]["clientConfig"]["caBundle"].is_string();
        server.until("the webhook's authority", &path, trusted).await.unwrap();
    }
}

async fn make_pool(server: &ApiServer, spec: &Value) {
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool",
        "metadata": {"name": "gold"}, "spec": spec});
    server.send("POST", &format!("{OWN}/servicepools"), &pool).await.unwrap();
}

fn is_in_pool(service: &Value) -> bool {
    let pool: ipnet::Ipv4Net = POOL.parse().unwrap();
    service["spec"]["clusterIP"]
        .as_str()
        .is_some_and(|ip| pool.contains(&ip.parse::<std::net::Ipv4Addr>().unwrap()))
}

/// Creates a Service in the namespace of the test; gives code and answer.
async fn create(server: &ApiServer, name: &str, spec: &Value, query: &str) -> (u16, Value) {
    let path = server.path("", &format!("services{query}"));
    server.client.call("POST", &path, &service(name, spec)).await.unwrap()
}

/// Waits until the server asks and the webhook knows the pool: a Service gets an address of the pool. That Service goes again.
async fn until_heeded(server: &ApiServer, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let try_it = service("tries", &json!({"ports": [{"port": 80}]}));
    eventually("an address of the pool", async || {
        let (code, made) = server.client.call("POST", &path, &try_it).await.unwrap();
        assert_eq!(code, 201, "{made}");
        server.send("DELETE", &format!("{path}/tries"), &Value::Null).await.unwrap();
        is_in_pool(&made).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_it_chooses_is_recorded_and_what_pools_forbid_is_refused() {
    let Some(server) = server().await else { return };
    make_pool(
        &server,
        &json!({"addresses": [POOL], "nodePorts": [{"firstPort": 31000, "lastPort": 31009}], "fallback": "Forbidden",
            "reservations": [{"address": "10.96.16.5", "namespace": "shop", "name": "till"}]}),
    )
    .await;
    let webhook = Webhook::start(&server, Account::Webhook, &[]).await;
    configure(&server, &webhook, "service-control-plane", None).await;
    until_heeded(&server, &server.namespace).await;
    // A dry run shows what would be, and takes nothing.
    let plain = json!({"ports": [{"port": 80}]});
    let (code, shown) = create(&server, "web", &plain, "?dryRun=All").await;
    assert_eq!((code, is_in_pool(&shown)), (201, true), "{shown}");
    assert_eq!(server.client.get(&server.path("", "services/web")).await.unwrap().0, 404);
    // One that is made is recorded by the server.
    let (code, web) = create(&server, "web", &plain, "").await;
    assert_eq!((code, is_in_pool(&web)), (201, true), "{web}");
    let address = format!("{IP_ADDRESSES}/{}", web["spec"]["clusterIP"].as_str().unwrap());
    let recorded = server.send("GET", &address, &Value::Null).await.unwrap();
    assert_eq!(recorded["spec"]["parentRef"]["name"], "web", "{recorded}");
    let update = json!({"spec": {"type": "NodePort"}});
    let updated = server.send("PATCH", &format!("{SERVICES}/web"), &update).await.unwrap();
    let port = updated["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((31000..=31009).contains(&port), "{updated}");
    // What is reserved for another is refused, and what the pool does not have.
    let (code, refused) =
        create(&server, "other", &json!({"clusterIP": "10.96.16.5", "ports": [{"port": 80}]}), "").await;
    assert_eq!(code, 403, "{refused}");
    let said = refused["message"].as_str().unwrap();
    assert!(said.contains("denied the request") && said.contains("shop/till"), "{said}");
    // 16 addresses, of which `web` has one and one is reserved; those that were shown or given back are held for seconds.
    for number in 0..14 {
        eventually("an address", async || {
            let (code, made) = create(&server, &format!("s{number}"), &plain, "").await;
            (code == 201).then(|| assert!(is_in_pool(&made), "{made}"))
        })
        .await;
    }
    let (code, refused) = create(&server, "more", &plain, "").await;
    assert_eq!(code, 403, "{refused}");
    let asked = webhook.proxy.asked();
    let rules = Account::Webhook.rules().unwrap();
    let refused: Vec<&Asked> = asked.iter().filter(|asked| !rules.allow(asked)).collect();
    assert!(refused.is_empty(), "the role does not allow {refused:#?}");
    let used: BTreeSet<String> = asked.iter().map(|a| written(a.verb, &a.group, &a.resource)).collect();
    let unused: Vec<String> = rules.all().into_iter().filter(|rule| !used.contains(rule)).collect();
    let of_metrics =
        ["create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"];
    assert_eq!(unused, of_metrics, "allowed and never asked for");
    webhook.process.terminate().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn while_it_is_away_or_not_trusted_the_server_chooses_itself() {
    let Some(server) = server().await else { return };
    make_pool(&server, &json!({"addresses": [POOL]})).await;
    let webhook = Webhook::start(&server, Account::Webhook, &[]).await;
    configure(&server, &webhook, "service-control-plane", None).await;
    until_heeded(&server, &server.namespace).await;
    webhook.process.kill().await.unwrap();
    let plain = json!({"ports": [{"port": 80}]});
    let (code, made) = create(&server, "away", &plain, "").await;
    assert_eq!((code, is_in_pool(&made)), (201, false), "{made}");
    // Its certificate is one of an authority that the server does not know.
    let dir = tempfile::tempdir().unwrap();
    service_tls::Authority::load_or_generate(dir.path()).unwrap();
    let file = |flag: &str, name: &str| format!("--{flag}={}", dir.path().join(name).display());
    let files = [file("tls-cert-file", "ca.crt"), file("tls-private-key-file", "ca.key")];
    let stranger = Webhook::start(&server, Account::Webhook, &[&files[0], &files[1]]).await;
    configure(&server, &stranger, "service-control-plane", None).await;
    let (code, made) = create(&server, "distrusted", &plain, "").await;
    assert_eq!((code, is_in_pool(&made)), (201, false), "{made}");
    stranger.process.terminate().await.unwrap();
    // It is there again, with another authority and at another port.
    let webhook = Webhook::start(&server, Account::Webhook, &[]).await;
    configure(&server, &webhook, "service-control-plane", None).await;
    until_heeded(&server, &server.namespace).await;
    // What the server gave meanwhile is left alone by both.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let kept = server.send("PATCH", &format!("{SERVICES}/away"), &labels).await.unwrap();
    assert!(!is_in_pool(&kept), "{kept}");
    webhook.process.terminate().await.unwrap();
    server.stop().await.unwrap();
}

/// Two replicas, each asked about one namespace, choose for Services that are created at the same time.
#[tokio::test]
async fn two_replicas_never_choose_the_same() {
    let Some(server) = server().await else { return };
    make_pool(&server, &json!({"addresses": [POOL], "fallback": "Forbidden"})).await;
    let other = format!("{}-other", server.namespace);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}});
    server.send("POST", "/api/v1/namespaces", &namespace).await.unwrap();
    let mut replicas = Vec::new();
    let names = ["service-control-plane", "second"];
    for (index, (name, namespace)) in names.into_iter().zip([&server.namespace, &other]).enumerate() {
        let flags = [format!("--replica-index={index}"), format!("--webhook-configuration={name}")];
        // The role is for the configurations of the manifest's name.
        let account = if index == 0 { Account::Webhook } else { Account::Admin };
        let webhook = Webhook::start(&server, account, &["--replicas=2", &flags[0], &flags[1]]).await;
        configure(&server, &webhook, name, Some(namespace)).await;
        until_heeded(&server, namespace).await;
        replicas.push(webhook);
    }
    let mut made = BTreeSet::new();
    for number in 0..5 {
        let web = service(&format!("s{number}"), &json!({"ports": [{"port": 80}]}));
        let paths =
            [&server.namespace, &other].map(|namespace| format!("/api/v1/namespaces/{namespace}/services"));
        // A client has one connection: here are two.
        let second = service_tests::http::Client::new(server.target.clone());
        let both =
            tokio::join!(server.client.call("POST", &paths[0], &web), second.call("POST", &paths[1], &web));
        for (code, answer) in [both.0.unwrap(), both.1.unwrap()] {
            assert_eq!((code, is_in_pool(&answer)), (201, true), "{answer}");
            assert!(made.insert(answer["spec"]["clusterIP"].to_string()), "{answer}");
        }
    }
    for replica in replicas {
        replica.process.terminate().await.unwrap();
    }
    server.stop().await.unwrap();
}
