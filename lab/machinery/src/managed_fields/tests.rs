// Test tables hand their JSON over by value.
#![allow(clippy::needless_pass_by_value)]

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::schema;

fn service() -> &'static KindSchema {
    schema::find("", "v1", "Service").unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ctx(manager: &str, second: i64) -> UpdateContext<'_> {
    UpdateContext { manager, subresource: None, now: at(second) }
}

fn created() -> Value {
    let mut new = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default", "labels": {"x": "1"}},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
        "status": {"loadBalancer": {}}
    });
    track_update(service(), None, &mut new, &ctx("kubectl", 0));
    new
}

fn managed(object: &Value) -> &Vec<Value> {
    object["metadata"]["managedFields"].as_array().unwrap()
}

#[test]
fn a_create_owns_what_it_set() {
    assert_eq!(
        created()["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "1970-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
                "f:spec": {
                    "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}":
                        {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
                    "f:type": {}
                }
            }
        }])
    );
}

#[test]
fn a_change_moves_a_field_to_its_new_manager() {
    let old = created();
    let mut new = old.clone();
    new["spec"]["type"] = "NodePort".into();
    new["metadata"]["labels"] = json!({"y": "2"});
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    let entries = managed(&new);
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["manager"], "kubectl");
    assert_eq!(entries[0]["time"], "1970-01-01T00:00:00Z");
    assert_eq!(entries[0]["fieldsV1"]["f:metadata"], json!({"f:labels": {}}));
    assert_eq!(entries[0]["fieldsV1"]["f:spec"].get("f:type"), None);
    assert_eq!(
        entries[1]["fieldsV1"],
        json!({"f:metadata": {"f:labels": {"f:y": {}}}, "f:spec": {"f:type": {}}})
    );
}

#[test]
fn no_change_keeps_everything_whoever_writes() {
    let old = created();
    let mut new = old.clone();
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    assert_eq!(new, old);
    // Nor does it matter that a client leaves the field out.
    new["metadata"].as_object_mut().unwrap().remove("managedFields");
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    assert_eq!(new, old);
}

#[test]
fn status_writes_have_an_entry_of_their_own() {
    let old = created();
    let mut new = old.clone();
    new["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let ctx = UpdateContext { subresource: Some("status"), ..ctx("kubectl", 5) };
    track_update(service(), Some(&old), &mut new, &ctx);
    let entries = managed(&new);
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}}));
    assert_eq!(entries[0], managed(&old)[0]);
}

#[test]
fn one_empty_entry_forgets_the_managers_until_the_next_apply() {
    let old = created();
    let mut new = old.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    new["spec"]["type"] = "NodePort".into();
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    assert_eq!(new["metadata"].get("managedFields"), None);
    let mut again = new.clone();
    again["spec"]["type"] = "ClusterIP".into();
    track_update(service(), Some(&new), &mut again, &ctx("tool", 6));
    assert_eq!(again["metadata"].get("managedFields"), None);
}

#[rstest]
#[case(json!([]))]
#[case(json!([{"manager": "x"}]))]
#[case(json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"bad": {}}}]))]
fn entries_that_cannot_be_read_are_ignored(#[case] sent: Value) {
    let old = created();
    let mut new = old.clone();
    new["metadata"]["managedFields"] = sent;
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    assert_eq!(new, old);
}

#[test]
fn a_client_may_write_the_entries() {
    let old = created();
    let mut new = old.clone();
    new["metadata"]["managedFields"] = json!([{
        "manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:type": {}}}
    }]);
    track_update(service(), Some(&old), &mut new, &ctx("tool", 5));
    assert_eq!(managed(&new).len(), 1);
    assert_eq!(managed(&new)[0]["manager"], "x");
}

#[test]
fn the_twelfth_manager_finds_ten() {
    let mut object = created();
    for n in 0..12_u32 {
        let old = object.clone();
        object["metadata"]["labels"][format!("l{n}")] = "v".into();
        track_update(service(), Some(&old), &mut object, &ctx(&format!("m{n}"), i64::from(n) + 1));
    }
    let entries = managed(&object);
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(entries[9]["manager"], "m11");
}

#[test]
fn times_alone_are_no_change() {
    let old = created();
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = "1970-01-01T00:00:09Z".into();
    settle_times(&old, &mut new);
    assert_eq!(new, old);
    new["metadata"]["managedFields"][0]["time"] = "1970-01-01T00:00:09Z".into();
    new["spec"]["type"] = "NodePort".into();
    let before = new.clone();
    settle_times(&old, &mut new);
    assert_eq!(new, before);
}

#[rstest]
#[case("tool", "kubectl/v1.36 (linux)", "tool")]
#[case("", "kubectl/v1.36 (linux)", "kubectl")]
#[case("", "conformance", "conformance")]
#[case("", "a\u{7}b", "ab")]
#[case("", "", "unknown")]
fn managers(#[case] parameter: &str, #[case] agent: &str, #[case] name: &str) {
    assert_eq!(manager_name(parameter, agent), name);
}

#[test]
fn long_agents_are_cut_at_a_character() {
    let name = manager_name("", &"ä".repeat(100));
    assert_eq!(name.len(), 128);
}
