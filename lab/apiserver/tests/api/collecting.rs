//! What becomes of dependents and of the content of a namespace, with the server's own controllers running.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use service_lab_apiserver::{gc, namespace_lifecycle};
use tokio_util::sync::CancellationToken;

use super::support::*;

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    let mut map = config_map(name);
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }]);
    map
}

/// Waits until the watch tells that the object is gone.
async fn gone(watch: &mut Watch, name: &str) {
    let seen = async {
        while let Some(event) = watch.next().await {
            if event["type"] == "DELETED" && event["object"]["metadata"]["name"] == name {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
}

struct Running(CancellationToken);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn collect(client: &Client) -> Running {
    let closing = CancellationToken::new();
    tokio::spawn(gc::run(client.shared_api(), closing.clone()));
    tokio::spawn(namespace_lifecycle::run(client.shared_api(), closing.clone()));
    Running(closing)
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let client = client();
    let _running = collect(&client);
    let mut watch = client.open_watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let owner = client.post(CONFIG_MAPS, &config_map("owner")).await.expect(201);
    let child = client.post(CONFIG_MAPS, &owned("child", &owner, false)).await.expect(201);
    client.post(CONFIG_MAPS, &owned("grandchild", &child, false)).await.expect(201);
    client.delete(&path(CONFIG_MAPS, "owner")).await.expect(200);
    gone(&mut watch, "child").await;
    gone(&mut watch, "grandchild").await;
}

#[tokio::test]
async fn a_child_of_nobody_goes() {
    let client = client();
    let _running = collect(&client);
    let mut watch = client.open_watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}});
    client.post(CONFIG_MAPS, &owned("child", &ghost, false)).await.expect(201);
    gone(&mut watch, "child").await;
}

#[tokio::test]
async fn a_foreground_deletion_waits_for_its_dependents() {
    let client = client();
    let _running = collect(&client);
    let mut watch = client.open_watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let owner = client.post(CONFIG_MAPS, &config_map("owner")).await.expect(201);
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(CONFIG_MAPS, &child).await.expect(201);
    client.delete(&format!("{}?propagationPolicy=Foreground", path(CONFIG_MAPS, "owner"))).await.expect(200);
    let marked = async {
        loop {
            let event = watch.next().await.unwrap();
            let metadata = &event["object"]["metadata"];
            if metadata["name"] == "child" && metadata["deletionTimestamp"].is_string() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), marked).await.unwrap();
    client.get(&path(CONFIG_MAPS, "owner")).await.expect(200);
    client.merge(&path(CONFIG_MAPS, "child"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(&mut watch, "child").await;
    gone(&mut watch, "owner").await;
}

#[tokio::test]
async fn orphans_lose_their_owner_and_stay() {
    let client = client();
    let _running = collect(&client);
    let mut watch = client.open_watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let owner = client.post(CONFIG_MAPS, &config_map("owner")).await.expect(201);
    client.post(CONFIG_MAPS, &owned("child", &owner, true)).await.expect(201);
    client.delete(&format!("{}?propagationPolicy=Orphan", path(CONFIG_MAPS, "owner"))).await.expect(200);
    gone(&mut watch, "owner").await;
    let child = client.get(&path(CONFIG_MAPS, "child")).await.expect(200);
    assert_eq!(child["metadata"].get("ownerReferences"), None);
}

#[rstest]
#[case(false)]
#[case(true)]
#[tokio::test]
async fn a_namespace_goes_when_it_is_empty(#[case] held: bool) {
    let client = client();
    let _running = collect(&client);
    let mut watch = client.open_watch("/api/v1/namespaces?watch=1").await;
    let namespace = json!({"metadata": {"name": "shop"}});
    client.post("/api/v1/namespaces", &namespace).await.expect(201);
    let mut map = config_map("a");
    if held {
        map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    client.post("/api/v1/namespaces/shop/configmaps", &map).await.expect(201);
    client.post("/api/v1/namespaces/shop/services", &service("a")).await.expect(201);
    client.delete("/api/v1/namespaces/shop").await.expect(200);
    if held {
        let told = async {
            loop {
                let event = watch.next().await.unwrap();
                let text = event.to_string();
                if text.contains("configmaps. has 1 resource instances") {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.unwrap();
        let free = json!({"metadata": {"finalizers": null}});
        client.merge("/api/v1/namespaces/shop/configmaps/a", &free).await.expect(200);
    }
    gone(&mut watch, "shop").await;
    client.get("/api/v1/namespaces/shop/services/a").await.expect(404);
}
