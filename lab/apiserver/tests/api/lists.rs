//! Reading collections: pages, past states, selectors, and the forms of an answer.

use super::support::*;
use rstest::rstest;
use serde_json::json;

async fn with_maps(names: &[&str]) -> Client {
    let client = client();
    for name in names {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    client
}

#[tokio::test]
async fn pages_show_the_state_of_the_first_one() {
    let client = with_maps(&["a", "b", "c", "d"]).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    client.delete(&path(CONFIG_MAPS, "c")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("cc")).await.expect(201);
    client.merge(&path(CONFIG_MAPS, "d"), &json!({"data": {"new": "1"}})).await.expect(200);
    let second = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["data"], json!(null));
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"]["continue"], json!(null));
}

#[rstest]
#[case("limit=2&labelSelector=x=1", &["b", "c"], true)]
#[case("limit=3&labelSelector=x=1", &["b", "c"], false)]
#[case("limit=1&fieldSelector=metadata.name=b", &["b"], false)]
#[case("limit=1&fieldSelector=metadata.name=b&resourceVersion=1", &["b"], false)]
#[case("limit=4", &["a", "b", "c", "d"], false)]
#[case("limit=2&resourceVersion=0", &["a", "b", "c", "d"], false)]
#[tokio::test]
async fn a_full_page_is_the_last_one_when_nothing_at_all_follows(
    #[case] query: &str,
    #[case] expected: &[&str],
    #[case] goes_on: bool,
) {
    let client = with_maps(&["a", "b", "c", "d"]).await;
    for name in ["b", "c"] {
        client
            .merge(&path(CONFIG_MAPS, name), &json!({"metadata": {"labels": {"x": "1"}}}))
            .await
            .expect(200);
    }
    let query = query.replace("resourceVersion=1", &format!("resourceVersion={}", client.revision()));
    let page = client.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(200);
    assert_eq!(names(&page), expected);
    let Some(token) = page["metadata"]["continue"].as_str() else {
        assert!(!goes_on);
        return;
    };
    assert!(goes_on);
    assert_eq!(page["metadata"]["remainingItemCount"], json!(null));
    let rest = client.get(&format!("{CONFIG_MAPS}?{query}&continue={token}")).await.expect(200);
    assert_eq!((names(&rest), &rest["metadata"]["continue"]), (vec![], &json!(null)));
}

#[tokio::test]
async fn a_past_state_is_read_exactly() {
    let client = with_maps(&["a", "b"]).await;
    let then = version(&client.get(CONFIG_MAPS).await.expect(200)).to_owned();
    client.delete(&path(CONFIG_MAPS, "a")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("c")).await.expect(201);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact");
    let list = client.get(&exact).await.expect(200);
    assert_eq!((names(&list), version(&list)), (vec!["a", "b"], then.as_str()));
    let newest = format!("{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&client.get(&newest).await.expect(200)), ["b", "c"]);
    let future = client.get(&format!("{CONFIG_MAPS}?resourceVersion=999999")).await.expect(504);
    assert_eq!(future["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let one = path(CONFIG_MAPS, "b");
    client.get(&format!("{one}?resourceVersion={then}")).await.expect(200);
    let future = client.get(&format!("{one}?resourceVersion=999999")).await.expect(504);
    assert_eq!(future["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test]
async fn a_forgotten_state_says_how_to_go_on() {
    let client = with_maps(&["a", "b", "c"]).await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    // More events than the log keeps.
    for round in 0..8200 {
        let patch = json!({"data": {"round": round.to_string()}});
        client.merge(&path(CONFIG_MAPS, "a"), &patch).await.expect(200);
    }
    let gone = client.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await.expect(410);
    assert_eq!(gone["reason"], "Expired");
    let fresh = gone["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={fresh}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c"]);
    let old = version(&first).to_owned();
    let watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={old}"), 1).await;
    assert_eq!((&watch[0]["type"], &watch[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[tokio::test]
async fn a_long_list_is_whole() {
    let client = client();
    for n in 0..900 {
        let mut map = config_map(&format!("m{n:04}"));
        map["data"] = json!({"text": "x".repeat(400)});
        client.post(CONFIG_MAPS, &map).await.expect(201);
    }
    let list = client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 900);
    assert!(list["items"][0].get("kind").is_none() && list["items"][899].get("apiVersion").is_none());
    let everywhere = client.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(everywhere["items"], list["items"]);
}

#[tokio::test]
async fn answers_take_the_form_that_is_asked_for() {
    let client = with_maps(&["a"]).await;
    let yaml = client.get_as(&path(CONFIG_MAPS, "a"), "application/yaml").await;
    assert!(yaml.text.contains("\n  name: a\n"), "{}", yaml.text);
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    for (include, object) in [("None", json!(null)), ("Object", json!("ConfigMap"))] {
        let list = client.get_as(&format!("{CONFIG_MAPS}?includeObject={include}"), table).await.expect(200);
        assert_eq!(list["rows"][0]["object"].get("kind").cloned().unwrap_or_default(), object);
    }
    let refused = client.get_as(&format!("{CONFIG_MAPS}?includeObject=All"), table).await.expect(400);
    assert_eq!(
        refused["message"],
        "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty"
    );
    client.get(&format!("{CONFIG_MAPS}?includeObject=All")).await.expect(200);
    let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let list = client.get_as(CONFIG_MAPS, old).await.expect(200);
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(list["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let refused = client.get_as(CONFIG_MAPS, metadata).await.expect(406);
    assert_eq!(
        refused["message"],
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
    client.get_as(&path(CONFIG_MAPS, "a"), metadata).await.expect(200);
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    client.get_as(&path(CONFIG_MAPS, "a"), metadata).await.expect(406);
    client.get_as(CONFIG_MAPS, metadata).await.expect(200);
    let pretty = client.get(&format!("{}?pretty=1", path(CONFIG_MAPS, "a"))).await;
    assert!(pretty.text.starts_with("{\n"), "{}", pretty.text);
    client.get_as(CONFIG_MAPS, "application/vnd.kubernetes.protobuf").await.expect(406);
    client.get_as(CONFIG_MAPS, "application/vnd.kubernetes.protobuf, application/json").await.expect(200);
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused() {
    let client = client();
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Other", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("sendInitialEvents=true", 422),
        ("watch=1&sendInitialEvents=true", 422),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422),
        ("continue=nonsense", 400),
        ("limit=x", 400),
        ("timeoutSeconds=x", 400),
        ("labelSelector=a%20in", 400),
        ("fieldSelector=spec.x%3D1", 400),
    ] {
        client.get(&format!("{CONFIG_MAPS}?{query}")).await.expect(code);
    }
}

#[rstest]
#[case("abc!", "continue key is not valid: illegal base64 data at input byte 3")]
#[case("abc", "continue key is not valid: invalid character 'i' looking for beginning of value")]
#[case("e30", "continue key is not valid: server does not recognize this encoded version ")]
#[case(
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
)]
#[case(
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NX0",
    "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"
)]
#[tokio::test]
async fn a_token_that_no_list_has_given_is_refused(#[case] token: &str, #[case] why: &str) {
    for more in ["", "&resourceVersion=5"] {
        let refused =
            client().get(&format!("{CONFIG_MAPS}?limit=1&continue={token}{more}")).await.expect(400);
        assert_eq!(refused["message"], format!("invalid continue token: {why}"));
    }
}

/// What cannot be read is told before what may not be combined, and an empty number is none.
#[rstest]
#[case("limit=", 400)]
#[case("timeoutSeconds=", 400)]
#[case("labelSelector=a%3D%3D%3Db&resourceVersionMatch=Exact", 400)]
#[case("resourceVersionMatch=Exact", 422)]
#[case("watch=1&continue=x", 422)]
#[case("fieldSelector=%3D", 200)]
#[tokio::test]
async fn options_are_judged_in_order(#[case] query: &str, #[case] code: u16) {
    let answer = client().get(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(answer.code.as_u16(), code, "{}", answer.text);
}

#[rstest]
#[case("watch=1", "application/yaml")]
#[case("limit=1", "application/*")]
#[tokio::test]
async fn forms_that_are_not_given(#[case] query: &str, #[case] accept: &str) {
    assert_eq!(client().get_as(&format!("{CONFIG_MAPS}?{query}"), accept).await.code, 406);
}
