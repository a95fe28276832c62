//! Report P10: servers over one store agree on what is free.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use service_lab_apiserver::{
    http::auth::Token,
    registry::verbs::Api,
    server::{self, Bound, Controllers, LabConfig},
};
use service_tests::{
    cluster::{IP_ADDRESSES, Lab, SERVICES, service},
    http::{Client, Target},
    ledger, tls,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const TOKEN: &str = "admintoken";

/// One server and many clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_clients_of_one_server_agree_on_what_is_free() {
    let lab =
        Lab::start(BINARY, &["10.96.0.0/16"], "30000-32767").await.unwrap_or_else(|error| panic!("{error}"));
    Box::pin(agree(&lab.server.target, &lab.server.target)).await;
    lab.stop().await.unwrap();
}

/// Two servers over one store, each with half of the clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p10_two_servers_agree_on_what_is_free() {
    let first = server::build(config()).await.unwrap();
    let api: Arc<Api> = first.api();
    let second = server::build_on(config(), api).await.unwrap();
    assert_ne!(first.addr(), second.addr());
    let (a, b) = (target(&first), target(&second));
    let shutdown = CancellationToken::new();
    let serving = [first, second].map(|bound| tokio::spawn(bound.run(shutdown.clone())));
    Box::pin(agree(&a, &b)).await;
    shutdown.cancel();
    for server in serving {
        server.await.unwrap();
    }
}

fn config() -> LabConfig {
    LabConfig {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        token: Some(Token::new(TOKEN)),
        controllers: Controllers::NONE,
        ..LabConfig::local()
    }
}

fn target(bound: &Bound) -> Target {
    let trust = tls::trusting(bound.ca_pem().as_bytes()).unwrap();
    Target::new(&bound.url(), trust, Some(TOKEN.to_owned())).unwrap()
}

/// The report's three steps between two addresses: what is given back on one is free on the other, nothing is given twice,
/// and of two who want the same number one gets it and the other leaves nothing behind.
async fn agree(left: &Target, right: &Target) {
    let (a, b) = (Client::new(left.clone()), Client::new(right.clone()));
    given_back_is_free(&a, &b).await;
    many_at_once(left, right).await;
    assert_eq!(complaints(&a).await, Vec::<String>::new());
    Box::pin(one_of_two_wins(&a, &b)).await;
    assert_eq!(complaints(&b).await, Vec::<String>::new());
}

async fn given_back_is_free(a: &Client, b: &Client) {
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30777}]});
    let same = service("same", &spec);
    for round in 0..50 {
        for client in [a, b] {
            let (code, answer) = client.call("POST", SERVICES, &same).await.unwrap();
            assert_eq!(code, 201, "round {round}: {answer}");
            assert_eq!(delete(client, "same").await, 200);
        }
    }
}

async fn many_at_once(left: &Target, right: &Target) {
    let mut creating = JoinSet::new();
    for (number, target) in [left, right].into_iter().cycle().take(24).enumerate() {
        let client = Client::new(target.clone());
        creating.spawn(async move {
            for round in 0..10 {
                let body = service(
                    &format!("n-{number}-{round}"),
                    &json!({"type": "NodePort", "ports": [{"port": 80}]}),
                );
                assert_eq!(client.call("POST", SERVICES, &body).await.unwrap().0, 201);
            }
        });
    }
    while let Some(done) = creating.join_next().await {
        done.unwrap();
    }
}

async fn one_of_two_wins(a: &Client, b: &Client) {
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30050}]});
    let [left, right] = ["left", "right"].map(|name| service(name, &spec));
    for round in 0..100 {
        let (first, second) = tokio::join!(a.call("POST", SERVICES, &left), b.call("POST", SERVICES, &right));
        let codes = [first.unwrap().0, second.unwrap().0];
        assert_eq!(BTreeSet::from(codes), BTreeSet::from([201, 422]), "round {round}");
        assert_eq!(delete(b, if codes[0] == 201 { "left" } else { "right" }).await, 200);
    }
}

async fn delete(client: &Client, name: &str) -> u16 {
    client.call("DELETE", &format!("{SERVICES}/{name}"), &Value::Null).await.unwrap().0
}

/// What is wrong with all Services and IPAddresses together, as one server shows them.
async fn complaints(client: &Client) -> Vec<String> {
    let mut lists = Vec::new();
    for path in ["/api/v1/services", IP_ADDRESSES] {
        let list = client.get(path).await.unwrap().1;
        lists.push(list["items"].as_array().cloned().unwrap_or_default());
    }
    ledger::complaints(&lists[0], &lists[1])
}
