//! What a pool keeps back outlives the server that gave it out, and pools that contradict each other say so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use service_tests::{account::Account, beside::Beside, cluster::Lab};
use tokio::time::sleep;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const POOLS: &str = "/apis/service-control-plane.io/v1alpha1/servicepools";

async fn until(lab: &Lab, path: &str, there: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2000 {
        let (_, object) = lab.client.get(path).await.unwrap();
        if there(&object) {
            return object;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", lab.client.get(path).await);
}

fn pool(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool",
        "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn what_cools_down_is_kept_over_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_string_lossy().into_owned();
    let more = ["--controllers", "service-pool-controller", "--data-dir", &directory];
    let lab = Lab::start_with(BINARY, &["10.96.0.0/24"], "30000-30099", &more).await.unwrap();
    let spec = json!({"addresses": ["10.96.0.128/28"], "coolDownSeconds": 3600,
        "nodePorts": [{"firstPort": 30050, "lastPort": 30059}]});
    let (code, answer) = lab.client.call("POST", POOLS, &pool("gold", &spec)).await.unwrap();
    assert_eq!(code, 201, "{answer}");
    let asks =
        json!({"type": "NodePort", "clusterIP": "10.96.0.130", "ports": [{"port": 80, "nodePort": 30055}]});
    assert_eq!(lab.create("web", &asks).await.unwrap().0, 201);
    assert_eq!(lab.delete("web").await.unwrap().0, 200);
    let pool = until(&lab, &format!("{POOLS}/gold"), |pool| {
        pool["status"]["coolingDown"].as_array().is_some_and(|all| all.len() == 2)
    })
    .await;
    let said = pool["status"]["coolingDown"].as_array().unwrap();
    assert!(said.iter().all(|cooling| cooling["service"] == "default/web"), "{said:?}");

    let lab = lab.restart().await.unwrap();
    let (code, answer) = lab.create("api", &asks).await.unwrap();
    assert_eq!(code, 422, "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("was given back by Service default/web"),
        "{answer}"
    );
    assert_eq!(lab.create("web", &asks).await.unwrap().0, 201, "it may have them back at once");
    until(&lab, &format!("{POOLS}/gold"), |pool| pool["status"]["coolingDown"].is_null()).await;
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn pools_that_overlap_or_lie_outside_say_so() {
    let more = ["--leader-elect=false", "--controllers=service-pool-controller"];
    let beside = Beside::start(BINARY, Account::Ledger, &[], &more).await.unwrap();
    let outside =
        json!({"addresses": ["198.18.99.0/28"], "nodePorts": [{"firstPort": 20000, "lastPort": 20009}]});
    let partly =
        json!({"addresses": ["10.96.0.192/28"], "nodePorts": [{"firstPort": 21000, "lastPort": 21009}]});
    for (name, spec, reason, words) in [
        ("a", &json!({"addresses": ["10.96.0.128/27"]}), "InUse", ""),
        (
            "b",
            &json!({"addresses": ["10.96.0.144/28"]}),
            "Faulty",
            "10.96.0.144/28 overlaps a part of ServicePool a",
        ),
        ("c", &outside, "OutsideOfRanges", "198.18.99.0/28 is in no ServiceCIDR"),
        ("d", &partly, "InUse", "values are given from this pool; 21000-21009 is in no NodePortRange"),
    ] {
        beside.send("POST", POOLS, &pool(name, spec)).await.unwrap();
        let ready = |pool: &Value| {
            let mut conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|c| c["type"] == "Ready" && c["reason"] == reason)
        };
        let seen = beside.until(reason, &format!("{POOLS}/{name}"), ready).await.unwrap();
        assert!(seen["status"].to_string().contains(words), "{seen}");
    }
    beside.stop().await.unwrap();
}
