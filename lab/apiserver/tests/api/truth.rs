//! What a refusal says, what a dry run shows, and that what is in use can not be taken.

use rstest::rstest;
use serde_json::{Value, json};

use service_lab_apiserver::server::LabConfig;

use crate::support::{Answer, Client, client, client_of, config};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["ports"].is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn make(client: &Client, name: &str, spec: Value) -> Value {
    client.post(SERVICES, &service(name, spec)).await.expect(201)
}

#[tokio::test]
async fn the_address_of_a_living_service_is_never_free() {
    let client = client();
    make(&client, "a", json!({"clusterIP": "10.96.0.77"})).await;
    let thief = service("b", json!({"clusterIP": "10.96.0.77"}));
    let held = format!("{ADDRESSES}/10.96.0.77");
    let uid = client.get(&held).await.expect(200)["metadata"]["uid"].clone();
    let before = client.revision();
    client.delete(&held).await.expect(200);
    client.post(SERVICES, &thief).await.expect(422);
    let again = client.get(&held).await.expect(200);
    assert_eq!(again["spec"]["parentRef"]["name"], json!("a"));
    assert_ne!(again["metadata"]["uid"], uid);
    let events = client.watch(&format!("{ADDRESSES}?watch=1&resourceVersion={before}"), 2).await;
    let told: Vec<_> = events.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(told, [json!("DELETED"), json!("ADDED")]);
    client.delete(ADDRESSES).await.expect(200);
    client.post(SERVICES, &thief).await.expect(422);
    assert_eq!(client.get(&held).await.expect(200)["spec"]["parentRef"]["name"], json!("a"));
    let moved = client.merge(&held, &json!({"spec": {"parentRef": {"name": "b"}}})).await;
    assert_eq!(moved.code, 422, "{}", moved.text);
    // With a finalizer it is marked first and comes back when that is gone.
    client.merge(&held, &json!({"metadata": {"finalizers": ["example.com/hold"]}})).await.expect(200);
    client.delete(&held).await.expect(200);
    client.merge(&held, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    client.post(SERVICES, &thief).await.expect(422);
    assert!(client.get(&held).await.expect(200)["metadata"].get("deletionTimestamp").is_none());
}

/// Who made a mistake hears of it, also while no address is left.
#[tokio::test]
async fn a_full_range_does_not_hide_a_mistake() {
    let client = client_of(&config("10.97.0.0/30"));
    make(&client, "a", json!({})).await;
    let full = client.post(SERVICES, &service("b", json!({}))).await.expect(500);
    assert_eq!(
        full["message"],
        json!(
            "Internal error occurred: failed to allocate a serviceIP for Service \"b\": range is full: 10.97.0.0/30 \
             (ServiceCIDR kubernetes) has 2 of 2 addresses taken; a further ServiceCIDR adds addresses"
        )
    );
    let faulty = client.post(SERVICES, &service("b", json!({"ports": [{"port": 0}]}))).await.expect(422);
    assert_eq!(faulty["details"]["causes"][0]["field"], json!("spec.ports[0].port"));
    let path = format!("{SERVICES}/x");
    let external = json!({"type": "ExternalName", "externalName": "x.example"});
    make(&client, "x", external).await;
    let change = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    client.merge(&path, &change).await.expect(500);
    let change = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 70000}]}});
    client.merge(&path, &change).await.expect(422);
}

/// A dry run shows what could be given, is refused as the request itself, and takes nothing.
#[rstest]
#[case::free(json!({"type": "NodePort"}), 201)]
#[case::taken(json!({"clusterIP": "10.96.0.77"}), 422)]
#[case::elsewhere(json!({"clusterIP": "192.0.2.1"}), 422)]
#[case::port(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30077}]}), 422)]
#[case::faulty(json!({"ports": [{"port": 0}]}), 422)]
#[tokio::test]
async fn dry_runs(#[case] spec: Value, #[case] code: u16) {
    let client = client();
    let held =
        json!({"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30077}]});
    make(&client, "held", held).await;
    let before = client.revision();
    let dry = client.post(&format!("{SERVICES}?dryRun=All"), &service("a", spec.clone())).await.expect(code);
    assert_eq!(client.revision(), before);
    if code == 201 {
        let port = dry["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
        assert!((30000..=32767).contains(&port), "{dry}");
        assert_ne!(dry["spec"]["clusterIP"], json!("10.96.0.0"));
        let mut asked = service("a", dry["spec"].clone());
        asked["spec"]["clusterIP"] = dry["spec"]["clusterIP"].clone();
        client.post(SERVICES, &asked).await.expect(201);
    } else {
        let real = client.post(SERVICES, &service("a", spec)).await.expect(code);
        assert_eq!(dry["message"], real["message"]);
    }
}

#[tokio::test]
async fn a_dry_run_of_a_change() {
    let client = client();
    make(&client, "held", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30077}]})).await;
    make(&client, "a", json!({})).await;
    let path = format!("{SERVICES}/a?dryRun=All");
    let before = client.revision();
    let shown = client.merge(&path, &json!({"spec": {"type": "NodePort"}})).await.expect(200);
    let port = shown["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&port), "{shown}");
    let taken = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30077}]}});
    client.merge(&path, &taken).await.expect(422);
    assert_eq!(client.revision(), before);
}

#[tokio::test]
async fn a_terminating_range_is_said() {
    let client = client();
    let range = json!({"metadata": {"name": "extra", "finalizers": ["example.com/hold"]}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    client.post("/apis/networking.k8s.io/v1/servicecidrs", &range).await.expect(201);
    client.delete("/apis/networking.k8s.io/v1/servicecidrs/extra").await;
    let refused = client.post(SERVICES, &service("a", json!({"clusterIP": "10.200.0.9"}))).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "failed to allocate IP 10.200.0.9: the provided network does not match the current range: 10.200.0.0/24 has \
             it, but ServiceCIDR extra is terminating and gives no more addresses"
        ),
        "{message}"
    );
}

/// What upstream answers with 500 and the client can mend is a 4xx with its field.
#[rstest]
#[case::unknown(json!({"spec": {"topologyKeys": ["*"]}}), "spec.topologyKeys")]
#[case::twice(json!({"spec": {"ports": [{"port": 80}, {"port": 80}]}}), "spec.ports")]
#[case::text(json!({"spec": {"ports": [{"port": "80"}]}}), "spec.ports[port=\"80\",protocol=\"TCP\"].port")]
#[case::fraction(json!({"spec": {"ports": [{"port": 80.5}]}}), "spec.ports.port")]
#[case::label(json!({"metadata": {"labels": {"a": 1}}}), "metadata.labels.a")]
#[case::finalizer(json!({"metadata": {"finalizers": ["a/b", "a/b"]}}), "metadata.finalizers")]
#[case::status(json!({"status": {"colour": "red"}}), "status.colour")]
#[tokio::test]
async fn an_apply_with_a_mistake(#[case] change: Value, #[case] field: &str) {
    let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "u"}});
    for (part, value) in change.as_object().unwrap() {
        for (name, value) in value.as_object().unwrap() {
            body[part][name] = value.clone();
        }
    }
    let path = format!("{SERVICES}/u?fieldManager=m");
    let sent = client().request("PATCH", &path, "application/apply-patch+yaml", &body.to_string()).await;
    let refused = sent.expect(422);
    assert_eq!(refused["reason"], json!("Invalid"));
    assert_eq!(refused["details"]["causes"][0]["field"], json!(field), "{refused}");
}

#[tokio::test]
async fn versions_that_are_none() {
    let client = client();
    let made = make(&client, "a", json!({})).await;
    let mut dumped = made.clone();
    dumped["metadata"]["name"] = json!("b");
    for path in [SERVICES.to_owned(), format!("{SERVICES}?dryRun=All")] {
        dumped["spec"] = json!({"ports": [{"port": 80}]});
        let refused = client.post(&path, &dumped).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], json!("metadata.resourceVersion"));
        let words = "resourceVersion should not be set on objects to be created";
        assert!(refused["message"].as_str().unwrap().ends_with(words), "{refused}");
    }
    let path = format!("{SERVICES}/a");
    let refused = client.merge(&path, &json!({"metadata": {"resourceVersion": "abc"}})).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], json!("metadata.resourceVersion"));
}

/// A lab that is started with other ranges than its data has goes on with those, and says so where somebody looks.
#[tokio::test]
async fn ranges_of_another_start_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let stored = |range| LabConfig { data_dir: Some(dir.path().to_owned()), ..config(range) };
    drop(client_of(&stored("10.96.0.0/16")));
    let client = client_of(&stored("10.200.0.0/16"));
    let difference = "The default ServiceCIDR has 10.96.0.0/16, not --service-cluster-ip-range of this start, 10.200.0.0/16";
    let ready = client.get("/readyz?verbose").await;
    assert_eq!(ready.code, 200);
    assert!(ready.text.contains(&format!("[+]service-ranges ok: {difference}")), "{}", ready.text);
    let warned = |made: &Answer| {
        let told = made.headers.get("warning").map(|text| text.to_str().unwrap().to_owned());
        told.is_some_and(|text| text.contains(difference))
    };
    let made = client.post(SERVICES, &service("a", json!({}))).await;
    assert!(warned(&made), "{:?}", made.headers);
    assert!(made.expect(201)["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    let headless = client.post(SERVICES, &service("b", json!({"clusterIP": "None"}))).await;
    assert!(!warned(&headless), "{:?}", headless.headers);
}
