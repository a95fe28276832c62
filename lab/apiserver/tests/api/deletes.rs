//! How objects go: finalizers, grace, preconditions, policies, collections, namespaces.

use super::support::*;
use rstest::rstest;
use serde_json::{Value, json};

fn held(name: &str) -> Value {
    let mut map = config_map(name);
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    map
}

#[tokio::test]
async fn a_finalizer_holds_until_any_request_takes_it_away() {
    let client = client();
    for (name, by_put) in [("a", true), ("b", false)] {
        let one = path(CONFIG_MAPS, name);
        client.post(CONFIG_MAPS, &held(name)).await.expect(201);
        let marked = client.delete(&one).await.expect(200);
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
        let again = client.delete(&one).await.expect(200);
        assert_eq!(version(&again), version(&marked), "a second delete writes nothing");
        let freed = if by_put {
            client.put(&one, &config_map(name)).await
        } else {
            client.merge(&one, &json!({"metadata": {"finalizers": null}})).await
        };
        assert_eq!(version(&freed.expect(200)), version(&marked));
        client.get(&one).await.expect(404);
    }
}

#[tokio::test]
async fn an_object_under_deletion_is_still_updated() {
    let client = client();
    let one = path(CONFIG_MAPS, "a");
    client.post(CONFIG_MAPS, &held("a")).await.expect(201);
    client.delete(&one).await.expect(200);
    let patch = json!({"metadata": {"deletionTimestamp": null}, "data": {"x": "y"}});
    let changed = client.merge(&one, &patch).await.expect(200);
    assert_eq!(changed["data"]["x"], "y");
    assert!(changed["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn options_that_are_null_are_none() {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.delete_with(&path(CONFIG_MAPS, "a"), &Value::Null).await.expect(200);
    client.get(&path(CONFIG_MAPS, "a")).await.expect(404);
}

#[rstest]
#[case(json!({"preconditions": {"uid": "other"}}), 409)]
#[case(json!({"preconditions": {"resourceVersion": "1"}}), 409)]
#[case(json!({"propagationPolicy": "Sideways"}), 422)]
#[case(json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422)]
#[case(json!({"dryRun": ["Some"]}), 422)]
#[case(json!({"kind": "Pod"}), 400)]
#[case(json!([]), 400)]
#[case(json!({"gracePeriodSeconds": "1"}), 400)]
#[case(json!({"dryRun": ["All"]}), 200)]
#[tokio::test]
async fn a_delete_that_must_not_happen_does_not(#[case] options: Value, #[case] code: u16) {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let before = client.revision();
    client.delete_with(&path(CONFIG_MAPS, "a"), &options).await.expect(code);
    assert_eq!(client.revision(), before);
    client.get(&path(CONFIG_MAPS, "a")).await.expect(200);
}

#[tokio::test]
async fn a_bound_pod_gets_its_grace() {
    let client = client();
    let one = path(PODS, "p");
    client.post(PODS, &pod("p", "node")).await.expect(201);
    let marked = client.delete(&one).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let again = client.delete(&one).await.expect(200);
    assert_eq!(version(&again), version(&marked));
    let sooner = client.delete_with(&one, &json!({"gracePeriodSeconds": 5})).await.expect(200);
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(
        sooner["metadata"]["deletionTimestamp"].as_str() < marked["metadata"]["deletionTimestamp"].as_str()
    );
    let later = client.delete(&format!("{one}?gracePeriodSeconds=60")).await.expect(200);
    assert_eq!(later["metadata"]["deletionGracePeriodSeconds"], 5);
    client.delete(&format!("{one}?gracePeriodSeconds=0")).await.expect(200);
    client.get(&one).await.expect(404);
    client.post(PODS, &pod("q", "")).await.expect(201);
    client.delete(&path(PODS, "q")).await.expect(200);
    client.get(&path(PODS, "q")).await.expect(404);
}

#[tokio::test]
async fn a_policy_becomes_a_finalizer() {
    let client = client();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let one = path(CONFIG_MAPS, "a");
        client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
        let marked = client.delete(&format!("{one}?propagationPolicy={policy}")).await.expect(200);
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        client.delete(&format!("{one}?propagationPolicy=Background")).await.expect(200);
        client.get(&one).await.expect(404);
    }
}

#[tokio::test]
async fn an_old_client_that_deletes_dependents_is_told_that_its_object_is_still_there() {
    let client = client();
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(CONFIG_MAPS, &held).await.expect(201);
    client.delete(&format!("{}?orphanDependents=false", path(CONFIG_MAPS, "a"))).await.expect(202);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    client.delete(&format!("{}?orphanDependents=false", path(CONFIG_MAPS, "b"))).await.expect(200);
}

#[tokio::test]
async fn an_unknown_policy_is_refused_with_those_there_are() {
    let client = client();
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let refused =
        client.delete(&format!("{}?propagationPolicy=Now", path(CONFIG_MAPS, "a"))).await.expect(422);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "Unsupported value: \"Now\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
}

#[tokio::test]
async fn a_collection_goes_by_selector() {
    let client = client();
    for name in ["a", "b", "c"] {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let gone = client.delete(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name!%3Db")).await.expect(200);
    assert_eq!((&gone["kind"], names(&gone)), (&json!("ConfigMapList"), vec!["a", "c"]));
    assert_eq!(names(&client.get(CONFIG_MAPS).await.expect(200)), ["b"]);
    client.delete("/api/v1/configmaps").await.expect(405);
}

#[tokio::test]
async fn a_namespace_is_closed_before_it_goes() {
    let client = client();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    client.post("/api/v1/namespaces", &namespace).await.expect(201);
    let marked = client.delete("/api/v1/namespaces/shop").await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    let refused = client.post("/api/v1/namespaces/shop/configmaps", &config_map("a")).await.expect(403);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut finalized = marked.clone();
    finalized["spec"]["finalizers"] = json!([]);
    client.put("/api/v1/namespaces/shop/finalize", &finalized).await.expect(200);
    client.get("/api/v1/namespaces/shop").await.expect(404);
    for immortal in ["default", "kube-system", "kube-public"] {
        client.delete(&format!("/api/v1/namespaces/{immortal}")).await.expect(403);
    }
}
