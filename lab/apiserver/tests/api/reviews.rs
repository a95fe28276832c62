//! Questions about callers, and requests in another's name.

use axum::body::Body;
use http::Request;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Client, client, guarded};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const SUBJECT: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn list_services() -> Value {
    json!({"verb": "list", "resource": "services", "namespace": "shop"})
}

/// A request of the token's holder, in the name that the headers give.
async fn ask(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("authorization", "Bearer secret").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.send(request.body(Body::from(text)).unwrap()).await;
    (answer.code.as_u16(), answer.json())
}

/// What client libraries send has neither kind nor `apiVersion`; a server takes both from the path.
#[tokio::test]
async fn a_review_needs_no_kind() {
    let client = client();
    let answer =
        client.post(ACCESS, &json!({"spec": {"resourceAttributes": list_services()}})).await.expect(201);
    assert_eq!(answer["kind"], json!("SelfSubjectAccessReview"));
    assert_eq!(answer["apiVersion"], json!("authorization.k8s.io/v1"));
    assert_eq!(answer["status"], json!({"allowed": true}));
    assert_eq!(answer["metadata"]["managedFields"][0]["manager"], json!("test"));
    let answer = client.post(WHOAMI, &json!({})).await.expect(201);
    let user = json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(answer["status"]["userInfo"], user);
    let made =
        client.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(made.expect(201)["kind"], json!("ConfigMap"));
}

#[rstest]
#[case::nothing(ACCESS, json!({}),
    ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of \
     nonResourceAttributes or resourceAttributes must be specified")]
#[case::both(ACCESS, json!({"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
    ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: \
     cannot be specified in combination with resourceAttributes")]
#[case::nobody(SUBJECT, json!({"resourceAttributes": list_services()}),
    ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified")]
#[case::elsewhere(LOCAL, json!({"user": "bob", "resourceAttributes": {"namespace": "other"}}),
    ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match \
     metadata.namespace")]
#[case::path(LOCAL, json!({"user": "bob", "nonResourceAttributes": {"path": "/x"}}),
    ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: \
     disallowed on this kind of request")]
#[case::selector(ACCESS, json!({"resourceAttributes": {"labelSelector": {}}}),
    ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.labelSelector.requirements: Required value: when \
     spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required")]
#[tokio::test]
async fn faults_of_a_question(#[case] path: &str, #[case] spec: Value, #[case] message: &str) {
    let refused = client().post(path, &json!({"spec": spec})).await.expect(422);
    assert_eq!(refused["message"], json!(message));
}

#[tokio::test]
async fn a_question_has_no_metadata() {
    let body = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}});
    let refused = client().post(ACCESS, &body).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], json!("metadata"));
}

#[rstest]
#[case("secret", json!({"authenticated": true, "audiences": ["a"],
    "user": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}}))]
#[case("wrong", json!({"user": {}, "error": "invalid bearer token"}))]
#[tokio::test]
async fn tokens(#[case] token: &str, #[case] expected: Value) {
    let client = guarded("secret");
    let body = json!({"spec": {"token": token, "audiences": ["a"]}});
    let (code, answer) = ask(&client, "POST", TOKENS, &[], &body).await;
    assert_eq!((code, &answer["status"]), (201, &expected));
    let (code, answer) = ask(&client, "POST", TOKENS, &[], &json!({"spec": {}})).await;
    assert_eq!(
        (code, &answer["message"]),
        (400, &json!("token is required for TokenReview in authentication"))
    );
}

#[rstest]
#[case::master(json!({"groups": ["system:masters"], "resourceAttributes": list_services()}), true)]
#[case::bob(json!({"user": "bob", "groups": ["system:authenticated"], "resourceAttributes": list_services()}), false)]
#[case::metrics(json!({"user": "kubernetes-admin", "groups": ["system:masters"],
    "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}), true)]
#[case::bob_metrics(json!({"user": "bob", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}), false)]
#[tokio::test]
async fn what_others_may_do(#[case] spec: Value, #[case] allowed: bool) {
    let answer = client().post(SUBJECT, &json!({"spec": spec})).await.expect(201);
    assert_eq!(answer["status"]["allowed"], json!(allowed));
}

/// A request in the name of somebody else gets what that one may do, and never more.
#[tokio::test]
async fn a_request_in_anothers_name() {
    let client = guarded("secret");
    let bob = [("impersonate-user", "bob"), ("impersonate-group", "dev"), ("impersonate-uid", "7")];
    let (_, who) = ask(&client, "POST", WHOAMI, &bob, &json!({})).await;
    let expected = json!({"username": "bob", "uid": "7", "groups": ["dev", "system:authenticated"]});
    assert_eq!(who["status"]["userInfo"], expected);
    let question = json!({"spec": {"resourceAttributes": list_services()}});
    let (_, may) = ask(&client, "POST", ACCESS, &bob, &question).await;
    assert_eq!(may["status"], json!({"allowed": false}));
    let (_, rules) = ask(&client, "POST", RULES, &bob, &json!({"spec": {"namespace": "shop"}})).await;
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["create"]));
    let services = "/api/v1/namespaces/shop/services";
    for (method, path, verb) in [("GET", services, "list"), ("POST", services, "create")] {
        let (code, refused) = ask(&client, method, path, &bob, &Value::Null).await;
        let why = format!(
            "services is forbidden: User \"bob\" cannot {verb} resource \"services\" in API group \"\" in the namespace \
             \"shop\""
        );
        assert_eq!((code, &refused["message"]), (403, &json!(why)));
    }
    let (code, _) = ask(&client, "GET", "/api/v1", &bob, &Value::Null).await;
    assert_eq!(code, 200);
    let root = [("impersonate-user", "root"), ("impersonate-group", "system:masters")];
    assert_eq!(ask(&client, "GET", services, &root, &Value::Null).await.0, 200);
    let (code, refused) = ask(&client, "GET", services, &[("impersonate-group", "dev")], &Value::Null).await;
    assert_eq!(code, 400, "{refused}");
}

#[tokio::test]
async fn the_groups_of_reviews_are_discovered() {
    let client = client();
    let groups = client.get("/apis").await.expect(200);
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert!(names.contains(&"authentication.k8s.io") && names.contains(&"authorization.k8s.io"), "{names:?}");
    let listed = client.get("/apis/authorization.k8s.io/v1").await.expect(200);
    let rows: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|row| (&row["name"], &row["verbs"])).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|(_, verbs)| **verbs == json!(["create"])), "{rows:?}");
    assert_eq!(client.get(ACCESS).await.code, 405);
}
