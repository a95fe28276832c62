//! Report P04: the fill gauges are right from the first scrape on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICE_CIDRS},
    http::request,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const EXTRA: &str = "10.99.0.0/28";
const DEFAULT: &str = "10.96.0.0/16";

/// What the gauges say: allocated and available, by range and for the node ports.
#[derive(Debug, PartialEq, Eq)]
struct Gauges {
    ranges: BTreeMap<String, [u64; 2]>,
    ports: [u64; 2],
}

impl Gauges {
    async fn scrape(lab: &Lab) -> Self {
        let answer =
            lab.client.send(request("GET", "/metrics", String::new().into()).unwrap()).await.unwrap();
        assert_eq!(answer.code, 200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse().unwrap();
        let mut gauges = Self { ranges: BTreeMap::new(), ports: [u64::MAX; 2] };
        for (at, which) in ["allocated", "available"].into_iter().enumerate() {
            let ips = format!("kube_apiserver_clusterip_allocator_{which}_ips{{cidr=\"");
            for line in text.lines().filter(|line| line.starts_with(&ips)) {
                let cidr = line[ips.len()..].split('"').next().unwrap();
                gauges.ranges.entry(cidr.to_owned()).or_insert([u64::MAX; 2])[at] = value(line);
            }
            let ports = format!("kube_apiserver_nodeport_allocator_{which}_ports ");
            gauges.ports[at] = value(text.lines().find(|line| line.starts_with(&ports)).unwrap());
        }
        gauges
    }

    fn expect(extra: Option<[u64; 2]>, default: [u64; 2], ports: [u64; 2]) -> Self {
        let extra = extra.map(|values| (EXTRA.to_owned(), values));
        Self { ranges: extra.into_iter().chain([(DEFAULT.to_owned(), default)]).collect(), ports }
    }
}

#[tokio::test]
async fn p04_gauges_are_right_at_every_scrape() {
    let lab =
        Lab::start_on_disk(BINARY, &[DEFAULT], "30000-32767").await.unwrap_or_else(|error| panic!("{error}"));
    let none = Gauges::expect(None, [1, 65533], [0, 2768]);
    assert_eq!(Gauges::scrape(&lab).await, none, "before any Service");

    let range = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "extra"},
        "spec": {"cidrs": [EXTRA]}, });
    let (code, answer) = lab.client.call("POST", SERVICE_CIDRS, &range).await.unwrap();
    assert_eq!(code, 201, "{answer}");
    assert_eq!(
        Gauges::scrape(&lab).await,
        Gauges::expect(Some([0, 14]), [1, 65533], [0, 2768]),
        "an empty range"
    );

    let (code, answer) =
        lab.create("one", &json!({"clusterIP": "10.99.0.5", "ports": [{"port": 80}]})).await.unwrap();
    assert_eq!(code, 201, "{answer}");
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80}]});
    assert_eq!(lab.create("two", &spec).await.unwrap().0, 201);
    let used = Gauges::expect(Some([1, 13]), [2, 65532], [1, 2767]);
    assert_eq!(Gauges::scrape(&lab).await, used, "at once");

    // A start runs the repair pass: two restarts run it twice.
    let lab = lab.restart().await.unwrap();
    assert_eq!(Gauges::scrape(&lab).await, used, "after a restart");
    let lab = lab.restart().await.unwrap();
    assert_eq!(Gauges::scrape(&lab).await, used, "after a second repair pass");

    assert_eq!(lab.delete("one").await.unwrap().0, 200);
    let gone = lab.client.call("DELETE", &format!("{SERVICE_CIDRS}/extra"), &Value::Null).await.unwrap();
    assert_eq!(gone.0, 200, "{}", gone.1);
    assert_eq!(Gauges::scrape(&lab).await, Gauges::expect(None, [2, 65532], [1, 2767]), "a removed range");
    lab.stop().await.unwrap();
}
