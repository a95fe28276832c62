//! Watches: where they begin, what a selector makes of an event, the mark of a streaming list, and how they end.

use super::support::*;
use serde_json::{Value, json};

fn told(events: &[Value]) -> Vec<(&str, &str)> {
    let name = |event: &'_ Value| event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| (event["type"].as_str().unwrap(), &*name(event).leak())).collect()
}

fn labelled(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"x": value}}})
}

#[tokio::test]
async fn an_object_enters_and_leaves_a_selection() {
    let client = client();
    let from = client.revision();
    client.post(CONFIG_MAPS, &labelled("a", "1")).await.expect(201);
    client.post(CONFIG_MAPS, &labelled("b", "2")).await.expect(201);
    for value in ["2", "2", "1"] {
        let patch = json!({"metadata": {"labels": {"x": value}}, "data": {"n": value}});
        client.merge(&path(CONFIG_MAPS, "a"), &patch).await.expect(200);
    }
    client.delete(&path(CONFIG_MAPS, "a")).await.expect(200);
    let events = client
        .watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={from}&labelSelector=x%3D1"), 4)
        .await;
    assert_eq!(told(&events), [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]);
    let versions: Vec<u64> = events.iter().map(|e| version(&e["object"]).parse().unwrap()).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    // What leaves is shown as it was while it was selected.
    assert_eq!(events[1]["object"]["metadata"]["labels"]["x"], "1");
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_mark() {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.open_watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    let mark = watch.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&mark["object"]), client.revision().to_string());
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(told(&[watch.next().await.unwrap()]), [("ADDED", "b")]);
    for query in ["watch=1&allowWatchBookmarks=1", "watch=1&allowWatchBookmarks=1&resourceVersion=0"] {
        let events = client.watch(&format!("{CONFIG_MAPS}?{query}"), 3).await;
        assert_eq!(told(&events), [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]);
        assert_eq!(events[2]["object"]["metadata"]["annotations"], mark["object"]["metadata"]["annotations"]);
    }
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut silent = client.open_watch(&format!("{CONFIG_MAPS}?{query}")).await;
    client.post(CONFIG_MAPS, &config_map("c")).await.expect(201);
    assert_eq!(told(&[silent.next().await.unwrap()]), [("ADDED", "c")]);
}

#[tokio::test]
async fn a_mark_is_an_empty_object_of_the_kind() {
    let client = client();
    for (collection, empty) in [
        ("/api/v1/namespaces/none/services", json!({"spec": {}, "status": {"loadBalancer": {}}})),
        (
            "/apis/discovery.k8s.io/v1/namespaces/none/endpointslices",
            json!({"addressType": "", "endpoints": null, "ports": null}),
        ),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"spec": {}, "status": {}})),
    ] {
        let query = "watch=1&allowWatchBookmarks=1&fieldSelector=metadata.name%3Dnone";
        let mut mark = client.watch(&format!("{collection}?{query}"), 1).await.remove(0);
        assert_eq!(mark["type"], "BOOKMARK");
        let object = mark["object"].as_object_mut().unwrap();
        for field in ["kind", "apiVersion", "metadata"] {
            object.remove(field).unwrap();
        }
        assert_eq!(mark["object"], empty);
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let client = client();
    let mut watch =
        client.open_watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1")).await;
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "ADDED");
    }
}

#[tokio::test]
async fn tables_and_metadata_are_watched_too() {
    let client = client();
    client.post(SERVICES, &service("a")).await.expect(201);
    let request = |accept: &str| {
        http::Request::get("/api/v1/services?watch=1&timeoutSeconds=1")
            .header("accept", accept)
            .body(axum::body::Body::empty())
            .unwrap()
    };
    let table = client.send(request("application/json;as=Table;v=v1;g=meta.k8s.io")).await;
    let events: Vec<Value> = table.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["object"]["kind"], "Table");
    assert!(!events[0]["object"]["columnDefinitions"].as_array().unwrap().is_empty());
    assert!(events[1]["object"]["columnDefinitions"].as_array().unwrap().is_empty());
    let partial = client.send(request("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")).await;
    assert!(partial.text.lines().all(|line| !line.contains("\"spec\"")), "{}", partial.text);
}

#[tokio::test]
async fn one_object_is_watched_by_its_path() {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    // In its plain form the path of an object gives the object, also to who asks for a watch.
    let shown = client.get(&format!("{}?watch=1", path(CONFIG_MAPS, "b"))).await.expect(200);
    assert_eq!(shown["metadata"]["name"], "b");
    let old_form = client.watch("/api/v1/watch/namespaces/default/configmaps/a", 1).await;
    assert_eq!(told(&old_form), [("ADDED", "a")]);
}

#[tokio::test]
async fn a_time_that_no_clock_reaches_is_a_long_time() {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for seconds in [i64::MAX, i64::MAX / 1000, -1, 0] {
        let events = client.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={seconds}"), 1).await;
        assert_eq!(told(&events), [("ADDED", "a")]);
        client.get(&format!("{CONFIG_MAPS}?timeoutSeconds={seconds}")).await.expect(200);
    }
}
