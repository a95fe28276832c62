//! What client libraries and kubectl ask for beside the verbs of objects.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Client, client};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Clients made from the OpenAPI documents ask for discovery with a slash at the end.
#[rstest]
#[case("/version", 200)]
#[case("/version/", 200)]
#[case("/api", 200)]
#[case("/api/", 200)]
#[case("/apis", 200)]
#[case("/apis/", 200)]
#[case("/api/v1/", 200)]
#[case("/apis/apps/", 200)]
#[case("/apis/apps/v1/", 200)]
#[case("/api/v1/services/", 200)]
#[case("/openapi/v3/", 404)]
#[case("/nothing", 404)]
#[case("/apis/example.com/v1/things", 404)]
#[tokio::test]
async fn paths(#[case] path: &str, #[case] code: u16) {
    let answer = client().get(path).await;
    assert_eq!(answer.code.as_u16(), code, "{}", answer.text);
    if code == 404 {
        assert_eq!(answer.text, "404 page not found\n");
    }
}

#[rstest]
#[case::known(
    "GET",
    "/apis/batch/v1/jobs",
    404,
    "NotFound",
    "the server could not find the requested resource: the lab does not serve jobs.batch; docs/lab-api.md and `kubectl \
     api-resources` list what it serves"
)]
#[case::core(
    "GET",
    "/api/v1/namespaces/default/persistentvolumeclaims/x",
    404,
    "NotFound",
    "the server could not find the requested resource: the lab does not serve persistentvolumeclaims; docs/lab-api.md and \
     `kubectl api-resources` list what it serves"
)]
#[case::method(
    "PUT",
    "/apis/apps/v1/namespaces/default/statefulsets",
    405,
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource"
)]
#[case::unknown("GET", "/api/v1/things", 404, "NotFound", "the server could not find the requested resource")]
#[case::logs(
    "GET",
    "/api/v1/namespaces/default/pods/web/log",
    501,
    "NotImplemented",
    "pods \"web\": log is not served: no container runs here, so there is no output (docs/lab-api.md)"
)]
#[case::exec(
    "POST",
    "/api/v1/namespaces/default/pods/web/exec",
    501,
    "NotImplemented",
    "pods \"web\": exec is not served: no container runs here, so no command can be run in one (docs/lab-api.md)"
)]
#[case::forward(
    "GET",
    "/api/v1/namespaces/default/pods/web/portforward",
    501,
    "NotImplemented",
    "pods \"web\": portforward is not served: no container runs here, so nothing listens on a pod's ports (docs/lab-api.md)"
)]
#[case::proxy(
    "GET",
    "/api/v1/namespaces/default/services/web/proxy/a/b",
    501,
    "NotImplemented",
    "services \"web\": proxy is not served: no container runs here, so nothing answers for a Service (docs/lab-api.md)"
)]
#[tokio::test]
async fn what_is_not_served_is_named(
    #[case] method: &str,
    #[case] path: &str,
    #[case] code: u16,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let refused = client().request(method, path, "", "").await.expect(code);
    assert_eq!((&refused["reason"], &refused["message"]), (&json!(reason), &json!(message)));
}

async fn make_pod(client: &Client, name: &str) -> Value {
    let pod = json!({
        "metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    client.post(PODS, &pod).await.expect(201)
}

#[tokio::test]
async fn evictions() {
    let client = client();
    let pod = make_pod(&client, "web").await;
    let path = format!("{PODS}/web/eviction");
    let refused = client.post(&path, &json!({"metadata": {"name": "other"}})).await.expect(400);
    assert_eq!(refused["message"], json!("name in URL does not match name in Eviction object"));
    let missing = client.post(&format!("{PODS}/none/eviction"), &json!({"metadata": {"name": "none"}})).await;
    assert_eq!(missing.expect(404)["message"], json!("pods \"none\" not found"));
    let before = client.revision();
    for body in [
        json!({"metadata": {"name": "web"}, "deleteOptions": {"dryRun": ["All"]}}),
        json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "web", "namespace": "default"},
            "deleteOptions": {"dryRun": ["All"], "gracePeriodSeconds": 0}}),
    ] {
        assert_eq!(client.post(&path, &body).await.expect(201)["status"], json!("Success"));
    }
    client.post(&format!("{path}?dryRun=All"), &json!({"metadata": {"name": "web"}})).await.expect(201);
    let stale = json!({"metadata": {"name": "web"}, "deleteOptions": {"preconditions": {"uid": "other"}}});
    client.post(&path, &stale).await.expect(409);
    assert_eq!(client.revision(), before, "nothing is written");
    client.post(&path, &json!({"metadata": {"name": "web"}})).await.expect(201);
    let left = client.get(&format!("{PODS}/web")).await.expect(200);
    assert_eq!(left["metadata"]["uid"], pod["metadata"]["uid"]);
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    assert_eq!(left["status"]["conditions"][0]["type"], json!("DisruptionTarget"));
    let now = json!({"metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    client.post(&path, &now).await.expect(201);
    client.get(&format!("{PODS}/web")).await.expect(404);
}

/// What `kubectl debug` and `kubectl patch --subresource resize` send.
#[tokio::test]
async fn parts_of_a_pod_are_written_by_themselves() {
    let client = client();
    make_pod(&client, "p").await;
    let strategic = "application/strategic-merge-patch+json";
    let debugger =
        json!({"spec": {"hostname": "x", "ephemeralContainers": [{"name": "debugger", "image": "i"}]}});
    let path = format!("{PODS}/p/ephemeralcontainers");
    let debugged = client.request("PATCH", &path, strategic, &debugger.to_string()).await.expect(200);
    assert_eq!(debugged["spec"]["ephemeralContainers"][0]["name"], json!("debugger"));
    assert_eq!(debugged["spec"]["hostname"], json!(null));
    let asked = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
    let path = format!("{PODS}/p/resize");
    let refused = client.request("PATCH", &path, strategic, &asked.to_string()).await.expect(422);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .ends_with("Pod QOS Class may not change as a result of resizing")
    );
}

/// What Helm's default driver does: a Secret a release, found by labels, updated by its whole.
#[tokio::test]
async fn secrets_as_helm_writes_them() {
    let client = client();
    let labels = json!({"name": "shop", "owner": "helm", "status": "deployed", "version": "1"});
    let release = json!({
        "metadata": {"name": "sh.helm.release.v1.shop.v1", "labels": labels},
        "type": "helm.sh/release.v1", "data": {"release": "SDRzSUFB"},
    });
    let made = client.post(SECRETS, &release).await.expect(201);
    assert_eq!((&made["type"], &made["data"]["release"]), (&json!("helm.sh/release.v1"), &json!("SDRzSUFB")));
    let found = client.get(&format!("{SECRETS}?labelSelector=name%3Dshop%2Cowner%3Dhelm")).await.expect(200);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let path = format!("{SECRETS}/sh.helm.release.v1.shop.v1");
    let mut next = made.clone();
    next["metadata"]["labels"]["status"] = json!("superseded");
    assert_eq!(
        client.put(&path, &next).await.expect(200)["metadata"]["labels"]["status"],
        json!("superseded")
    );
    let other = client.merge(&path, &json!({"type": "Opaque"})).await.expect(422);
    assert_eq!(
        other["details"]["causes"][0]["message"],
        json!("Invalid value: \"Opaque\": field is immutable")
    );
    let by_type =
        client.get(&format!("{SECRETS}?fieldSelector=type%3Dhelm.sh%2Frelease.v1")).await.expect(200);
    assert_eq!(by_type["items"].as_array().unwrap().len(), 1);
    client.delete(&path).await.expect(200);
}

#[tokio::test]
async fn secrets_are_bytes() {
    let client = client();
    let body = json!({"metadata": {"name": "s"}, "data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}});
    let made = client.post(SECRETS, &body).await.expect(201);
    assert_eq!((&made["type"], &made["data"]), (&json!("Opaque"), &json!({"a": "eQ==", "b": "eg=="})));
    assert!(made.get("stringData").is_none(), "{made}");
    let refused = client.post(SECRETS, &json!({"metadata": {"name": "t"}, "data": {"a": "no base64"}})).await;
    assert_eq!(refused.code, 400, "{}", refused.text);
    let changed = client.merge(&format!("{SECRETS}/s"), &json!({"stringData": {"b": "w"}})).await.expect(200);
    assert_eq!(changed["data"], json!({"a": "eQ==", "b": "dw=="}));
    client.merge(&format!("{SECRETS}/s"), &json!({"immutable": true})).await.expect(200);
    client.merge(&format!("{SECRETS}/s"), &json!({"data": {"b": null}})).await.expect(422);
    client.merge(&format!("{SECRETS}/s"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
}

/// Older clients (kubectl before 1.22) send evictions in their first version.
#[tokio::test]
async fn an_eviction_may_come_in_its_older_version() {
    let client = client();
    let pod = json!({"metadata": {"name": "old"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.post(PODS, &pod).await.expect(201);
    let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "old"}});
    client.post(&format!("{PODS}/old/eviction"), &eviction).await.expect(201);
    client.get(&format!("{PODS}/old")).await.expect(404);
}
