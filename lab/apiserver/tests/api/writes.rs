//! Creates, updates and patches: what they check, what they keep, and that a refused one leaves no trace.

use super::support::*;
use axum::body::Body;
use http::Request;
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case(
    "POST",
    SERVICES,
    "application/json",
    r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"A"}}"#,
    422
)]
#[case("POST", SERVICES, "application/json", "{", 400)]
#[case("POST", SERVICES, "application/json", r#"{"kind":"Pod","apiVersion":"v1"}"#, 400)]
#[case("POST", SERVICES, "text/plain", "a", 415)]
#[case("POST", SERVICES, "Application/JSON; charset=utf-8", "{", 400)]
#[case("PATCH", "/api/v1/namespaces/default/services/kubernetes", "Application/Merge-Patch+JSON", "{}", 415)]
#[case(
    "POST",
    "/api/v1/namespaces/none/services",
    "application/json",
    r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}"#,
    404
)]
#[case("POST", "/api/v1/namespaces/default/nothings", "application/json", "{}", 404)]
#[case("POST", "/api/v1/services", "application/json", "{}", 405)]
#[case("POST", "/api/v1/namespaces/default/services?dryRun=x", "application/json", "{}", 422)]
#[case(
    "PUT",
    "/api/v1/namespaces/default/services/kubernetes",
    "application/json",
    r#"{"metadata":{"name":"other"}}"#,
    400
)]
#[case("PUT", SERVICES, "application/json", "{}", 405)]
#[case("PATCH", "/api/v1/namespaces/default/services/kubernetes", "application/json", "{}", 415)]
#[case(
    "PATCH",
    "/api/v1/namespaces/default/services/kubernetes",
    "application/merge-patch+json",
    r#"{"spec":{"ports":null}}"#,
    422
)]
#[case("PATCH", "/api/v1/namespaces/default/services/none", "application/merge-patch+json", "{}", 404)]
#[case("DELETE", "/api/v1/namespaces/default/services/none", "", "", 404)]
#[case("HEAD", SERVICES, "", "", 405)]
#[case("OPTIONS", SERVICES, "", "", 405)]
#[case("TRACE", "/version", "", "", 405)]
#[case("GET", "/api/v1/nothing", "", "", 404)]
#[tokio::test]
async fn a_refused_request_leaves_no_trace(
    #[case] method: &str,
    #[case] path: &str,
    #[case] media: &str,
    #[case] body: &str,
    #[case] code: u16,
) {
    let client = client();
    let before = client.revision();
    let answer = client.request(method, path, media, body).await;
    assert_eq!(answer.code.as_u16(), code, "{}", answer.text);
    if method != "HEAD" {
        let status = answer.json();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)));
    }
    assert_eq!(client.revision(), before);
}

#[tokio::test]
async fn an_oversized_body_is_refused() {
    let client = client();
    let request = Request::post(CONFIG_MAPS).body(Body::from(vec![b' '; 3 * 1024 * 1024 + 1])).unwrap();
    let status = client.send(request).await.expect(413);
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
}

#[tokio::test]
async fn an_update_needs_the_latest_version_or_none() {
    let client = client();
    let one = path(CONFIG_MAPS, "a");
    let first = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut second = first.clone();
    second["data"] = json!({"n": "2"});
    let second = client.put(&one, &second).await.expect(200);
    let mut stale = first.clone();
    stale["data"] = json!({"n": "3"});
    client.put(&one, &stale).await.expect(409);
    let stale_patch = json!({"metadata": {"resourceVersion": version(&first)}, "data": {"n": "3"}});
    client.merge(&one, &stale_patch).await.expect(409);
    let same = client.put(&one, &second).await.expect(200);
    assert_eq!(version(&same), version(&second), "nothing changed, nothing is written");
    let mut free = config_map("a");
    free["data"] = json!({"n": "4"});
    let free = client.put(&one, &free).await.expect(200);
    assert_eq!(free["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(free["metadata"]["creationTimestamp"], first["metadata"]["creationTimestamp"]);
    let mut other = config_map("a");
    other["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    client.put(&one, &other).await.expect(409);
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const UNKNOWN: &str = r#"299 - "unknown field \"spec.x\"""#;
const IGNORED: &str = r#"299 - "spec.externalName is ignored when spec.type is not \"ExternalName\"""#;

#[rstest]
#[case::faults("POST", "", JSON, json!({"ports": [{"port": 0}], "x": 1}), 422, &[UNKNOWN])]
#[case::exists("POST", "", JSON, json!({"ports": [{"port": 80}], "x": 1, "externalName": "e"}), 409, &[UNKNOWN, IGNORED])]
#[case::faults_of_an_update("PUT", "/a", JSON, json!({"ports": [{"port": 0}], "x": 1}), 422, &[UNKNOWN])]
#[case::another_name("PUT", "/b", JSON, json!({"ports": [{"port": 80}], "x": 1}), 400, &[UNKNOWN])]
#[case::faults_of_a_patch("PATCH", "/a", MERGE, json!({"ports": [{"port": 0}], "x": 1}), 422, &[UNKNOWN])]
#[case::strict("POST", "?fieldValidation=Strict", JSON, json!({"ports": [{"port": 0}], "x": 1}), 400, &[])]
#[case::ignored("POST", "?fieldValidation=Ignore", JSON, json!({"ports": [{"port": 0}], "x": 1}), 422, &[])]
#[tokio::test]
async fn a_refusal_says_what_it_warned_of_before(
    #[case] method: &str,
    #[case] at: &str,
    #[case] media: &str,
    #[case] spec: Value,
    #[case] code: u16,
    #[case] warnings: &[&str],
) {
    let client = client();
    client.post(SERVICES, &service("a")).await.expect(201);
    let body = json!({"metadata": {"name": "a"}, "spec": spec});
    let answer = client.request(method, &format!("{SERVICES}{at}"), media, &body.to_string()).await;
    let told: Vec<_> =
        answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!((answer.code.as_u16(), told), (code, warnings.to_vec()), "{}", answer.text);
}

#[rstest]
#[case("x", 422)]
#[case("+5", 422)]
#[case("5", 201)]
#[tokio::test]
async fn an_update_that_makes_an_object_reads_its_version(#[case] given: &str, #[case] code: u16) {
    let client = client();
    let mut wanted = service("a");
    wanted["metadata"]["resourceVersion"] = json!(given);
    client.put(&path(SERVICES, "a"), &wanted).await.expect(code);
}

#[tokio::test]
async fn an_apply_that_names_a_uid_makes_no_object() {
    let client = client();
    let mut wanted = service("a");
    wanted["apiVersion"] = json!("v1");
    wanted["kind"] = json!("Service");
    wanted["metadata"]["uid"] = json!("u");
    let at = format!("{SERVICES}/a?fieldManager=m");
    let answer = client.request("PATCH", &at, "application/apply-patch+yaml", &wanted.to_string()).await;
    assert_eq!(
        answer.expect(409)["message"],
        "Operation cannot be fulfilled on services \"a\": uid mismatch: the provided object specified uid u, and no existing object was found"
    );
}

#[tokio::test]
async fn another_namespace_is_told_before_another_name() {
    let client = client();
    let mut other = config_map("b");
    other["metadata"]["namespace"] = json!("other");
    let refused = client.put(&path(CONFIG_MAPS, "a"), &other).await.expect(400);
    let told = refused["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("the namespace of the provided object"), "{told}");
}

#[tokio::test]
async fn a_dry_run_shows_what_would_be_and_keeps_nothing() {
    let client = client();
    let before = client.revision();
    let shown = client.post(&format!("{SERVICES}?dryRun=All"), &service("a")).await.expect(201);
    assert!(shown["spec"]["clusterIP"].is_string());
    assert_eq!(shown["metadata"].get("resourceVersion"), None);
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    client.merge(&format!("{SERVICES}/kubernetes?dryRun=All"), &patch).await.expect(200);
    assert_eq!(client.revision(), before);
}

#[tokio::test]
async fn only_a_real_version_is_too_much_for_a_create() {
    let client = client();
    let of = |name: &str, version: &str| {
        let mut map = config_map(name);
        map["metadata"]["resourceVersion"] = json!(version);
        map
    };
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}?dryRun=All")] {
        let refused = client.post(&path, &of("a", "5")).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], "metadata.resourceVersion");
    }
    for (name, version) in [("b", "0"), ("c", "x")] {
        client.post(CONFIG_MAPS, &of(name, version)).await.expect(201);
    }
}

#[tokio::test]
async fn names_are_generated_and_stay_unique() {
    let client = client();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let map = json!({"metadata": {"generateName": "m-"}});
        let made = client.post(CONFIG_MAPS, &map).await.expect(201);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        let suffix = name.strip_prefix("m-").unwrap();
        assert!(
            suffix.len() == 5 && suffix.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)),
            "{name}"
        );
        assert!(seen.insert(name));
    }
}

/// Report P03.
#[tokio::test]
async fn creating_what_exists_costs_nothing() {
    let client = client_of(&config("10.97.0.0/28"));
    client.post(SERVICES, &service("a1")).await.expect(201);
    let before = client.revision();
    for _ in 0..3 {
        assert_eq!(client.post(SERVICES, &service("a1")).await.expect(409)["reason"], "AlreadyExists");
    }
    assert_eq!(client.revision(), before);
    for n in 0..12 {
        client.post(SERVICES, &service(&format!("f{n}"))).await.expect(201);
    }
    client.post(SERVICES, &service("one-too-many")).await.expect(500);
    client.post(SERVICES, &service("a1")).await.expect(409);
    let node_port = |name: &str, kind: &str| -> Value {
        json!({"metadata": {"name": name}, "spec": {"type": kind, "clusterIP": null, "ports": [{"port": 80, "nodePort": 30123}]}})
    };
    client.post(SERVICES, &node_port("a1", "NodePort")).await.expect(409);
    client.delete(&path(SERVICES, "f0")).await.expect(200);
    let made = client.post(SERVICES, &node_port("new", "NodePort")).await.expect(201);
    assert_eq!(made["spec"]["ports"][0]["nodePort"], 30123);
}

#[tokio::test]
async fn odd_names_in_paths_are_decoded_once() {
    let client = client();
    let answer = client.get("/api/v1/namespaces/default/configmaps/%6bube%2Froot").await.expect(404);
    assert_eq!(answer["message"], "configmaps \"kube/root\" not found");
    client.get("/api/v1/namespaces/default/configmaps/%zz%00").await.expect(404);
    client.get("/api/v1//configmaps").await.expect(404);
}

#[tokio::test]
async fn a_repeated_owner_is_stored_once_with_a_warning() {
    let client = client();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let mut map = config_map("a");
    map["metadata"]["ownerReferences"] = json!([owner, owner]);
    let answer = client.post(CONFIG_MAPS, &map).await;
    let warning = answer.headers["warning"].to_str().unwrap().to_owned();
    assert!(warning.ends_with("duplicate UID(s) observed: u\""), "{warning}");
    assert_eq!(answer.expect(201)["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let client = client();
    client.post(PODS, &pod("p", "")).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let at = format!("{PODS}/p/binding");
    assert_eq!(client.post(&at, &binding).await.expect(201)["status"], "Success");
    let bound = client.get(&path(PODS, "p")).await.expect(200);
    assert_eq!(bound["spec"]["nodeName"], "n");
    client.post(&at, &binding).await.expect(409);
    client.post(&at, &json!({"metadata": {"name": "p"}, "target": {}})).await.expect(422);
}

#[tokio::test]
async fn a_scale_and_an_event_are_other_forms_of_an_object() {
    let client = client();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    client.post(deployments, &deployment).await.expect(201);
    let at = format!("{deployments}/d/scale");
    let mut scale = client.get(&at).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    scale["spec"]["replicas"] = json!(5);
    assert_eq!(client.put(&at, &scale).await.expect(200)["spec"]["replicas"], 5);
    client.merge(&at, &json!({"spec": {"replicas": 7}})).await.expect(200);
    assert_eq!(client.get(&path(deployments, "d")).await.expect(200)["spec"]["replicas"], 7);
    let event = json!({
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c",
        "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "said",
        "regarding": {"kind": "Service", "namespace": "default", "name": "kubernetes"},
    });
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(client.post(events, &event).await.expect(201)["note"], "said");
    let core = client.get("/api/v1/namespaces/default/events/e").await.expect(200);
    assert_eq!((&core["message"], &core["apiVersion"]), (&json!("said"), &json!("v1")));
    assert_eq!(client.get(events).await.expect(200)["items"][0]["note"], "said");
}

/// The two members that say what a body is are read in any case.
#[rstest]
#[case(json!({"KIND": "Pod", "metadata": {"name": "a"}}), 400)]
#[case(json!({"Kind": "ConfigMap", "metadata": {"name": "a"}}), 201)]
#[tokio::test]
async fn a_body_says_what_it_is(#[case] body: Value, #[case] code: u16) {
    client().post(CONFIG_MAPS, &body).await.expect(code);
}

#[tokio::test]
async fn the_first_document_counts() {
    let text = "metadata: {name: a}\ndata: {x: z}\n---\nmetadata: {name: b}\n";
    let answer = client().request("POST", CONFIG_MAPS, "application/yaml", text).await.expect(201);
    assert_eq!(answer["metadata"]["name"], "a");
}

#[tokio::test]
async fn what_is_not_there_is_not_another_one() {
    let client = client();
    let wanted = json!({"metadata": {"name": "a", "uid": "u"}});
    client.put(&path(CONFIG_MAPS, "a"), &wanted).await.expect(404);
    let mut service = service("a");
    service["metadata"]["uid"] = json!("u");
    client.put(&path(SERVICES, "a"), &service).await.expect(409);
}

#[tokio::test]
async fn nobody_owns_a_deletion_that_is_not() {
    let body =
        json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "data": {"x": "y"}});
    let made = client().post(CONFIG_MAPS, &body).await.expect(201);
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned.get("f:metadata"), None, "{owned}");
}

/// Who applies what is there already owns it and wrote nothing.
#[tokio::test]
async fn an_apply_that_changes_nothing_has_no_time() {
    let client = client();
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}});
    for (manager, timed) in [("one", true), ("two", false)] {
        let at = format!("{}?fieldManager={manager}", path(CONFIG_MAPS, "a"));
        let answer = client.request("PATCH", &at, "application/apply-patch+yaml", &body.to_string()).await;
        let shown = answer.json();
        let entries = shown["metadata"]["managedFields"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
        assert_eq!(entry.get("time").is_some(), timed, "{entry}");
    }
}

/// A newer API of a kind asks for more than the one it is stored in.
#[tokio::test]
async fn events_are_whole_in_their_newer_api() {
    let client = client();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let poor =
        json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let refused = client.post(events, &poor).await.expect(422);
    assert_eq!(
        refused["message"],
        json!(
            "Event \"e\" is invalid: [eventTime: Required value, type: Invalid value: \"\": has invalid value: ]"
        )
    );
    let mut event = poor.clone();
    for (field, value) in [
        ("eventTime", "2026-01-01T00:00:00.000000Z"),
        ("type", "Normal"),
        ("reason", "R"),
        ("action", "A"),
        ("reportingController", "example.com/c"),
        ("reportingInstance", "c-1"),
    ] {
        event[field] = json!(value);
    }
    let made = client.post(events, &event).await.expect(201);
    let mut changed = made.clone();
    changed["note"] = json!("new");
    let refused = client.put(&path(events, "e"), &changed).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], json!("message"));
    // Through the older one it may change, as upstream.
    let core = "/api/v1/namespaces/default/events";
    client.merge(&path(core, "e"), &json!({"message": "new"})).await.expect(200);
    client
        .post(core, &json!({"metadata": {"name": "f"}, "involvedObject": poor["regarding"]}))
        .await
        .expect(201);
}

/// Managers of a version that the kind does not have are forgotten.
#[tokio::test]
async fn managers_of_an_unknown_version_are_forgotten() {
    let client = client();
    let entry = |manager: &str, version: &str| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        })
    };
    let mut object =
        client.post(CONFIG_MAPS, &json!({"metadata": {"name": "m"}, "data": {"a": "b"}})).await.expect(201);
    object["metadata"]["managedFields"] =
        json!([entry("one", "v9"), entry("two", "v1"), entry("three", "apps/v1")]);
    let left = client.put(&path(CONFIG_MAPS, "m"), &object).await.expect(200);
    assert_eq!(left["metadata"]["managedFields"], json!([entry("two", "v1")]));
    object["metadata"]["managedFields"] = json!([entry("one", "v9")]);
    object["metadata"]["resourceVersion"] = left["metadata"]["resourceVersion"].clone();
    let left = client.put(&path(CONFIG_MAPS, "m"), &object).await.expect(200);
    assert_eq!(left["metadata"].get("managedFields"), None);
}

/// A body of 3 MB of `{}` used to take 2 GB.
#[rstest]
#[case::create("POST", SERVICES, "application/json", 400)]
#[case::yaml("POST", SERVICES, "application/yaml", 400)]
#[case::merge("PATCH", "/api/v1/namespaces/default/services/kubernetes", "application/merge-patch+json", 400)]
#[case::apply(
    "PATCH",
    "/api/v1/namespaces/default/services/a?fieldManager=m",
    "application/apply-patch+yaml",
    400
)]
#[tokio::test]
async fn a_body_has_no_more_objects_than_can_be_worked_on(
    #[case] method: &str,
    #[case] path: &str,
    #[case] media: &str,
    #[case] code: u16,
) {
    let ports = vec!["{}"; 131_072].join(",");
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a"}},"spec":{{"ports":[{ports}]}}}}"#
    );
    let answer = client().request(method, path, media, &body).await;
    let said = answer.text.clone();
    answer.expect(code);
    assert!(said.contains("more than 131072 objects and lists") || media.contains("yaml"), "{said}");
}
