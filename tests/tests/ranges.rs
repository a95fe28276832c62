//! `ranges` on a lab and on what kubectl wrote of it: both say the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::{cluster::Lab, launch::kubeconfig_text};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

async fn report(arguments: &[&str]) -> Value {
    let output =
        Command::new(BINARY).arg("ranges").args(arguments).arg("--output=json").output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_server_and_a_dump_of_it_have_the_same_ranges() {
    let lab = Lab::start(BINARY, &["10.96.0.0/24"], "30000-30099").await.unwrap();
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30080}]});
    assert_eq!(lab.create("web", &spec).await.unwrap().0, 201);
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_text(&lab.server.target.url())).unwrap();
    let live = report(&["--if-cidr=10.100.0.0/16", "--kubeconfig", kubeconfig.to_str().unwrap()]).await;
    let mut dump = String::new();
    for (kind, path) in [
        ("ServiceList", "/api/v1/services"),
        ("NodeList", "/api/v1/nodes"),
        ("ServiceCIDRList", "/apis/networking.k8s.io/v1/servicecidrs"),
        ("IPAddressList", "/apis/networking.k8s.io/v1/ipaddresses"),
        ("NodePortRangeList", "/apis/service-control-plane.io/v1alpha1/nodeportranges"),
    ] {
        let (_, list) = lab.client.get(path).await.unwrap();
        assert_eq!(list["kind"], kind);
        dump += &list.to_string();
    }
    let file = dir.path().join("dump.json");
    std::fs::write(&file, dump).unwrap();
    let dumped = report(&["--if-cidr=10.100.0.0/16", "--dump", file.to_str().unwrap()]).await;
    assert_eq!(live, dumped);
    let cidr = &live["serviceCIDRs"][0];
    assert_eq!(
        (&cidr["name"], &cidr["lower"]["used"], &cidr["blockers"]["count"]),
        (&json!("kubernetes"), &json!(2), &json!(2))
    );
    assert_eq!(live["nodePortRanges"][0]["upper"], json!({"used": 1, "free": 83}));
    assert_eq!(live["outlook"][0]["moves"]["count"], 2);
    // As kubectl finds the server; and what one namespace holds.
    let of = |namespace: &str| {
        let mut command = Command::new(BINARY);
        command.args(["ranges", "-n", namespace, "--output=json"]).env("KUBECONFIG", &kubeconfig);
        async move { serde_json::from_slice::<Value>(&command.output().await.unwrap().stdout).unwrap() }
    };
    let (own, other) = (of("default").await, of("other").await);
    assert_eq!(own["serviceCIDRs"], live["serviceCIDRs"]);
    let other = &other["serviceCIDRs"][0];
    assert_eq!((&other["blockers"]["count"], &other["lower"]["used"]), (&json!(0), &json!(2)));
    lab.stop().await.unwrap();
}
