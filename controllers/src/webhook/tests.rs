//! Questions as an API server asks them, and what comes back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Service;
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::{Value, json};
use service_allocators::ServiceKey;
use service_allocators::pools::Value as PoolValue;

use super::*;
use crate::ledger::{Wanted, feed};
use crate::report::metrics::WatchMetrics;

/// A webhook that knows a cluster of one range and one pool: 10.96.0.128/28 and the ports 31000 to 31009 for the
/// namespaces of the team "gold".
#[allow(clippy::needless_pass_by_value)] // as `json!` gives it
fn webhook(share: Share, pool: Value) -> Webhook {
    let settings = Settings { node_ports: "30000-32767".parse().unwrap(), share };
    let webhook = Webhook::new(&settings, WebhookMetrics::register(&mut Registry::default()));
    let mut spec = json!({
        "addresses": ["10.96.0.128/28"], "nodePorts": [{"firstPort": 31000, "lastPort": 31009}],
        "namespaceSelector": {"matchLabels": {"team": "gold"}},
    });
    for (key, value) in pool.as_object().cloned().unwrap_or_default() {
        spec[key] = value;
    }
    webhook.ledger.with(|known| {
        let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}});
        known.set_cidr(&serde_json::from_value(cidr).unwrap());
        known.set_namespace("shop".into(), [("team".to_owned(), "gold".to_owned())].into());
        known.set_pool(serde_json::from_value(json!({"metadata": {"name": "gold"}, "spec": spec})).unwrap());
    });
    webhook
}

fn service(namespace: &str, spec: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn question(uid: &str, new: &Value, old: Option<&Value>) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": uid, "kind": {"group": "", "version": "v1", "kind": "Service"},
        "resource": {"group": "", "version": "v1", "resource": "services"},
        "name": "web", "namespace": new["metadata"]["namespace"],
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "object": new, "oldObject": old, "dryRun": false, "userInfo": {}, "options": null,
    }})
}

fn ask(webhook: &Webhook, stage: Stage, question: &Value) -> Value {
    let answer = webhook.answer(stage, question.to_string().as_bytes()).unwrap();
    let mut answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["uid"], question["request"]["uid"]);
    if let Some(patch) = answer["response"]["patch"].as_str() {
        answer["response"]["patch"] = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    }
    answer["response"].take()
}

/// The object after a patch that only sets fields.
fn patched(object: &Value, response: &Value) -> Value {
    let mut object = object.clone();
    for operation in response["patch"].as_array().into_iter().flatten() {
        assert_eq!(operation["op"], "add");
        let path = operation["path"].as_str().unwrap();
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = operation["value"].clone();
    }
    object
}

#[test]
fn a_service_under_a_pool_gets_values_of_the_pool() {
    let webhook = webhook(Share::WHOLE, json!({}));
    let new = service(
        "shop",
        &json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": true,
        }),
    );
    let response = ask(&webhook, Stage::Mutate, &question("1", &new, None));
    let after = patched(&new, &response);
    let ip: std::net::Ipv4Addr = after["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    assert!((128..144).contains(&ip.octets()[3]) && after["spec"]["clusterIPs"] == json!([ip.to_string()]));
    for field in ["/spec/ports/0/nodePort", "/spec/healthCheckNodePort"] {
        let port = after.pointer(field).and_then(Value::as_i64).unwrap();
        assert!((31000..=31009).contains(&port), "{field}: {port}");
    }
    assert_eq!(
        ask(&webhook, Stage::Validate, &question("1", &after, None)),
        json!({"uid": "1", "allowed": true})
    );
}

#[rstest]
#[case::another_namespace("other", json!({}))]
#[case::headless("shop", json!({"clusterIP": "None", "clusterIPs": ["None"]}))]
#[case::external("shop", json!({"type": "ExternalName", "externalName": "example.com"}))]
#[case::asked_for("shop", json!({"clusterIP": "10.96.0.130", "clusterIPs": ["10.96.0.130"]}))]
#[case::in_no_range("shop", json!({"clusterIP": "10.1.1.1", "clusterIPs": ["10.1.1.1"]}))]
#[case::nonsense("shop", json!({"clusterIP": "x", "clusterIPs": ["x"]}))]
#[case::unreadable("shop", json!({"ports": 7}))]
fn everything_else_is_left_alone(#[case] namespace: &str, #[case] spec: Value) {
    let webhook = webhook(Share::WHOLE, json!({}));
    let new = service(namespace, &spec);
    for stage in [Stage::Mutate, Stage::Validate] {
        assert_eq!(ask(&webhook, stage, &question("1", &new, None)), json!({"uid": "1", "allowed": true}));
    }
}

#[test]
fn other_questions_are_left_alone() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden"}));
    let new = service("shop", &json!({"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"]}));
    let mut status = question("1", &new, Some(&new));
    status["request"]["subResource"] = json!("status");
    let mut delete = question("1", &new, Some(&new));
    delete["request"]["operation"] = json!("DELETE");
    delete["request"]["object"] = Value::Null;
    let mut pod = question("1", &new, None);
    pod["request"]["resource"]["resource"] = json!("pods");
    for question in [status, delete, pod] {
        assert_eq!(ask(&webhook, Stage::Mutate, &question)["allowed"], json!(true));
    }
}

#[test]
fn what_a_pool_forbids_is_refused() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden", "exclusive": true}));
    let outside = service("shop", &json!({"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"]}));
    let inside = service("other", &json!({"clusterIP": "10.96.0.130", "clusterIPs": ["10.96.0.130"]}));
    for (service, text) in [(outside, "outside of ServicePool gold"), (inside, "for other Services alone")] {
        for stage in [Stage::Mutate, Stage::Validate] {
            let response = ask(&webhook, stage, &question("1", &service, None));
            assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
            assert!(response["status"]["message"].as_str().unwrap().contains(text), "{response}");
        }
        let kept = ask(&webhook, Stage::Validate, &question("2", &service, Some(&service)));
        assert_eq!(kept["allowed"], json!(true), "what it has already it keeps");
    }
    let other = service("other", &json!({}));
    let response = ask(&webhook, Stage::Mutate, &question("3", &other, None));
    let after = patched(&other, &response);
    assert!(after["spec"]["clusterIP"].is_string(), "the API server might choose a value of the pool");
}

#[test]
fn a_service_that_was_made_while_the_webhook_was_away_keeps_what_it_got() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden"}));
    let ports =
        |node_port: i32| json!([{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": node_port}]);
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"], "ports": ports(30080)});
    let old = service("shop", &spec);
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    for stage in [Stage::Mutate, Stage::Validate] {
        let response = ask(&webhook, stage, &question("1", &new, Some(&old)));
        assert_eq!((&response["allowed"], response["patch"].is_null()), (&json!(true), true), "{response}");
    }
    new["spec"]["ports"] = ports(30081);
    let response = ask(&webhook, Stage::Validate, &question("2", &new, Some(&old)));
    assert_eq!(response["allowed"], json!(false), "what it asks for anew is another matter");
}

#[test]
fn a_full_pool_says_so() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden", "nodePorts": []}));
    for i in 0..16 {
        let new = service("shop", &json!({}));
        assert_eq!(
            ask(&webhook, Stage::Mutate, &question(&i.to_string(), &new, None))["allowed"],
            json!(true)
        );
    }
    let response = ask(&webhook, Stage::Mutate, &question("late", &service("shop", &json!({})), None));
    assert!(response["status"]["message"].as_str().unwrap().contains("has nothing left"), "{response}");
}

#[test]
fn the_same_question_has_the_same_answer_and_another_has_another() {
    let webhook = webhook(Share::WHOLE, json!({}));
    let new = service("shop", &json!({}));
    let first = ask(&webhook, Stage::Mutate, &question("1", &new, None));
    assert_eq!(ask(&webhook, Stage::Mutate, &question("1", &new, None)), first);
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..16 {
        let response = ask(&webhook, Stage::Mutate, &question(&format!("q{i}"), &new, None));
        let ip = patched(&new, &response)["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert!(seen.insert(ip), "a value in flight was given again");
    }
    // Once it has its values, it is asked about no more.
    let after = patched(&new, &first);
    assert_eq!(
        ask(&webhook, Stage::Mutate, &question("1", &after, None)),
        json!({"uid": "1", "allowed": true})
    );
}

/// Another webhook changes the Service after this one did, and the API server asks again with what came of both.
#[test]
fn what_another_webhook_adds_is_completed_and_what_was_chosen_stays() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden"}));
    let new = service("shop", &json!({}));
    let mut both = patched(&new, &ask(&webhook, Stage::Mutate, &question("1", &new, None)));
    let address = both["spec"]["clusterIP"].clone();
    both["spec"]["type"] = json!("NodePort");
    let again = patched(&both, &ask(&webhook, Stage::Mutate, &question("1", &both, None)));
    assert_eq!(again["spec"]["clusterIP"], address);
    let port = again["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((31000..=31009).contains(&port), "{port}");
    let answer = ask(&webhook, Stage::Validate, &question("1", &again, None));
    assert_eq!(answer, json!({"uid": "1", "allowed": true}));
    // What the other one puts in the place of a chosen value is looked at as what a user asks for.
    both["spec"]["clusterIP"] = json!("10.96.1.1");
    both["spec"]["clusterIPs"] = json!(["10.96.1.1"]);
    assert_eq!(ask(&webhook, Stage::Validate, &question("1", &both, None))["allowed"], json!(false));
}

#[test]
fn a_dry_run_keeps_nothing() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden", "nodePorts": []}));
    for i in 0..100 {
        let mut question = question(&format!("d{i}"), &service("shop", &json!({})), None);
        question["request"]["dryRun"] = json!(true);
        let response = ask(&webhook, Stage::Mutate, &question);
        assert!(response["patch"].is_array(), "{response}");
    }
}

#[test]
fn two_replicas_never_choose_alike() {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..2 {
        let webhook =
            webhook(Share::new(index, 2).unwrap(), json!({"fallback": "Forbidden", "nodePorts": []}));
        for i in 0..8 {
            let new = service("shop", &json!({}));
            let response = ask(&webhook, Stage::Mutate, &question(&i.to_string(), &new, None));
            let ip = patched(&new, &response)["spec"]["clusterIP"].as_str().unwrap().to_owned();
            assert!(seen.insert(ip));
        }
    }
    assert_eq!(seen.len(), 16);
}

#[test]
fn an_update_gets_what_it_comes_to_need() {
    let webhook = webhook(Share::WHOLE, json!({}));
    let old = service("shop", &json!({"clusterIP": "10.96.0.130", "clusterIPs": ["10.96.0.130"]}));
    let mut new = old.clone();
    new["spec"]["type"] = json!("NodePort");
    // A replace may leave out what the API server carries over.
    new["spec"].as_object_mut().unwrap().remove("clusterIP");
    new["spec"].as_object_mut().unwrap().remove("clusterIPs");
    let response = ask(&webhook, Stage::Mutate, &question("1", &new, Some(&old)));
    let paths: Vec<&str> =
        response["patch"].as_array().unwrap().iter().map(|o| o["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/spec/ports/0/nodePort"]);
}

#[test]
fn what_is_stored_meanwhile_is_not_chosen() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden", "addresses": ["10.96.0.128/30"]}));
    webhook.ledger.with(|known| {
        for ip in ["10.96.0.128", "10.96.0.130"] {
            known.live.set_address(ip, 0);
        }
        let stored =
            service("shop", &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]}));
        let stored: Service = serde_json::from_value(stored).unwrap();
        known.set_service(&stored, 0);
        assert!(known.live.ledger.ports.contains(31000));
        known.remove_service(&ServiceKey::new("shop", "web"), 0);
        assert!(!known.live.ledger.ports.contains(31000));
        known.live.pools.hold(PoolValue::Port(31001), i64::MAX);
    });
    for i in 0..2 {
        let new = service("shop", &json!({}));
        let response = ask(&webhook, Stage::Mutate, &question(&i.to_string(), &new, None));
        let ip = patched(&new, &response)["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert!(ip == "10.96.0.129" || ip == "10.96.0.131", "{ip}");
    }
}

#[rstest]
#[case("", "the body is no AdmissionReview")]
#[case(r#"{"apiVersion": "admission.k8s.io/v1beta1", "request": {}}"#, "admissionReviewVersions")]
#[case(r#"{"apiVersion": "admission.k8s.io/v1"}"#, "has no request")]
fn what_is_no_question_has_no_answer(#[case] body: &str, #[case] text: &str) {
    let webhook = webhook(Share::WHOLE, json!({}));
    let error = webhook.answer(Stage::Mutate, body.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

/// A server that has the kinds of Kubernetes and none of ours; its watches say nothing.
fn server_without_our_kinds() -> kube::Client {
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    let service = tower::service_fn(|request: http::Request<Body>| async move {
        let (path, query) =
            (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        let answer = |code: u16, body: &Value| {
            let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
            let body = body.map_err(|never| -> std::io::Error { match never {} }).boxed();
            http::Response::builder().status(code).body(body).unwrap()
        };
        let response = if path.contains("service-control-plane.io") {
            answer(
                404,
                &json!({"kind": "Status", "status": "Failure", "message": "the server could not find the requested resource", "reason": "NotFound", "code": 404}),
            )
        } else if query.contains("watch=true") {
            let silence =
                futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>();
            http::Response::new(http_body_util::StreamBody::new(silence).boxed())
        } else {
            answer(200, &json!({"metadata": {"resourceVersion": "1"}, "items": []}))
        };
        Ok::<_, std::convert::Infallible>(response)
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn kinds_that_the_server_does_not_have_are_not_waited_for() {
    let settings = Settings { node_ports: "30000-32767".parse().unwrap(), share: Share::WHOLE };
    let webhook = Webhook::new(&settings, WebhookMetrics::register(&mut Registry::default()));
    let shutdown = tokio_util::sync::CancellationToken::new();
    let wanted = Wanted { pools: true };
    let (client, metrics) = (server_without_our_kinds(), WatchMetrics::default());
    let (fed, work) = feed(&client, webhook.ledger(), wanted, metrics, Arc::default(), shutdown.clone());
    assert!(!webhook.ledger.with(|known| known.is_complete()));
    let work = tokio::spawn(work);
    fed.complete.cancelled().await;
    let new = service("shop", &json!({}));
    assert_eq!(
        ask(&webhook, Stage::Mutate, &question("1", &new, None)),
        json!({"uid": "1", "allowed": true})
    );
    shutdown.cancel();
    work.await.unwrap();
}

#[test]
fn before_it_knows_the_cluster_it_leaves_everything_alone() {
    let webhook = webhook(Share::WHOLE, json!({"fallback": "Forbidden"}));
    webhook.ledger.with(|known| known.awaits("services"));
    let outside = service("shop", &json!({"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"]}));
    assert_eq!(ask(&webhook, Stage::Mutate, &question("1", &outside, None))["allowed"], json!(true));
}
