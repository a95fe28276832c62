//! `manifests/ledger` agrees with the program: its flags, and the role with what the controllers ask for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use clap::Parser as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use service_controller_manager::args::{Cli, Command, RunArgs};
use service_tests::{
    account::Account,
    beside::{Beside, OWN, SERVICES},
    cluster::{IP_ADDRESSES, service},
    permissions::{Asked, written},
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const DEPLOYMENT: &str = include_str!("../../manifests/ledger/deployment.yaml");

fn objects(file: &str) -> Vec<Value> {
    file.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn object<T: serde::de::DeserializeOwned>(kind: &str) -> T {
    let found = objects(DEPLOYMENT).into_iter().find(|object| object["kind"] == kind).unwrap();
    serde_json::from_value(found).unwrap()
}

fn arguments() -> Vec<String> {
    let deployment: Deployment = object("Deployment");
    deployment.spec.template.spec.unwrap().containers.remove(0).args.unwrap()
}

#[test]
fn the_arguments_are_flags_and_the_port_is_the_one_that_is_open() {
    let words = std::iter::once("service-controller-manager".to_owned()).chain(arguments());
    let Command::Run(RunArgs { serving, lease, controllers, .. }) =
        Cli::try_parse_from(words).unwrap().command
    else {
        panic!("it runs controllers");
    };
    assert_eq!(controllers.selection.enabled().count(), 4);
    let deployment: Deployment = object("Deployment");
    let spec = deployment.spec;
    let port = spec.template.spec.unwrap().containers[0].ports.clone().unwrap()[0].container_port;
    assert_eq!(port, i32::from(serving.secure_port));
    let policy: NetworkPolicy = object("NetworkPolicy");
    let policy = policy.spec.unwrap();
    let budget: PodDisruptionBudget = object("PodDisruptionBudget");
    let labels = spec.selector.match_labels;
    assert_eq!(
        (policy.pod_selector.unwrap().match_labels, budget.spec.unwrap().selector.unwrap().match_labels),
        (labels.clone(), labels)
    );
    let rules = Account::Ledger.rules().unwrap();
    let lease = Asked {
        verb: "update",
        group: "coordination.k8s.io".into(),
        resource: "leases".into(),
        namespace: Some(lease.leader_elect_resource_namespace),
        name: Some(lease.leader_elect_resource_name),
    };
    assert!(rules.allow(&lease));
}

/// Everything that the controllers do: a port that is taken, renamed and given back, a range and a pool that come and go.
async fn live(beside: &Beside) {
    let web =
        service("web", &json!({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30080}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    let renamed = json!({"spec": {"ports": [{"name": "b", "port": 80, "nodePort": 30080}]}});
    beside.send("PATCH", &format!("{SERVICES}/web"), &renamed).await.unwrap();
    let range = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange",
        "metadata": {"name": "more"}, "spec": {"firstPort": 31000, "lastPort": 31009}});
    beside.send("POST", &format!("{OWN}/nodeportranges"), &range).await.unwrap();
    let pool = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool",
        "metadata": {"name": "gold"}, "spec": {"addresses": ["10.96.0.128/28"]}});
    beside.send("POST", &format!("{OWN}/servicepools"), &pool).await.unwrap();
    beside.until_asked("patch", "nodeportranges/status").await.unwrap();
    beside.until_asked("patch", "nodeportranges").await.unwrap();
    beside.until_asked("patch", "servicepools/status").await.unwrap();
}

#[tokio::test]
async fn the_role_is_what_the_controllers_ask_for() {
    let controllers = arguments().into_iter().find(|argument| argument.starts_with("--controllers")).unwrap();
    let lease = "--leader-elect-resource-name=service-ledger";
    let beside = Beside::start(BINARY, Account::Ledger, &[], &[&controllers, lease]).await.unwrap();
    live(&beside).await;
    beside.until_asked("update", "leases").await.unwrap();
    for token in [None, Some("a token")] {
        beside.ask_controllers("/metrics", token).await.unwrap();
    }
    let _ = IP_ADDRESSES;
    let asked = beside.proxy.asked();
    beside.stop().await.unwrap();
    let rules = Account::Ledger.rules().unwrap();
    let refused: Vec<&Asked> = asked.iter().filter(|asked| !rules.allow(asked)).collect();
    assert!(refused.is_empty(), "the role does not allow {refused:#?}");
    // What the lab does itself in the transaction of a Service, so that nobody asks for it here.
    let of_the_server = ["ipaddresses", "nodeports", "services", "events"];
    let used: BTreeSet<String> = asked.iter().map(|a| written(a.verb, &a.group, &a.resource)).collect();
    let unused: Vec<String> = rules
        .all()
        .into_iter()
        .filter(|rule| !used.contains(rule) && !of_the_server.iter().any(|name| rule.ends_with(name)))
        .collect();
    assert_eq!(unused, [] as [&str; 0], "allowed and never asked for");
}
