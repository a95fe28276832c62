//! NodePorts, NodePortRanges and ServicePools in the lab: written with the Service, ranges added while it runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use service_tests::cluster::Lab;

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");
const OWN: &str = "/apis/service-control-plane.io/v1alpha1";

async fn lab(ports: &str) -> Lab {
    Lab::start(BINARY, &["10.96.0.0/24"], ports).await.unwrap_or_else(|error| panic!("{error}"))
}

fn node_port(more: &Value) -> Value {
    let mut port = json!({"name": "http", "port": 80});
    for (key, value) in more.as_object().unwrap() {
        port[key] = value.clone();
    }
    json!({"type": "NodePort", "ports": [port]})
}

async fn names(lab: &Lab, resource: &str) -> Vec<String> {
    let items = lab.items(&format!("{OWN}/{resource}")).await.unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn range(lab: &Lab, name: &str, first: u16, last: u16, role: &str) -> (u16, Value) {
    let body = json!({
        "apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePortRange", "metadata": {"name": name},
        "spec": {"firstPort": first, "lastPort": last, "role": role},
    });
    lab.client.call("POST", &format!("{OWN}/nodeportranges"), &body).await.unwrap()
}

#[tokio::test]
async fn a_node_port_is_an_object_that_comes_and_goes_with_its_service() {
    let lab = lab("30000-30009").await;
    let (code, _) = lab.create("web", &node_port(&json!({"nodePort": 30005}))).await.unwrap();
    assert_eq!(code, 201);
    let (code, port) = lab.client.get(&format!("{OWN}/nodeports/30005")).await.unwrap();
    assert_eq!(code, 200, "{port}");
    let expected = json!({
        "parentRef": {"resource": "services", "namespace": "default", "name": "web"},
        "protocols": ["TCP"], "purpose": "ServicePort", "portNames": ["http"],
    });
    assert_eq!(port["spec"], expected);
    assert!(port["metadata"]["creationTimestamp"].is_string());

    let more = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}});
    assert_eq!(lab.patch("web", &more).await.unwrap().0, 200);
    assert_eq!(names(&lab, "nodeports").await, ["30001", "30005"]);
    let (_, health) = lab.client.get(&format!("{OWN}/nodeports/30001")).await.unwrap();
    assert_eq!(health["spec"]["purpose"], "HealthCheck");

    assert_eq!(
        lab.patch("web", &json!({"spec": {"type": "ClusterIP", "externalTrafficPolicy": null}}))
            .await
            .unwrap()
            .0,
        200
    );
    assert_eq!(names(&lab, "nodeports").await, [] as [&str; 0]);
    assert_eq!(lab.patch("web", &json!({"spec": {"type": "NodePort"}})).await.unwrap().0, 200);
    assert_eq!(names(&lab, "nodeports").await.len(), 1);
    lab.delete("web").await.unwrap();
    assert_eq!(names(&lab, "nodeports").await, [] as [&str; 0]);
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn a_refused_service_leaves_no_port_behind() {
    let lab = lab("30000-30009").await;
    let bad =
        json!({"type": "NodePort", "clusterIP": "10.1.1.1", "ports": [{"port": 80, "nodePort": 30003}]});
    assert_eq!(lab.create("web", &bad).await.unwrap().0, 422);
    let mut nameless = node_port(&json!({"nodePort": 30003}));
    nameless["ports"][0]["port"] = json!(0);
    assert_eq!(lab.create("web", &nameless).await.unwrap().0, 422);
    assert_eq!(names(&lab, "nodeports").await, [] as [&str; 0]);
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn what_holds_a_port_by_hand_keeps_it_from_services() {
    let lab = lab("30000-30001").await;
    let gateway = json!({
        "apiVersion": "service-control-plane.io/v1alpha1", "kind": "NodePort", "metadata": {"name": "30000"},
        "spec": {"parentRef": {"group": "example.com", "resource": "gateways", "namespace": "a", "name": "b"}, "protocols": ["TCP"]},
    });
    let (code, created) = lab.client.call("POST", &format!("{OWN}/nodeports"), &gateway).await.unwrap();
    assert_eq!(code, 201, "{created}");
    let (code, refused) = lab.create("asks", &node_port(&json!({"nodePort": 30000}))).await.unwrap();
    assert_eq!(code, 422, "{refused}");
    assert_eq!(
        lab.create("any", &node_port(&json!({}))).await.unwrap().1["spec"]["ports"][0]["nodePort"],
        30001
    );
    assert_eq!(lab.create("late", &node_port(&json!({}))).await.unwrap().0, 500);
    lab.client.call("DELETE", &format!("{OWN}/nodeports/30000"), &Value::Null).await.unwrap();
    assert_eq!(lab.create("asks", &node_port(&json!({"nodePort": 30000}))).await.unwrap().0, 201);
    // Deleting the object of a Service that has the port frees nothing.
    lab.client.call("DELETE", &format!("{OWN}/nodeports/30001"), &Value::Null).await.unwrap();
    assert_eq!(lab.create("late", &node_port(&json!({"nodePort": 30001}))).await.unwrap().0, 422);
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn ranges_are_added_while_the_server_runs() {
    let lab = lab("30000-30000").await;
    assert_eq!(names(&lab, "nodeportranges").await, ["kubernetes"]);
    assert_eq!(lab.create("a", &node_port(&json!({}))).await.unwrap().0, 201);
    assert_eq!(lab.create("b", &node_port(&json!({}))).await.unwrap().0, 500);
    let (code, created) = range(&lab, "more", 31000, 31001, "Dynamic").await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(range(&lab, "fixed", 31001, 31005, "StaticOnly").await.0, 201);
    assert_eq!(range(&lab, "mine", 31005, 31005, "Excluded").await.0, 201);
    assert_eq!(
        lab.create("b", &node_port(&json!({}))).await.unwrap().1["spec"]["ports"][0]["nodePort"],
        31000
    );
    assert_eq!(
        lab.create("c", &node_port(&json!({}))).await.unwrap().0,
        500,
        "the rest is not for automatic choice"
    );
    assert_eq!(lab.create("c", &node_port(&json!({"nodePort": 31002}))).await.unwrap().0, 201);
    let (code, refused) = lab.create("d", &node_port(&json!({"nodePort": 31005}))).await.unwrap();
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("The range of valid ports is 30000-30000, 31000-31001, 31001-31005"),
        "{message}"
    );
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn absurd_ranges_are_refused() {
    let lab = lab("30000-30009").await;
    for (first, last) in [(0, 10), (31000, 30000)] {
        let (code, refused) = range(&lab, "bad", first, last, "Dynamic").await;
        assert_eq!(code, 422, "{refused}");
    }
    let (code, refused) = range(&lab, "bad", 31000, 31001, "Sometimes").await;
    assert_eq!(code, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("StaticOnly"), "{refused}");
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn a_pool_gives_its_part_to_its_services() {
    let lab = lab("30000-30099").await;
    let pool = json!({
        "apiVersion": "service-control-plane.io/v1alpha1", "kind": "ServicePool", "metadata": {"name": "gold"},
        "spec": {
            "addresses": ["10.96.0.128/30"], "nodePorts": [{"firstPort": 30050, "lastPort": 30051}], "exclusive": true,
            "fallback": "Forbidden", "serviceSelector": {"matchLabels": {"tier": "gold"}},
            "reservations": [{"address": "10.96.0.129", "namespace": "default", "name": "till"}],
        },
    });
    let (code, created) = lab.client.call("POST", &format!("{OWN}/servicepools"), &pool).await.unwrap();
    assert_eq!(code, 201, "{created}");
    let create = async |name: &str, spec: Value| {
        let body = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "labels": {"tier": "gold"}}, "spec": spec});
        lab.client.call("POST", service_tests::cluster::SERVICES, &body).await.unwrap()
    };
    let mut given = Vec::new();
    for name in ["a", "b", "c"] {
        let (code, service) = create(name, json!({"ports": [{"port": 80}]})).await;
        assert_eq!(code, 201, "{service}");
        given.push(service["spec"]["clusterIP"].as_str().unwrap().to_owned());
    }
    given.sort();
    assert_eq!(given, ["10.96.0.128", "10.96.0.130", "10.96.0.131"]);
    let (code, refused) = create("d", json!({"ports": [{"port": 80}]})).await;
    assert!(
        code == 500 && refused["message"].as_str().unwrap().contains("ServicePool gold has nothing left"),
        "{refused}"
    );
    let (_, till) = create("till", node_port(&json!({}))).await;
    assert_eq!(till["spec"]["clusterIP"], "10.96.0.129");
    assert!([30050, 30051].contains(&till["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    let asked = json!({"clusterIP": "10.96.0.130", "ports": [{"port": 80}]});
    lab.delete("a").await.unwrap();
    let (code, refused) =
        lab.create("other", &json!({"clusterIP": given[0], "ports": [{"port": 80}]})).await.unwrap();
    assert_eq!(code, 422, "{asked} {refused}");
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn ports_and_ranges_outlive_a_restart() {
    let lab = Lab::start_on_disk(BINARY, &["10.96.0.0/24"], "30000-30009").await.unwrap();
    lab.create("a", &node_port(&json!({"nodePort": 30001}))).await.unwrap();
    range(&lab, "more", 31000, 31000, "Dynamic").await;
    let lab = lab.restart().await.unwrap();
    assert_eq!(names(&lab, "nodeports").await, ["30001"]);
    assert_eq!(lab.create("b", &node_port(&json!({"nodePort": 30001}))).await.unwrap().0, 422);
    assert_eq!(lab.create("b", &node_port(&json!({"nodePort": 31000}))).await.unwrap().0, 201);
    lab.stop().await.unwrap();
}
