//! `run --shadow` and `diff` write nothing and say what they would.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::{
    account::Account,
    api_server::ApiServer,
    beside::{Beside, SERVICES},
    cluster::service,
};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const CONTROLLERS: &str = "--controllers=endpointslice-controller";

/// What `diff` says of a server, and its exit code.
async fn diff(server: &ApiServer, more: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let url = server.target.url();
    std::fs::write(&kubeconfig, server.kubeconfig_of(Account::Shadow, &url).await.unwrap()).unwrap();
    let mut command = Command::new(BINARY);
    // As kubectl finds it.
    command.args(["diff", CONTROLLERS, "--shadow-grace=1s"]).args(more).env("KUBECONFIG", &kubeconfig);
    let output = command.output().await.unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_difference_that_lasts_is_told_and_nothing_is_written() {
    let beside = Beside::start(BINARY, Account::Shadow, &[], &[CONTROLLERS, "--shadow", "--shadow-grace=1s"])
        .await
        .unwrap();
    let namespace = &beside.server.namespace;
    let slices = format!("{namespace}/endpointslices");
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    beside.until_logged(&["would create", &slices]).await.unwrap();
    let writes: Vec<_> = beside
        .proxy
        .asked()
        .into_iter()
        .filter(|asked| !["get", "list", "watch"].contains(&asked.verb))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert!(!beside.output().contains("overloaded"), "{}", beside.output());

    let (code, said) = diff(&beside.server, &["-n", namespace]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("would create /apis/discovery.k8s.io/v1/namespaces/{slices}")), "{said}");
    let (code, said) = diff(&beside.server, &["-n", "other"]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "in another namespace there is nothing");
    beside.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    let (code, said) = diff(&beside.server, &[]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    beside.stop().await.unwrap();
}
