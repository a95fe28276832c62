// Test tables hand their JSON over by value.
#![allow(clippy::needless_pass_by_value)]

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::schema;

fn kind() -> &'static KindSchema {
    schema::find("", "v1", "Service").unwrap()
}

fn ctx(manager: &str, second: i64) -> ApplyContext<'_> {
    ApplyContext {
        manager,
        subresource: None,
        force: false,
        now: Timestamp::from_second(second).unwrap(),
        validation: FieldValidation::Strict,
    }
}

fn service(spec: Value) -> Vec<u8> {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec})
        .to_string()
        .into_bytes()
}

/// What the server does between an apply and the store, as far as it matters here.
fn defaulted(mut object: Value) -> Value {
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if port.get("protocol").is_none() {
            port["protocol"] = "TCP".into();
        }
        if port.get("targetPort").is_none() {
            port["targetPort"] = port["port"].clone();
        }
    }
    for (field, value) in [("type", "ClusterIP"), ("sessionAffinity", "None"), ("clusterIP", "10.96.0.10")] {
        if object["spec"].get(field).is_none() {
            object["spec"][field] = value.into();
        }
    }
    object
}

fn run(live: Option<&Value>, spec: Value, ctx: &ApplyContext<'_>) -> Result<Value, Box<Status>> {
    apply(kind(), live, &service(spec), ctx).map(|applied| defaulted(applied.value))
}

#[test]
fn creating_owns_what_was_applied() {
    let made =
        run(None, json!({"selector": {"x": "1"}, "ports": [{"port": 80}]}), &ctx("tool-a", 0)).unwrap();
    assert_eq!(made["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(
        made["metadata"]["managedFields"],
        json!([{
            "manager": "tool-a", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:selector": {}}}
        }])
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let spec = json!({"selector": {"x": "1"}, "ports": [{"port": 80}]});
    let made = run(None, spec.clone(), &ctx("tool-a", 0)).unwrap();
    assert_eq!(run(Some(&made), spec, &ctx("tool-a", 9)).unwrap(), made);
}

/// kubernetes/kubernetes 131147, 130292: no Service may have two ports of one name.
#[test]
fn a_port_gives_way_to_one_of_its_name() {
    let made =
        run(None, json!({"ports": [{"name": "http", "port": 80}, {"name": "s", "port": 443}]}), &ctx("a", 0));
    let made = made.unwrap();
    let other = json!({"ports": [{"name": "http", "port": 8080}]});
    let status = run(Some(&made), other.clone(), &ctx("b", 1)).unwrap_err();
    assert_eq!(status.code, Some(409));
    let causes = status.details.unwrap().causes.unwrap();
    let fields: Vec<_> = causes.iter().filter_map(|cause| cause.field.as_deref()).collect();
    assert!(fields.contains(&".spec.ports[port=80,protocol=\"TCP\"].name"), "{fields:?}");

    let forced = run(Some(&made), other, &ApplyContext { force: true, ..ctx("b", 1) }).unwrap();
    let names: Vec<_> = forced["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["name"].clone(), p["port"].clone()))
        .collect();
    assert_eq!(names, [(json!("s"), json!(443)), (json!("http"), json!(8080))]);
    let managed = forced["metadata"]["managedFields"].to_string();
    assert!(!managed.contains(r#"\"port\":80,"#), "nobody owns what is gone: {managed}");
}

#[test]
fn kubectl_may_move_a_port_as_it_moves_to_server_side_apply() {
    let applied = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"name": "http", "port": 80}]}});
    let mut live = run(None, json!({"ports": [{"name": "http", "port": 80}]}), &ctx("x", 0)).unwrap();
    live["metadata"]["annotations"] = json!({LAST_APPLIED: applied.to_string()});
    let managed = &mut live["metadata"]["managedFields"][0];
    (managed["manager"], managed["operation"]) = ("kubectl-client-side-apply".into(), "Update".into());
    let port = &mut managed["fieldsV1"]["f:spec"]["f:ports"][r#"k:{"port":80,"protocol":"TCP"}"#];
    (port["f:protocol"], port["f:targetPort"]) = (json!({}), json!({}));
    let moved =
        run(Some(&live), json!({"ports": [{"name": "http", "port": 8080}]}), &ctx("kubectl", 1)).unwrap();
    assert_eq!(
        moved["spec"]["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080}])
    );
}

#[test]
fn what_is_no_longer_applied_goes_unless_others_own_it() {
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]);
    let made =
        run(None, json!({"type": "NodePort", "externalIPs": ["1.1.1.1"], "ports": ports}), &ctx("tool-a", 0))
            .unwrap();
    let shared = run(
        Some(&made),
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}]}),
        &ctx("tool-b", 1),
    )
    .unwrap();
    let less = run(
        Some(&shared),
        json!({"ports": [{"name": "b", "port": 81, "protocol": "UDP"}]}),
        &ctx("tool-a", 2),
    )
    .unwrap();
    assert_eq!(less["spec"]["type"], "NodePort");
    assert_eq!(less["spec"].get("externalIPs"), None);
    assert_eq!(less["spec"]["ports"].as_array().unwrap().len(), 2);
    let alone =
        run(Some(&less), json!({"ports": [{"name": "b", "port": 81, "protocol": "UDP"}]}), &ctx("tool-b", 3))
            .unwrap();
    assert_eq!(alone["spec"]["type"], "ClusterIP");
    assert_eq!(
        alone["spec"]["ports"],
        json!([{"name": "b", "port": 81, "protocol": "UDP", "targetPort": 81}])
    );
}

#[test]
fn two_protocols_of_one_port_are_two_items() {
    let made = run(None, json!({"ports": [{"name": "t", "port": 80}]}), &ctx("tool-a", 0)).unwrap();
    let both = json!({"ports": [{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]});
    let made = run(Some(&made), both, &ctx("tool-a", 1)).unwrap();
    assert_eq!(made["spec"]["ports"].as_array().unwrap().len(), 2);
}

#[test]
fn a_field_of_another_is_a_conflict() {
    let made =
        run(None, json!({"selector": {"x": "1"}, "ports": [{"port": 80}]}), &ctx("tool-a", 0)).unwrap();
    let other = json!({"selector": {"x": "2"}, "ports": [{"port": 80}]});
    let status = run(Some(&made), other.clone(), &ctx("tool-b", 1)).unwrap_err();
    assert_eq!(status.code, Some(409));
    assert_eq!(
        status.message.as_deref(),
        Some("Apply failed with 1 conflict: conflict with \"tool-a\": .spec.selector")
    );
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!(causes[0].field.as_deref(), Some(".spec.selector"));
    assert_eq!(causes[0].reason.as_deref(), Some("FieldManagerConflict"));
    let forced = run(Some(&made), other, &ApplyContext { force: true, ..ctx("tool-b", 1) }).unwrap();
    assert_eq!(forced["spec"]["selector"], json!({"x": "2"}));
    // The loser owns it no more, and agreeing is no conflict.
    let agreed =
        run(Some(&forced), json!({"selector": {"x": "2"}, "ports": [{"port": 80}]}), &ctx("tool-a", 2))
            .unwrap();
    assert_eq!(agreed["spec"], forced["spec"]);
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let mut made = run(
        None,
        json!({"selector": {"x": "1"}, "ports": [{"port": 80, "targetPort": 1}]}),
        &ctx("tool-a", 0),
    )
    .unwrap();
    let old = made.clone();
    made["spec"]["type"] = "NodePort".into();
    let update = UpdateContext {
        manager: "kubectl-edit",
        subresource: None,
        now: Timestamp::from_second(60).unwrap(),
    };
    managed_fields::track_update(kind(), Some(&old), &mut made, &update);
    let other =
        json!({"type": "LoadBalancer", "selector": {"x": "2"}, "ports": [{"port": 80, "targetPort": 2}]});
    let status = run(Some(&made), other, &ctx("tool-b", 61)).unwrap_err();
    assert_eq!(
        status.message.as_deref(),
        Some(
            "Apply failed with 3 conflicts: conflicts with \"kubectl-edit\" using v1:\n- .spec.type\n\
             conflicts with \"tool-a\":\n- .spec.selector\n- .spec.ports[port=80,protocol=\"TCP\"].targetPort"
        )
    );
}

#[rstest]
#[case(json!({"spec": {}}), "invalid object type: /, Kind=")]
#[case(json!({"apiVersion": "v1", "kind": "Pod"}), "invalid object type: /v1, Kind=Pod")]
#[case(json!({"apiVersion": "apps/v1", "kind": "Service"}), "invalid object type: apps/v1, Kind=Service")]
#[case(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"managedFields": [{}]}}), "metadata.managedFields must be nil")]
#[case(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"managedFields": []}}), "metadata.managedFields must be nil")]
#[case(json!([]), "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}")]
fn bodies_that_are_refused(#[case] body: Value, #[case] message: &str) {
    let status = apply(kind(), None, body.to_string().as_bytes(), &ctx("t", 0)).unwrap_err();
    assert_eq!((status.code, status.message.as_deref()), (Some(400), Some(message)));
}

#[rstest]
#[case(json!({"colour": "red"}), ".spec.colour: field not declared in schema")]
#[case(json!({"ports": [{"port": "80"}]}), ".spec.ports[port=\"80\",protocol=\"TCP\"].port: expected numeric (int or float), got string")]
#[case(json!({"clusterIP": 5}), ".spec.clusterIP: expected string, got &value.valueUnstructured{Value:5}")]
#[case(json!({"ports": {"port": 80}}), ".spec.ports: expected list, got &{map[port:80]}")]
#[case(json!({"selector": "x"}), ".spec.selector: expected map, got &{x}")]
#[case(json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}), ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]")]
#[case(json!({"a": 1, "b": 2}), "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema")]
fn fields_that_do_not_fit(#[case] spec: Value, #[case] faults: &str) {
    let status = run(None, spec, &ctx("t", 0)).unwrap_err();
    assert_eq!((status.code, status.reason.as_deref()), (Some(422), Some("Invalid")));
    let causes = status.details.unwrap().causes.unwrap();
    assert!(causes.iter().all(|cause| cause.field.as_deref().is_some_and(|f| f.starts_with("spec."))));
    assert_eq!(
        status.message.unwrap(),
        format!("failed to create typed patch object (/a; /v1, Kind=Service): {faults}")
    );
}

#[test]
fn a_number_that_is_no_integer_cannot_be_stored() {
    let status = run(None, json!({"ports": [{"port": 80.5}]}), &ctx("t", 0)).unwrap_err();
    assert_eq!(status.code, Some(422));
    assert_eq!(
        status.details.as_ref().unwrap().causes.as_ref().unwrap()[0].field.as_deref(),
        Some("spec.ports.port")
    );
    assert_eq!(
        status.message.as_deref(),
        Some(
            "failed to convert new object (/a; /v1, Kind=Service) to proper version: unable to convert unstructured \
             object to /v1, Kind=Service: cannot convert float64 to int32"
        )
    );
}

#[test]
fn a_key_set_twice_is_an_error_or_a_warning() {
    let body = br#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"A","type":"NodePort"}}"#;
    let text = "line 1: key \"type\" already set in map";
    let status = apply(kind(), None, body, &ctx("t", 0)).unwrap_err();
    let strict = format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {text}"
    );
    assert_eq!(status.message, Some(strict));
    let warned =
        apply(kind(), None, body, &ApplyContext { validation: FieldValidation::Warn, ..ctx("t", 0) })
            .unwrap();
    assert_eq!(warned.warnings, [text]);
    assert_eq!(warned.value["spec"]["type"], "NodePort");
}

#[test]
fn a_yaml_body_is_read() {
    let body = b"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 80\n";
    let made = apply(kind(), None, body, &ctx("t", 0)).unwrap().value;
    assert_eq!(made["spec"]["ports"], json!([{"port": 80}]));
}

#[test]
fn an_untracked_object_belongs_to_before_first_apply() {
    let live = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "uid": "u"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}, "status": {"loadBalancer": {}}});
    let status = run(Some(&live), json!({"type": "ClusterIP"}), &ctx("t", 0)).unwrap_err();
    assert_eq!(
        status.message.as_deref(),
        Some("Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .spec.type")
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client_side() {
    let mut live = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "annotations": {LAST_APPLIED: service(json!({"type": "NodePort"})).iter().map(|b| char::from(*b)).collect::<String>()}},
        "spec": {"type": "NodePort"}, "status": {"loadBalancer": {}}});
    let update =
        UpdateContext { manager: "kubectl-client-side-apply", subresource: None, now: Timestamp::UNIX_EPOCH };
    managed_fields::track_update(kind(), None, &mut live, &update);
    let spec = json!({"type": "ClusterIP"});
    assert!(run(Some(&live), spec.clone(), &ctx("tool", 0)).is_err());
    let taken = run(Some(&live), spec, &ctx("kubectl", 0)).unwrap();
    assert_eq!(taken["spec"]["type"], "ClusterIP");
    assert!(taken["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap().contains("ClusterIP"));
}

#[test]
fn kubectl_is_told_of_the_conflicts_that_are_not_its_own() {
    let applied = service(json!({"type": "NodePort", "externalName": "a"}));
    let mut live = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "annotations": {LAST_APPLIED: String::from_utf8(applied).unwrap()}},
        "spec": {"type": "NodePort", "externalName": "a"}, "status": {"loadBalancer": {}}});
    let by = |manager| UpdateContext { manager, subresource: None, now: Timestamp::UNIX_EPOCH };
    managed_fields::track_update(kind(), None, &mut live, &by("kubectl-client-side-apply"));
    let old = live.clone();
    live["spec"]["externalName"] = "b".into();
    managed_fields::track_update(kind(), Some(&old), &mut live, &by("other"));
    let status =
        run(Some(&live), json!({"type": "ClusterIP", "externalName": "c"}), &ctx("kubectl", 0)).unwrap_err();
    assert_eq!(
        status.message.as_deref(),
        Some("Apply failed with 1 conflict: conflict with \"other\" using v1: .spec.externalName")
    );
}

#[test]
fn a_status_apply_owns_the_status() {
    let made = run(None, json!({"ports": [{"port": 80}]}), &ctx("tool-a", 0)).unwrap();
    let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let ctx = ApplyContext { subresource: Some("status"), ..ctx("tool-a", 1) };
    let value = apply(kind(), Some(&made), body.to_string().as_bytes(), &ctx).unwrap().value;
    let entries = value["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert!(entries[1]["fieldsV1"]["f:status"]["f:conditions"].get("k:{\"type\":\"Ready\"}").is_some());
}

/// Specs over a small alphabet.
fn specs() -> impl Strategy<Value = Value> {
    let port = (80_u16..84, any::<bool>(), prop::option::of(1_u16..3));
    (
        prop::collection::btree_map(any::<bool>(), port, 0..3),
        prop::option::of("[ab]"),
        prop::option::of(prop::collection::btree_map("[xy]", "[12]", 0..3)),
        prop::option::of(prop::collection::vec("[pq]", 0..2)),
    )
        .prop_map(|(ports, session, selector, ips)| {
            let mut seen = std::collections::BTreeSet::new();
            let ports: Vec<Value> = ports
                .into_values()
                .filter(|(port, udp, _)| seen.insert((*port, *udp)))
                .map(|(port, udp, target)| {
                    let mut entry = json!({"port": port, "protocol": if udp { "UDP" } else { "TCP" }});
                    if let Some(target) = target {
                        entry["targetPort"] = target.into();
                    }
                    entry
                })
                .collect();
            let mut spec = json!({});
            if !ports.is_empty() {
                spec["ports"] = ports.into();
            }
            if let Some(session) = session {
                spec["externalName"] = session.into();
            }
            if let Some(selector) = selector {
                spec["selector"] = json!(selector);
            }
            if let Some(ips) = ips {
                spec["externalIPs"] = json!(ips);
            }
            spec
        })
}

fn plain(live: Option<&Value>, spec: &Value, ctx: &ApplyContext<'_>) -> Value {
    let forced = ApplyContext { force: true, ..*ctx };
    apply(kind(), live, &service(spec.clone()), &forced).unwrap().value
}

proptest! {
    #[test]
    fn apply_is_idempotent(a in specs(), b in specs()) {
        let live = plain(None, &a, &ctx("a", 0));
        let once = plain(Some(&live), &b, &ctx("b", 1));
        let twice = plain(Some(&once), &b, &ctx("b", 2));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn one_manager_gets_exactly_what_it_applies_last(a in specs(), b in specs()) {
        let direct = plain(None, &b, &ctx("a", 0));
        let through = plain(Some(&plain(None, &a, &ctx("a", 0))), &b, &ctx("a", 0));
        prop_assert_eq!(managed_fields::clone_unmanaged(&direct), managed_fields::clone_unmanaged(&through));
    }

    #[test]
    fn who_applies_nothing_owns_nothing(a in specs(), b in specs()) {
        let live = plain(None, &a, &ctx("a", 0));
        let both = plain(Some(&live), &b, &ctx("b", 1));
        let nothing = br#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}"#;
        let back = apply(kind(), Some(&both), nothing, &ctx("b", 2)).unwrap().value;
        let managers: Vec<&Value> = back["metadata"]["managedFields"].as_array().into_iter().flatten().map(|e| &e["manager"]).collect();
        prop_assert!(!managers.contains(&&json!("b")));
    }
}
