//! Reports P01, P03, P09, P13: what is given, kept and freed. Each test says which lines of its report it holds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use rstest::rstest;
use serde_json::{Value, json};
use service_tests::{
    cluster::{IP_ADDRESSES, Lab, SERVICE_CIDRS, SERVICES},
    http::request,
    ledger,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const PORTS: &str = "30000-32767";

async fn lab(cidrs: &[&str]) -> Lab {
    Lab::start(BINARY, cidrs, PORTS).await.unwrap_or_else(|error| panic!("{error}"))
}

fn dual(addresses: [&str; 2], families: [&str; 2]) -> Value {
    json!({"clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": families,
        "ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]})
}

const V4_FIRST: [&str; 2] = ["IPv4", "IPv6"];
const V6_FIRST: [&str; 2] = ["IPv6", "IPv4"];

/// P01 and its variants: a refused dual-stack create blames the bad address and keeps nothing.
#[rstest]
#[case::out_of_range(["10.97.0.11", "fd00::b"], V4_FIRST, "fd00::b", ["10.97.0.11", "fd00:97::b"])]
#[case::taken(["10.97.0.11", "fd00:97::77"], V4_FIRST, "fd00:97::77", ["10.97.0.11", "fd00:97::b"])]
#[case::v6_first(["fd00:97::b", "10.98.0.1"], V6_FIRST, "10.98.0.1", ["fd00:97::b", "10.97.0.11"])]
#[tokio::test]
async fn p01_a_refused_create_keeps_no_address(
    #[case] bad: [&str; 2],
    #[case] families: [&str; 2],
    #[case] blamed: &str,
    #[case] good: [&str; 2],
) {
    let lab = lab(&["10.97.0.0/28", "fd00:97::/112"]).await;
    let holder = json!({"clusterIP": "fd00:97::77", "ipFamilies": ["IPv6"], "ports": [{"port": 80}]});
    assert_eq!(lab.create("holder", &holder).await.unwrap().0, 201);
    for _ in 0..6 {
        let (code, status) = lab.create("resolver-2", &dual(bad, families)).await.unwrap();
        assert_eq!(code, 422, "{status}");
        assert_eq!(status["details"]["causes"][0]["field"], "spec.clusterIPs");
        // The value shows the whole list; the reason after it names the one that is at fault.
        let message = ledger::text(&status, "message");
        let reason = message.rsplit_once("]: ").unwrap().1;
        assert!(reason.contains(blamed) && !reason.contains(bad[0]), "{message}");
    }
    assert!(!lab.has_address(bad[0]).await.unwrap());
    let (code, created) = lab.create("resolver-2", &dual(good, families)).await.unwrap();
    assert_eq!(code, 201, "{created}");
    assert!(lab.has_address(good[0]).await.unwrap() && lab.has_address(good[1]).await.unwrap());
    lab.stop().await.unwrap();
}

/// P01, variant: an upgrade to dual stack with a bad second address leaves the first as it was.
#[tokio::test]
async fn p01_a_refused_upgrade_changes_nothing() {
    let lab = lab(&["10.97.0.0/28", "fd00:97::/112"]).await;
    let single = json!({"clusterIP": "10.97.0.11", "ports": [{"port": 53, "protocol": "UDP"}]});
    let (_, before) = lab.create("a", &single).await.unwrap();
    let patch = json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": V4_FIRST,
        "clusterIPs": ["10.97.0.11", "fd00::b"]}});
    let (code, status) = lab.patch("a", &patch).await.unwrap();
    assert_eq!(code, 422, "{status}");
    assert_eq!(lab.service("a").await.unwrap().1, before);
    assert_eq!(lab.complaints().await.unwrap(), Vec::<String>::new());
    lab.stop().await.unwrap();
}

/// P03: a create of what exists is 409 at no cost, also when the range is full, and takes no node port.
#[tokio::test]
async fn p03_a_duplicate_create_costs_nothing() {
    let lab = lab(&["10.97.0.0/28"]).await;
    let plain = json!({"ports": [{"port": 80}]});
    assert_eq!(lab.create("a1", &plain).await.unwrap().0, 201);
    let (_, list) = lab.client.get(IP_ADDRESSES).await.unwrap();
    for _ in 0..3 {
        let (code, status) = lab.create("a1", &plain).await.unwrap();
        assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    }
    // No version was used up: no event can have been.
    let (_, after) = lab.client.get(IP_ADDRESSES).await.unwrap();
    assert_eq!(after, list);
    let mut created = 0;
    while lab.create(&format!("f{created}"), &plain).await.unwrap().0 == 201 {
        created += 1;
    }
    assert_eq!(created, 12);
    let (code, status) = lab.create("a1", &plain).await.unwrap();
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    let exposed = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]});
    assert_eq!(lab.create("a1", &exposed).await.unwrap().0, 409);
    assert_eq!(lab.delete("f0").await.unwrap().0, 200);
    let (code, other) = lab.create("other", &exposed).await.unwrap();
    assert_eq!((code, &other["spec"]["ports"][0]["nodePort"]), (201, &json!(30123)));
    lab.stop().await.unwrap();
}

/// P09: what a Service holds leaves with the object, whichever request takes the last finalizer away.
#[rstest]
#[case::status_patch("PATCH", "/status")]
#[case::main_patch("PATCH", "")]
#[case::main_put("PUT", "")]
#[tokio::test]
async fn p09_values_are_free_when_the_last_finalizer_goes(#[case] method: &str, #[case] subresource: &str) {
    let lab = lab(&["10.96.0.0/16"]).await;
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "clusterIP": "10.96.0.99",
        "healthCheckNodePort": 30098, "ports": [{"port": 80, "nodePort": 30099}]});
    let mut held = service_tests::cluster::service("fin", &spec);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    assert_eq!(lab.client.call("POST", SERVICES, &held).await.unwrap().0, 201);
    let (code, _) = lab.delete("fin").await.unwrap();
    assert_eq!(code, 200);
    let (_, mut fin) = lab.service("fin").await.unwrap();
    assert!(fin["metadata"]["deletionTimestamp"].is_string());
    let same_address = json!({"clusterIP": "10.96.0.99", "ports": [{"port": 80}]});
    let same_port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30098}]});
    assert_eq!(lab.create("x", &same_address).await.unwrap().0, 422);
    assert_eq!(lab.create("y", &same_port).await.unwrap().0, 422);
    let body = if method == "PUT" {
        fin["metadata"]["finalizers"] = Value::Null;
        fin
    } else {
        json!({"metadata": {"finalizers": null}})
    };
    let (code, answer) =
        lab.client.call(method, &format!("{SERVICES}/fin{subresource}"), &body).await.unwrap();
    assert_eq!(code, 200, "{answer}");
    assert_eq!(lab.create("x", &same_address).await.unwrap().0, 201);
    assert_eq!(lab.create("y", &same_port).await.unwrap().0, 201);
    assert_eq!(lab.service("fin").await.unwrap().0, 404);
    assert_eq!(lab.complaints().await.unwrap(), Vec::<String>::new());
    lab.stop().await.unwrap();
}

/// P13, step 1: a small range is used whole and then refuses.
#[rstest]
#[case("10.20.0.0/24", 254)]
#[case("10.20.0.0/26", 62)]
#[case("10.20.0.0/27", 30)]
#[case("10.20.0.0/28", 14)]
#[case("10.20.0.0/29", 6)]
#[case("10.20.0.0/30", 2)]
#[case("fd00:20::/124", 15)]
#[case("fd00:20::/125", 7)]
#[case("fd00:20::/126", 3)]
#[tokio::test]
async fn p13_every_usable_address_is_given_once(#[case] cidr: &str, #[case] usable: usize) {
    let lab = lab(&[cidr]).await;
    let mut number = 0;
    let (code, status) = loop {
        let (code, answer) =
            lab.create(&format!("s{number}"), &json!({"ports": [{"port": 80}]})).await.unwrap();
        if code != 201 {
            break (code, answer);
        }
        number += 1;
    };
    assert_eq!(code, 500, "{status}");
    let services = lab.items(SERVICES).await.unwrap();
    let addresses: BTreeSet<String> = services.iter().flat_map(ledger::cluster_ips).collect();
    assert_eq!((services.len(), addresses.len()), (usable, usable));
    let net: ipnet::IpNet = cidr.parse().unwrap();
    assert!(!addresses.contains(&net.network().to_string()));
    assert!(net.network().is_ipv6() || !addresses.contains(&net.broadcast().to_string()));
    lab.stop().await.unwrap();
}

/// P13, steps 2 and 3: the low band stays free while the high one has room, and is used then.
#[tokio::test]
async fn p13_the_low_band_comes_last() {
    let lab = Lab::start(BINARY, &["10.96.4.0/24"], "30000-30127").await.unwrap();
    let plain = json!({"ports": [{"port": 80}]});
    let low = |service: &Value| {
        ledger::text(service, "spec.clusterIP").rsplit('.').next().unwrap().parse::<u32>().unwrap() <= 16
    };
    for number in 0..150 {
        let (code, service) = lab.create(&format!("s{number}"), &plain).await.unwrap();
        assert!(code == 201 && !low(&service), "{service}");
    }
    let (code, answer) =
        lab.create("static", &json!({"clusterIP": "10.96.4.10", "ports": [{"port": 80}]})).await.unwrap();
    assert_eq!(code, 201, "{answer}");
    let exposed = json!({"type": "NodePort", "ports": [{"port": 80}]});
    for number in 0..60 {
        let (code, service) = lab.create(&format!("n{number}"), &exposed).await.unwrap();
        assert!(
            code == 201 && service["spec"]["ports"][0]["nodePort"].as_u64().unwrap() >= 30016,
            "{service}"
        );
    }
    let fixed = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
    assert_eq!(lab.create("port", &fixed).await.unwrap().0, 201);
    // 254 usable, 16 low: 1 of kubernetes, 1 static; 212 dynamic ones so far are high.
    let mut lows = 0;
    let mut number = 0;
    loop {
        let (code, service) = lab.create(&format!("m{number}"), &plain).await.unwrap();
        if code != 201 {
            break;
        }
        assert!(lows == 0 || low(&service), "a high address was left: {service}");
        lows += usize::from(low(&service));
        number += 1;
    }
    assert_eq!(lows, 14);
    lab.stop().await.unwrap();
}

/// P13, steps 4 and 5: a full range grows by a ServiceCIDR without a restart, within its usable addresses.
#[tokio::test]
async fn p13_a_full_range_grows() {
    let lab = lab(&["10.97.0.0/28"]).await;
    let plain = json!({"ports": [{"port": 80}]});
    let mut number = 0;
    while lab.create(&format!("s{number}"), &plain).await.unwrap().0 == 201 {
        number += 1;
    }
    let more = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.97.8.0/26"]}});
    assert_eq!(lab.client.call("POST", SERVICE_CIDRS, &more).await.unwrap().0, 201);
    let started = std::time::Instant::now();
    loop {
        let (code, service) = lab.create("grown", &plain).await.unwrap();
        if code == 201 {
            assert!(ledger::text(&service, "spec.clusterIP").starts_with("10.97.8."));
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(2), "{service}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for address in ["10.97.8.0", "10.97.8.63"] {
        let (code, status) =
            lab.create("edge", &json!({"clusterIP": address, "ports": [{"port": 80}]})).await.unwrap();
        assert_eq!(code, 422, "{status}");
        let message = ledger::text(&status, "message");
        assert!(message.contains("10.97.8.1 ") && message.contains("10.97.8.62"), "{message}");
    }
    // The dynamic one may have it already.
    let wanted = json!({"clusterIP": "10.97.8.1", "ports": [{"port": 80}]});
    assert_eq!(lab.create("first", &wanted).await.unwrap().0, 201);
    lab.stop().await.unwrap();
}

/// P03, step 1: a watch of IPAddresses sees nothing of a duplicate create.
#[tokio::test]
async fn p03_a_watch_sees_nothing_of_a_duplicate_create() {
    use http_body_util::BodyExt as _;

    let lab = lab(&["10.97.0.0/28"]).await;
    let plain = json!({"ports": [{"port": 80}]});
    lab.create("a1", &plain).await.unwrap();
    let (_, list) = lab.client.get(IP_ADDRESSES).await.unwrap();
    let path = format!(
        "{IP_ADDRESSES}?watch=true&resourceVersion={}",
        ledger::text(&list, "metadata.resourceVersion")
    );
    let response = lab.client.open(request("GET", &path, bytes::Bytes::new()).unwrap()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(lab.create("a1", &plain).await.unwrap().0, 409);
    }
    assert_eq!(lab.create("a2", &plain).await.unwrap().0, 201);
    let frame = response.into_body().frame().await.unwrap().unwrap();
    let event: Value =
        serde_json::from_slice(frame.data_ref().unwrap().split(|byte| *byte == b'\n').next().unwrap())
            .unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["parentRef"]["name"]),
        (&json!("ADDED"), &json!("a2"))
    );
    lab.stop().await.unwrap();
}

/// Somebody deletes the IPAddress of a Service: it is there again before the answer, nobody else gets the address, and
/// there is nothing to tell. (Upstream's repair makes it again later.)
#[tokio::test]
async fn an_address_that_is_deleted_by_hand_comes_back() {
    let lab = lab(&["10.96.0.0/16"]).await;
    let spec = json!({"clusterIP": "10.96.0.60", "ports": [{"port": 80}]});
    assert_eq!(lab.create("a", &spec).await.unwrap().0, 201);
    assert_eq!(lab.create("gone", &json!({"ports": [{"port": 80}]})).await.unwrap().0, 201);
    assert_eq!(lab.delete("gone").await.unwrap().0, 200);
    let path = format!("{IP_ADDRESSES}/10.96.0.60");
    assert_eq!(lab.client.call("DELETE", &path, &json!({})).await.unwrap().0, 200);
    assert!(lab.has_address("10.96.0.60").await.unwrap());
    assert_eq!(lab.create("thief", &spec).await.unwrap().0, 422);
    let (_, events) = lab.client.get("/api/v1/namespaces/default/events").await.unwrap();
    let reasons: Vec<String> =
        events["items"].as_array().unwrap().iter().map(|event| ledger::text(event, "reason")).collect();
    assert!(reasons.is_empty(), "{reasons:?}");
    lab.stop().await.unwrap();
}
