//! `ranges` on a server and on what kubectl wrote of it: both say the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::{
    api_server::ApiServer,
    beside::{OWN, SERVICES},
    cluster::service,
};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const IF: &str = "--if-cidr=10.100.0.0/16";

async fn report(arguments: &[&str]) -> Value {
    let output =
        Command::new(BINARY).arg("ranges").args(arguments).arg("--output=json").output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many addresses of the lower band are taken, and how many Services hold the range.
fn taken(report: &Value) -> [u64; 2] {
    let all = report["serviceCIDRs"].as_array().unwrap();
    let cidr = all.iter().find(|cidr| cidr["name"] == "kubernetes").unwrap();
    [&cidr["lower"]["used"], &cidr["blockers"]["count"]].map(|count| count.as_u64().unwrap())
}

#[tokio::test]
async fn a_server_and_a_dump_of_it_have_the_same_ranges() {
    let server = ApiServer::start(BINARY).await.unwrap();
    // An API server that is not the lab has no range of ports that can be read.
    let range = json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange",
        "metadata": {"name": "more"}, "spec": {"firstPort": 30050, "lastPort": 30149}});
    server.send("POST", &format!("{OWN}/nodeportranges"), &range).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let at = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let before = report(&at).await;
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30080}]});
    server.send("POST", SERVICES, &service("web", &spec)).await.unwrap();
    let live = report(&[IF, at[0], at[1]]).await;
    let mut dump = String::new();
    for (kind, path) in [
        ("ServiceList", "/api/v1/services"),
        ("NodeList", "/api/v1/nodes"),
        ("ServiceCIDRList", "/apis/networking.k8s.io/v1/servicecidrs"),
        ("IPAddressList", "/apis/networking.k8s.io/v1/ipaddresses"),
        ("NodePortRangeList", "/apis/service-control-plane.io/v1alpha1/nodeportranges"),
    ] {
        let (_, list) = server.client.get(path).await.unwrap();
        assert_eq!(list["kind"], kind);
        dump += &list.to_string();
    }
    let file = dir.path().join("dump.json");
    std::fs::write(&file, dump).unwrap();
    let dumped = report(&[IF, "--dump", file.to_str().unwrap()]).await;
    assert_eq!(live, dumped);
    assert_eq!(taken(&live), taken(&before).map(|count| count + 1));
    let more = live["nodePortRanges"].as_array().unwrap().iter().find(|range| range["name"] == "more");
    let more = more.unwrap();
    let free = |used: u64, free: u64| json!({"used": used, "free": free});
    assert_eq!((&more["lower"], &more["upper"]), (&free(0, 16), &free(1, 83)));
    assert_eq!(live["outlook"][0]["moves"]["count"], taken(&live)[1]);
    // As kubectl finds the server; and what one namespace holds.
    let of = |namespace: &str| {
        let mut command = Command::new(BINARY);
        command.args(["ranges", "-n", namespace, "--output=json"]).env("KUBECONFIG", &kubeconfig);
        async move { serde_json::from_slice::<Value>(&command.output().await.unwrap().stdout).unwrap() }
    };
    let (own, other) = (of(&server.namespace).await, of("other").await);
    let [used, _] = taken(&live);
    assert_eq!((taken(&own), taken(&other)), ([used, 1], [used, 0]));
    server.stop().await.unwrap();
}
