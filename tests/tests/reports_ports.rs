//! Reports P05, P06, P11, P14: node ports and the list they stand in. Each test says which lines of its report it holds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rstest::rstest;
use serde_json::{Value, json};
use service_tests::{
    cluster::{Lab, SERVICES, service},
    http::request,
    ledger,
};

const BINARY: &str = env!("CARGO_BIN_EXE_control-plane-under-test");

async fn lab() -> Lab {
    Lab::start(BINARY, &["10.96.0.0/16"], "30000-32767").await.unwrap_or_else(|error| panic!("{error}"))
}

fn node_port(service: &Value, index: usize) -> u64 {
    service["spec"]["ports"][index]["nodePort"].as_u64().unwrap_or_default()
}

/// Sends a body with a content type.
async fn send(lab: &Lab, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let mut request = request(method, path, body.to_string().into()).unwrap();
    request.headers_mut().insert("content-type", kind.parse().unwrap());
    let answer = lab.client.send(request).await.unwrap();
    (answer.code, answer.json())
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// P05: one number serves both protocols of a Service, and no other Service, whose owner the refusal names.
#[tokio::test]
async fn p05_one_number_for_two_protocols() {
    let lab = lab().await;
    let dns = |extra: Value| {
        let mut ports = json!([{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]);
        for port in ports.as_array_mut().unwrap() {
            port.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        }
        json!({"type": "NodePort", "ports": ports})
    };
    let (code, d1) = lab.create("d1", &dns(json!({}))).await.unwrap();
    assert_eq!(code, 201, "{d1}");
    assert_eq!(node_port(&d1, 0), node_port(&d1, 1));
    let (code, d2) = lab.create("d2", &dns(json!({"nodePort": 30053}))).await.unwrap();
    assert_eq!(code, 201, "{d2}");
    let single = json!({"type": "NodePort", "ports": [{"port": 5353, "protocol": "UDP", "nodePort": 30053}]});
    let (code, status) = lab.create("d3", &single).await.unwrap();
    assert_eq!(code, 422);
    let message = ledger::text(&status, "message");
    for part in ["spec.ports[0].nodePort", "provided port is already allocated", "default/d2", "UDP"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let patch = json!({"spec": {"ports": [{"name": "t", "port": 53, "protocol": "TCP", "nodePort": 30053}]}});
    assert_eq!(lab.patch("d2", &patch).await.unwrap().0, 200);
    assert_eq!(lab.create("d3", &single).await.unwrap().0, 422, "its last user is not gone");
    assert_eq!(lab.delete("d2").await.unwrap().0, 200);
    assert_eq!(lab.create("d3", &single).await.unwrap().0, 201);
    let twice = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30060}, {"name": "b", "port": 80, "nodePort": 30060}]});
    let (code, status) = lab.create("d4", &twice).await.unwrap();
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (422, &json!("FieldValueDuplicate")),
        "{status}"
    );
    lab.stop().await.unwrap();
}

/// P05 with the per-protocol option: a number that one Service holds for TCP is free for another's UDP.
#[tokio::test]
async fn p05_services_may_share_a_number_by_protocol() {
    let more = ["--controllers", "none", "--node-port-sharing", "protocol"];
    let lab = Lab::start_with(BINARY, &["10.96.0.0/16"], "30000-32767", &more).await.unwrap();
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "nodePort": 30053});
    let exposed = |ports: &[Value]| json!({"type": "NodePort", "ports": ports});
    let (code, d2) = lab.create("d2", &exposed(&[port("t", "TCP"), port("u", "UDP")])).await.unwrap();
    assert_eq!(code, 201, "{d2}");
    let udp = exposed(&[port("u", "UDP")]);
    assert_eq!(lab.create("d3", &udp).await.unwrap().0, 422, "d2 holds it for UDP");
    let patch = json!({"spec": {"ports": [port("t", "TCP")]}});
    assert_eq!(lab.patch("d2", &patch).await.unwrap().0, 200);
    let (code, d3) = lab.create("d3", &udp).await.unwrap();
    assert_eq!(code, 201, "{d3}");
    assert_eq!(lab.create("d4", &exposed(&[port("t", "TCP")])).await.unwrap().0, 422, "d2 holds it for TCP");
    assert_eq!(lab.delete("d2").await.unwrap().0, 200);
    assert_eq!(lab.create("d4", &exposed(&[port("t", "TCP")])).await.unwrap().0, 201);
    lab.stop().await.unwrap();
}

/// P06, steps 1 to 3: the patch of a client-side apply that adds the second protocol is not lost in silence.
#[tokio::test]
async fn p06_a_second_protocol_is_not_lost() {
    let lab = lab().await;
    lab.create("ap", &json!({"ports": [{"name": "t", "port": 80, "protocol": "TCP"}]})).await.unwrap();
    let patch = json!({"spec": {
        "$setElementOrder/ports": [{"port": 80}, {"port": 80}],
        "ports": [{"name": "t", "port": 80, "protocol": "TCP"}, {"name": "u", "port": 80, "protocol": "UDP"}],
    }});
    let (code, answer) = send(&lab, "PATCH", &format!("{SERVICES}/ap"), STRATEGIC, &patch).await;
    let (_, there) = lab.service("ap").await.unwrap();
    let protocols: Vec<String> = there["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| ledger::text(port, "protocol"))
        .collect();
    assert!(code >= 400 || protocols == ["TCP", "UDP"], "{code} {answer}, there is {there}");
    lab.stop().await.unwrap();
}

/// P06, steps 4 and 5: server-side apply keeps both, and a patch that names the protocol changes that entry only.
#[tokio::test]
async fn p06_server_side_apply_keeps_both_protocols() {
    let lab = lab().await;
    let path = format!("{SERVICES}/ap2");
    let apply = format!("{path}?fieldManager=me");
    let tcp = json!({"name": "t", "port": 80, "protocol": "TCP"});
    let udp = json!({"name": "u", "port": 80, "protocol": "UDP"});
    assert_eq!(send(&lab, "PATCH", &apply, APPLY, &service("ap2", &json!({"ports": [tcp]}))).await.0, 201);
    let (code, both) =
        send(&lab, "PATCH", &apply, APPLY, &service("ap2", &json!({"ports": [tcp, udp]}))).await;
    assert_eq!((code, both["spec"]["ports"].as_array().unwrap().len()), (200, 2), "{both}");
    let patch = json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "targetPort": 8080}]}});
    let (code, patched) = send(&lab, "PATCH", &path, STRATEGIC, &patch).await;
    assert_eq!(code, 200, "{patched}");
    let targets: Vec<(String, u64)> = patched["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (ledger::text(port, "protocol"), port["targetPort"].as_u64().unwrap()))
        .collect();
    assert_eq!(targets, [("TCP".to_owned(), 80), ("UDP".to_owned(), 8080)]);
    lab.stop().await.unwrap();
}

/// P06, step 6: with one protocol a number, the number alone is the key, as old clients have it.
#[tokio::test]
async fn p06_a_number_alone_is_still_a_key() {
    let lab = lab().await;
    let ports =
        json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 443, "protocol": "TCP"}]);
    lab.create("ap3", &json!({"ports": ports})).await.unwrap();
    let patch = json!({"spec": {"$setElementOrder/ports": [{"port": 80}, {"port": 443}], "ports": [{"port": 80, "targetPort": 8080}]}});
    let (code, patched) = send(&lab, "PATCH", &format!("{SERVICES}/ap3"), STRATEGIC, &patch).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(
        patched["spec"]["ports"],
        json!([{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 8080},
            {"name": "b", "port": 443, "protocol": "TCP", "targetPort": 443}])
    );
    lab.stop().await.unwrap();
}

/// P11, steps 1 to 5: node ports of a load balancer can be given up.
#[tokio::test]
async fn p11_node_ports_can_be_given_up() {
    let lab = lab().await;
    let (_, lb) = lab.create("lb", &json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).await.unwrap();
    let number = node_port(&lb, 0);
    let patch = json!({"spec": {"allocateLoadBalancerNodePorts": false}});
    let (_, kept) = lab.patch("lb", &patch).await.unwrap();
    assert_eq!(node_port(&kept, 0), number);
    let remove = json!([{"op": "remove", "path": "/spec/ports/0/nodePort"}]);
    let (code, dropped) = send(&lab, "PATCH", &format!("{SERVICES}/lb"), JSON_PATCH, &remove).await;
    assert_eq!((code, node_port(&dropped, 0)), (200, 0), "{dropped}");
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]});
    assert_eq!(lab.create("other", &other).await.unwrap().0, 201);
    let none = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local",
        "ports": [{"port": 80}]});
    let (code, lb2) = lab.create("lb2", &none).await.unwrap();
    assert_eq!((code, node_port(&lb2, 0)), (201, 0));
    assert!(lb2["spec"]["healthCheckNodePort"].as_u64().unwrap() >= 30000);
    lab.stop().await.unwrap();
}

/// P11, step 6: a load balancer that becomes a plain Service gives everything back.
#[tokio::test]
async fn p11_a_type_change_gives_everything_back() {
    let lab = lab().await;
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let (_, lb3) = lab.create("lb3", &spec).await.unwrap();
    let numbers = [node_port(&lb3, 0), lb3["spec"]["healthCheckNodePort"].as_u64().unwrap()];
    let (code, plain) = lab.patch("lb3", &json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    assert_eq!(code, 200, "{plain}");
    for gone in ["healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
        assert_eq!(plain["spec"].get(gone), None, "{gone}");
    }
    assert_eq!(node_port(&plain, 0), 0);
    for number in numbers {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]});
        assert_eq!(lab.create(&format!("n{number}"), &spec).await.unwrap().0, 201);
    }
    lab.stop().await.unwrap();
}

/// P14: an update that does not speak of the node port keeps it, by name or by number.
#[tokio::test]
async fn p14_a_node_port_stays() {
    let lab = lab().await;
    let (_, mut np) =
        lab.create("np", &json!({"type": "NodePort", "ports": [{"name": "web", "port": 80}]})).await.unwrap();
    let number = node_port(&np, 0);
    let path = format!("{SERVICES}/np");
    let one = |name: &str, port: u16| json!([{"name": name, "port": port, "targetPort": 80}]);
    let two = json!([{"name": "http", "port": 8080}, {"name": "admin", "port": 9090}]);
    let zero = json!([{"name": "http", "port": 8080, "nodePort": 0}, {"name": "admin", "port": 9090, "nodePort": 0}]);
    let mut admin = None;
    for ports in [one("web", 8080), one("http", 8080), two.clone(), zero] {
        np["spec"]["ports"] = ports.clone();
        let (code, answer) = lab.client.call("PUT", &path, &np).await.unwrap();
        assert_eq!(code, 200, "{answer}");
        assert_eq!(node_port(&answer, 0), number, "{ports}");
        if ports.as_array().unwrap().len() == 2 {
            let second = node_port(&answer, 1);
            assert_eq!(*admin.get_or_insert(second), second);
            assert!(second >= 30000 && second != number);
        }
        np = answer;
    }
    let before = np.clone();
    let bare = service("np", &json!({"type": "NodePort", "ports": two}));
    let (code, after) = lab.client.call("PUT", &path, &bare).await.unwrap();
    assert_eq!(code, 200, "{after}");
    for kept in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(after["spec"][kept], before["spec"][kept], "{kept}");
    }
    assert_eq!((node_port(&after, 0), Some(node_port(&after, 1))), (number, admin));
    lab.stop().await.unwrap();
}

/// P14, last step, for the health check port: it stays when an update leaves it out.
#[rstest]
#[case(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}))]
#[tokio::test]
async fn p14_a_health_check_port_stays(#[case] spec: Value) {
    let lab = lab().await;
    let (_, before) = lab.create("lb", &spec).await.unwrap();
    let (code, after) =
        lab.client.call("PUT", &format!("{SERVICES}/lb"), &service("lb", &spec)).await.unwrap();
    assert_eq!(code, 200, "{after}");
    assert_eq!(after["spec"], before["spec"]);
    lab.stop().await.unwrap();
}
