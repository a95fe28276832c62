// Test tables hand their JSON over by value.
#![allow(clippy::needless_pass_by_value)]

mod protocols;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::schema;

fn kind() -> &'static KindSchema {
    schema::find("", "v1", "Service").unwrap()
}

fn live(ports: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "namespace": "default", "finalizers": ["x/a", "x/b"], "labels": {"l": "1"}},
        "spec": {"clusterIP": "10.96.0.10", "selector": {"x": "1", "y": "2"}, "externalIPs": ["1.1.1.1"], "ports": ports},
        "status": {"loadBalancer": {}}
    })
}

fn two() -> Value {
    json!([{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}])
}

fn run(live: &Value, form: PatchForm, body: &Value) -> Result<Value, Box<Status>> {
    patch(kind(), live, form, body.to_string().as_bytes(), FieldValidation::Strict).map(|d| d.value)
}

fn strategic_ports(ports: Value, body: Value) -> Value {
    run(&live(ports), PatchForm::Strategic, &json!({"spec": body})).unwrap()["spec"]["ports"].clone()
}

#[rstest]
#[case::changes_one(
    json!({"ports": [{"port": 80, "targetPort": 8080}]}),
    json!([{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 8080}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}]))]
#[case::adds_in_front(
    json!({"ports": [{"name": "c", "port": 82}]}),
    json!([{"name": "c", "port": 82}, {"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}]))]
#[case::deletes(
    json!({"ports": [{"$patch": "delete", "port": 81}]}),
    json!([{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}]))]
#[case::replaces(
    json!({"ports": [{"$patch": "replace"}, {"name": "z", "port": 99}]}),
    json!([{"name": "z", "port": 99}]))]
#[case::orders(
    json!({"$setElementOrder/ports": [{"port": 81}, {"port": 80}], "ports": [{"port": 80, "targetPort": 1}]}),
    json!([{"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}, {"name": "a", "protocol": "TCP", "port": 80, "targetPort": 1}]))]
#[case::orders_without_a_list(
    json!({"$setElementOrder/ports": [{"port": 81}, {"port": 80}]}),
    json!([{"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}, {"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}]))]
#[case::changes_the_protocol(
    json!({"ports": [{"port": 80, "protocol": "UDP"}]}),
    json!([{"name": "a", "protocol": "UDP", "port": 80, "targetPort": 80}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}]))]
#[case::whole_numbers_written_with_a_fraction(
    json!({"ports": [{"port": 80.0, "targetPort": 1.0}]}),
    json!([{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 1}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}]))]
#[case::nulls(
    json!({"ports": [{"port": 80, "name": null}, {"port": 85, "name": null}]}),
    json!([{"protocol": "TCP", "port": 80, "targetPort": 80}, {"port": 85}, {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 81}]))]
fn strategic_lists(#[case] body: Value, #[case] ports: Value) {
    assert_eq!(strategic_ports(two(), body), ports);
}

#[rstest]
#[case(json!({"metadata": {"finalizers": ["x/c"]}}), "/metadata/finalizers", json!(["x/c", "x/a", "x/b"]))]
#[case(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}), "/metadata/finalizers", json!(["x/b"]))]
#[case(json!({"metadata": {"$setElementOrder/finalizers": ["x/b", "x/a"]}}), "/metadata/finalizers", json!(["x/b", "x/a"]))]
#[case(json!({"spec": {"externalIPs": ["2.2.2.2"]}}), "/spec/externalIPs", json!(["2.2.2.2"]))]
#[case(json!({"spec": {"selector": {"x": null, "z": "3"}}}), "/spec/selector", json!({"y": "2", "z": "3"}))]
#[case(json!({"spec": {"selector": {"$patch": "replace", "z": "3"}}}), "/spec/selector", json!({"z": "3"}))]
#[case(json!({"spec": {"selector": {"$patch": "delete"}}}), "/spec/selector", Value::Null)]
#[case(json!({"spec": {"selector": null}}), "/spec/selector", Value::Null)]
#[case(json!({"spec": {"selector": {"$retainKeys": ["x"], "x": "9"}}}), "/spec/selector", json!({"x": "9"}))]
#[case(json!({"kind": "Pod", "apiVersion": "v2"}), "/kind", json!("Service"))]
#[case(json!({"kind": null, "apiVersion": null}), "/apiVersion", json!("v1"))]
fn strategic_maps_and_sets(#[case] body: Value, #[case] pointer: &str, #[case] expected: Value) {
    let value = run(&live(two()), PatchForm::Strategic, &body).unwrap();
    assert_eq!(value.pointer(pointer).cloned().unwrap_or_default(), expected);
}

#[rstest]
#[case(json!({"spec": {"ports": [{"name": "x"}]}}), 422, "map: map[name:x] does not contain declared merge key: port")]
#[case(json!({"spec": {"selector": {"$patch": "x"}}}), 422, "unknown patch type: x in map: map[$patch:x]")]
#[case(json!({"spec": {"selector": {"$retainKeys": ["x"], "q": "1"}}}), 400, "invalid patch format of retainKeys")]
#[case(json!({"spec": {"ports": [[1]]}}), 422, "the server rejected our request due to an error in our request")]
#[case(json!({"spec": {"ports": [{"port": 80, "targetPort": true}]}}), 422,
    " \"\" is invalid: patch: Invalid value: \"map[spec:map[ports:[map[port:80 targetPort:true]]]]\": json: cannot unmarshal bool into Go value of type int32")]
#[case(json!({"spec": {"healthCheckNodePort": "x"}}), 422, " \"\" is invalid: patch: Invalid value: \"map[spec:map[healthCheckNodePort:x]]\": unrecognized type: int32")]
#[case(json!({"spec": {"clusterIP": 5}}), 422, " \"\" is invalid: patch: Invalid value: \"map[spec:map[clusterIP:5]]\": cannot convert int64 to string")]
#[case(json!({"spec": {"colour": "red"}}), 422, " \"\" is invalid: patch: Invalid value: \"map[spec:map[colour:red]]\": strict decoding error: unknown field \"spec.colour\"")]
#[case(json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}")]
fn strategic_faults(#[case] body: Value, #[case] code: i32, #[case] message: &str) {
    let status = run(&live(two()), PatchForm::Strategic, &body).unwrap_err();
    assert_eq!((status.code, status.message.as_deref()), (Some(code), Some(message)));
}

#[rstest]
#[case(json!({"spec": {"$setElementOrder": [{}]}}), "invalid patch format of setElementOrder list")]
#[case(json!({"$deleteFromPrimitiveList": ["x"]}), "invalid patch format of primitive list")]
fn directives_that_name_no_list(#[case] body: Value, #[case] message: &str) {
    let status = run(&live(two()), PatchForm::Strategic, &body).unwrap_err();
    assert_eq!((status.code, status.message.as_deref()), (Some(400), Some(message)));
}

/// Values that are no part of any object, nested deep or not of UTF-8.
#[rstest]
#[case(PatchForm::Json, format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":{}{}}}]", "[".repeat(2000), "]".repeat(2000)))]
#[case(PatchForm::Merge, format!("{{\"x\":{}{}}}", "[".repeat(2000), "]".repeat(2000)))]
#[case(PatchForm::Strategic, format!("{{\"x\":{}1{}}}", "{\"a\":".repeat(2000), "}".repeat(2000)))]
fn a_patch_is_as_deep_as_can_be_worked_on(#[case] form: PatchForm, #[case] body: String) {
    let status = patch(kind(), &live(two()), form, body.as_bytes(), FieldValidation::Warn).unwrap_err();
    assert_eq!(status.code, Some(400));
    assert!(status.message.unwrap().ends_with("exceeded max depth of 127"));
}

#[test]
fn what_is_no_text_is_replaced() {
    let body = b"{\"spec\":{\"selector\":{\"x\":\"\xff\"}}}";
    for form in [PatchForm::Merge, PatchForm::Strategic] {
        let patched = patch(kind(), &live(two()), form, body, FieldValidation::Warn).unwrap().value;
        assert_eq!(patched["spec"]["selector"]["x"], "\u{fffd}");
    }
}

/// What upstream calls a fault of its own names the field here, so that nobody sends it again.
#[rstest]
#[case(json!({"spec": {"ports": [{"name": "x"}]}}), "spec.ports")]
#[case(json!({"spec": {"ports": ["x"]}}), "spec.ports")]
#[case(json!({"spec": {"selector": {"$patch": "x"}}}), "spec.selector")]
#[case(json!({"$patch": "bogus"}), "")]
#[case(json!({"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}], "ports": [{"port": 80}, {"port": 81}]}}),
    "spec.ports")]
#[case(json!({"spec": {"$setElementOrder/nope": [{}]}}), "spec")]
#[case(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [1]}}), "metadata.finalizers")]
#[case(json!({"spec": {"$deleteFromPrimitiveList/ports": ["x"]}}), "spec.ports")]
fn strategic_faults_name_their_field(#[case] body: Value, #[case] field: &str) {
    let status = run(&live(two()), PatchForm::Strategic, &body).unwrap_err();
    assert_eq!((status.code, status.reason.as_deref()), (Some(422), Some("Invalid")));
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!(causes[0].field.as_deref().unwrap_or_default(), field);
}

#[rstest]
#[case(json!([{"op": "add", "path": "/spec/selector/z", "value": "3"}]), Ok(json!({"x": "1", "y": "2", "z": "3"})))]
#[case(json!([{"op": "test", "path": "/spec/selector/x", "value": "2"}]), Err(422))]
#[case(json!([{"op": "remove", "path": "/spec/missing"}]), Err(422))]
#[case(json!([{"op": "jump", "path": "/spec"}]), Err(422))]
#[case(json!([{"op": "remove", "path": "/kind"}]), Ok(json!({"x": "1", "y": "2"})))]
#[case(json!([{"op": "replace", "path": "/kind", "value": "Pod"}]), Err(422))]
#[case(json!([{"op": "replace", "path": "/apiVersion", "value": "v2"}]), Err(422))]
#[case(json!([{"op": "add", "path": "/spec/ports/0/port", "value": "x"}]), Err(422))]
#[case(json!({"op": "remove"}), Err(400))]
#[case(json!(["x"]), Err(400))]
fn json_patches(#[case] body: Value, #[case] expected: Result<Value, i32>) {
    let result = run(&live(two()), PatchForm::Json, &body).map(|v| v["spec"]["selector"].clone());
    assert_eq!(result.map_err(|s| s.code.unwrap()), expected);
}

#[test]
fn a_json_patch_that_does_not_apply_says_no_more_than_upstream() {
    let status =
        run(&live(two()), PatchForm::Json, &json!([{"op": "remove", "path": "/spec/missing"}])).unwrap_err();
    assert_eq!(status.reason.as_deref(), Some("Invalid"));
    assert_eq!(status.details, Some(StatusDetails::default()));
}

#[rstest]
#[case("[{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Service\",\"note\":1}]", Ok(vec!["json patch unknown field \"[0].note\""]))]
#[case("[{\"op\":\"add\",\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Service\"}]", Ok(vec!["json patch duplicate field \"[0].op\""]))]
#[case(
    "{}",
    Err("error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp")
)]
#[case(
    "[1]",
    Err("error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp")
)]
#[case(
    "[{\"op\":1}]",
    Err(
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
    )
)]
#[case("[", Err("error decoding patch: unexpected end of JSON input"))]
fn json_patches_are_read_strictly(#[case] body: &str, #[case] expected: Result<Vec<&str>, &str>) {
    let result = patch(kind(), &live(two()), PatchForm::Json, body.as_bytes(), FieldValidation::Warn);
    match expected {
        Ok(warnings) => assert_eq!(result.unwrap().warnings, warnings),
        Err(message) => assert_eq!(result.unwrap_err().message.as_deref(), Some(message)),
    }
}

#[test]
fn too_many_operations_are_refused() {
    let operations = vec![json!({"op": "test", "path": "/kind", "value": "Service"}); 10_001];
    let status = run(&live(two()), PatchForm::Json, &json!(operations)).unwrap_err();
    assert_eq!(status.code, Some(413));
    assert_eq!(
        status.message.as_deref(),
        Some("Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001")
    );
}

#[rstest]
#[case("{\"spec\":{\"type\":\"A\",\"type\":\"B\"}}", Ok(vec!["duplicate field \"spec.type\""]))]
#[case("{\"spec\":{\"colour\":1}}", Ok(vec!["unknown field \"spec.colour\""]))]
#[case(
    "[]",
    Err("error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}")
)]
#[case("{", Err("error decoding patch: unexpected end of JSON input"))]
#[case("null", Err("Invalid JSON Patch"))]
fn merge_patches(#[case] body: &str, #[case] expected: Result<Vec<&str>, &str>) {
    let result = patch(kind(), &live(two()), PatchForm::Merge, body.as_bytes(), FieldValidation::Warn);
    match expected {
        Ok(warnings) => assert_eq!(result.unwrap().warnings, warnings),
        Err(message) => assert_eq!(result.unwrap_err().message.as_deref(), Some(message)),
    }
}

/// A merge patch that leads from `a` to `b`.
fn diff(a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut out = serde_json::Map::new();
            for name in a.keys().filter(|name| !b.contains_key(*name)) {
                out.insert(name.clone(), Value::Null);
            }
            for (name, value) in b {
                match a.get(name) {
                    Some(old) if old == value => {}
                    Some(old) => {
                        out.insert(name.clone(), diff(old, value));
                    }
                    None => {
                        out.insert(name.clone(), value.clone());
                    }
                }
            }
            Value::Object(out)
        }
        _ => b.clone(),
    }
}

fn services() -> impl Strategy<Value = Value> {
    let ports =
        prop::collection::btree_map((80_u16..83, prop::sample::select(vec!["TCP", "UDP"])), 1_u16..4, 0..4);
    let labels = prop::collection::btree_map("[ab]", "[12]", 0..3);
    (ports, labels, prop::sample::select(vec!["ClusterIP", "NodePort"])).prop_map(|(ports, labels, ty)| {
        let ports: Vec<Value> = ports
            .into_iter()
            .map(|((port, protocol), target)| {
                json!({"name": format!("{port}{protocol}"), "port": port, "protocol": protocol, "targetPort": target})
            })
            .collect();
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": labels},
            "spec": {"type": ty, "ports": ports}});
        decode::normalise(kind(), &object).unwrap()
    })
}

proptest! {
    #[test]
    fn a_merge_patch_leads_where_it_should(a in services(), b in services()) {
        prop_assert_eq!(run(&a, PatchForm::Merge, &diff(&a, &b)).unwrap(), b);
    }

    #[test]
    fn a_strategic_patch_with_all_ports_leads_to_them(a in services(), b in services()) {
        // Entries with their protocols, deletes for those that go, and the order wanted: any list is reached.
        let empty = Vec::new();
        let list = |v: &Value| v["spec"]["ports"].as_array().unwrap_or(&empty).clone();
        let same = |x: &Value, y: &Value| x["port"] == y["port"] && x["protocol"] == y["protocol"];
        let mut ports = list(&b);
        for gone in list(&a).iter().filter(|x| !list(&b).iter().any(|y| same(x, y))) {
            ports.push(json!({"$patch": "delete", "port": gone["port"], "protocol": gone["protocol"]}));
        }
        let order: Vec<Value> = list(&b).iter().map(|p| json!({"port": p["port"], "protocol": p["protocol"]})).collect();
        // A single entry on a number may change its protocol in place; here nothing is left to that.
        prop_assume!(!list(&a).iter().any(|x| list(&b).iter().any(|y| x["port"] == y["port"] && !same(x, y))));
        let body = json!({"spec": {"ports": ports, "$setElementOrder/ports": order}});
        let got = run(&a, PatchForm::Strategic, &body).unwrap();
        prop_assert_eq!(list(&got), list(&b));
    }

    #[test]
    fn an_empty_patch_changes_nothing(a in services()) {
        for form in [PatchForm::Merge, PatchForm::Strategic] {
            prop_assert_eq!(&run(&a, form, &json!({})).unwrap(), &a);
        }
        prop_assert_eq!(&run(&a, PatchForm::Json, &json!([])).unwrap(), &a);
    }
}
