//! `run --shadow` and `diff` write nothing and say what they would.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::{
    beside::Beside,
    cluster::{Lab, SERVICES, service},
    launch::kubeconfig_text,
};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const CONTROLLERS: &str = "--controllers=endpointslice-controller";

/// What `diff` says of a lab, and its exit code.
async fn diff(lab: &Lab, more: &[&str]) -> (Option<i32>, String) {
    let kubeconfig = lab.server.dir.path().join("diff.kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url())).unwrap();
    let mut command = Command::new(BINARY);
    // As kubectl finds it.
    command.args(["diff", CONTROLLERS, "--shadow-grace=1s"]).args(more).env("KUBECONFIG", &kubeconfig);
    let output = command.output().await.unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_difference_that_lasts_is_told_and_nothing_is_written() {
    let beside = Beside::start(BINARY, &[], &[CONTROLLERS, "--shadow", "--shadow-grace=1s"]).await.unwrap();
    let web = service("web", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    beside.send("POST", SERVICES, &web).await.unwrap();
    beside.until_logged(&["would create", "default/endpointslices"]).await.unwrap();
    let writes: Vec<_> = beside
        .proxy
        .asked()
        .into_iter()
        .filter(|asked| !["get", "list", "watch"].contains(&asked.verb))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");

    let (code, said) = diff(&beside.lab, &["-n", "default"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("would create /apis/discovery.k8s.io/v1/namespaces/default/endpointslices"),
        "{said}"
    );
    let (code, said) = diff(&beside.lab, &["-n", "other"]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "in another namespace there is nothing");
    beside.send("DELETE", &format!("{SERVICES}/web"), &Value::Null).await.unwrap();
    let (code, said) = diff(&beside.lab, &[]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    beside.stop().await.unwrap();
}
