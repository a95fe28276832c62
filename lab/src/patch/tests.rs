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
#[case(json!({"spec": {"ports": [{"name": "x"}]}}), 500, "map: map[name:x] does not contain declared merge key: port")]
#[case(json!({"spec": {"selector": {"$patch": "x"}}}), 500, "unknown patch type: x in map: map[$patch:x]")]
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
        Some("The allowed maximum operations in a JSON patch is 10000, got 10001")
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

mod protocols {
    use super::*;

    fn tcp() -> Value {
        json!({"name": "t", "protocol": "TCP", "port": 80, "targetPort": 80})
    }

    fn udp() -> Value {
        json!({"name": "u", "protocol": "UDP", "port": 80, "targetPort": 80})
    }

    /// What `kubectl apply` sends along.
    fn applied(ports: &Value) -> Value {
        let object = json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports}});
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": object.to_string()}})
    }

    fn ports(ours: Value, spec: Value, wanted: Option<Value>) -> Value {
        let metadata = wanted.map_or(json!({}), |wanted| applied(&wanted));
        let body = json!({"metadata": metadata, "spec": spec});
        run(&live(ours), PatchForm::Strategic, &body).unwrap()["spec"]["ports"].clone()
    }

    #[rstest]
    #[case::with_the_configuration(Some(json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}])))]
    #[case::without(None)]
    fn the_second_protocol_is_added(#[case] wanted: Option<Value>) {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"name": "u", "port": 80, "protocol": "UDP"}]});
        let got = ports(json!([tcp()]), spec, wanted);
        assert_eq!(got, json!([tcp(), {"name": "u", "port": 80, "protocol": "UDP"}]));
    }

    #[test]
    fn the_default_protocol_is_added_beside_another() {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [{"name": "t", "port": 80}]});
        let wanted = json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]);
        let expected = json!([{"name": "t", "port": 80, "protocol": "TCP"}, udp()]);
        assert_eq!(ports(json!([udp()]), spec, Some(wanted)), expected);
    }

    #[test]
    fn a_patch_without_an_order_adds_a_port_of_another_name_and_protocol() {
        let got = ports(json!([tcp()]), json!({"ports": [udp()]}), None);
        assert_eq!(got, json!([udp(), tcp()]));
        let both = ports(json!([tcp()]), json!({"ports": [tcp(), udp()]}), None);
        assert_eq!(both, json!([tcp(), udp()]));
    }

    /// kubernetes/kubernetes 59119: validation can refuse only what is still there.
    #[rstest]
    #[case::with_the_configuration(Some(json!([{"name": "t", "port": 80}, {"name": "again", "port": 80}])))]
    #[case::without(None)]
    fn a_port_that_is_there_twice_is_not_merged(#[case] wanted: Option<Value>) {
        let spec =
            json!({"ports": [{"name": "t", "port": 80}, {"name": "again", "port": 80, "protocol": "TCP"}]});
        let got = ports(json!([tcp()]), spec, wanted);
        let names: Vec<&Value> = got.as_array().unwrap().iter().map(|port| &port["name"]).collect();
        assert_eq!(names, ["t", "again"]);
    }

    #[test]
    fn a_named_protocol_changes_its_entry_alone() {
        let got = ports(
            json!([tcp(), udp()]),
            json!({"ports": [{"port": 80, "protocol": "UDP", "targetPort": 8080}]}),
            None,
        );
        let mut changed = udp();
        changed["targetPort"] = 8080.into();
        assert_eq!(got, json!([tcp(), changed]));
    }

    #[rstest]
    #[case::tcp(json!([{"name": "t", "port": 80, "targetPort": 1}, {"name": "u", "port": 80, "protocol": "UDP"}]), 0)]
    #[case::udp(json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP", "targetPort": 1}]), 1)]
    fn a_change_without_protocol_goes_where_the_configuration_has_it(
        #[case] wanted: Value,
        #[case] at: usize,
    ) {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [{"port": 80, "targetPort": 1}]});
        let got = ports(json!([tcp(), udp()]), spec, Some(wanted));
        let mut expected = json!([tcp(), udp()]);
        expected[at]["targetPort"] = 1.into();
        assert_eq!(got, expected);
    }

    #[rstest]
    #[case::udp(json!([{"name": "t", "port": 80}]), json!([tcp()]))]
    #[case::tcp(json!([{"name": "u", "port": 80, "protocol": "UDP"}]), json!([udp()]))]
    fn one_of_two_is_deleted(#[case] wanted: Value, #[case] expected: Value) {
        let spec =
            json!({"$setElementOrder/ports": [{"port": 80}], "ports": [{"$patch": "delete", "port": 80}]});
        assert_eq!(ports(json!([tcp(), udp()]), spec, Some(wanted)), expected);
    }

    #[test]
    fn a_delete_by_number_alone_takes_all_and_by_protocol_one() {
        let all = ports(
            json!([tcp(), udp(), {"name": "x", "port": 1}]),
            json!({"ports": [{"$patch": "delete", "port": 80}]}),
            None,
        );
        assert_eq!(all, json!([{"name": "x", "port": 1}]));
        let one = ports(
            json!([tcp(), udp()]),
            json!({"ports": [{"$patch": "delete", "port": 80, "protocol": "TCP"}]}),
            None,
        );
        assert_eq!(one, json!([udp()]));
    }

    #[test]
    fn the_protocol_of_a_single_port_changes_in_place() {
        let spec =
            json!({"$setElementOrder/ports": [{"port": 80}], "ports": [{"port": 80, "protocol": "UDP"}]});
        let got = ports(json!([tcp()]), spec, Some(json!([{"name": "t", "port": 80, "protocol": "UDP"}])));
        assert_eq!(got, json!([{"name": "t", "protocol": "UDP", "port": 80, "targetPort": 80}]));
    }

    #[test]
    fn a_change_beside_other_numbers_works_as_ever() {
        let https = json!({"name": "s", "protocol": "TCP", "port": 443, "targetPort": 443});
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 443}], "ports": [{"port": 80, "targetPort": 8080}]});
        let got = ports(json!([tcp(), https]), spec, None);
        assert_eq!(got, json!([{"name": "t", "protocol": "TCP", "port": 80, "targetPort": 8080}, https]));
    }

    #[test]
    fn a_field_is_taken_from_the_entry_that_had_it() {
        let mut ours = live(json!([tcp(), {"name": "u", "protocol": "UDP", "port": 80, "targetPort": 5353}]));
        let before = json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP", "targetPort": 5353}]);
        ours["metadata"]["annotations"] = applied(&before)["annotations"].clone();
        let wanted = json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]);
        let body = json!({"metadata": applied(&wanted), "spec": {"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"port": 80, "targetPort": null}]}});
        let got = run(&ours, PatchForm::Strategic, &body).unwrap();
        assert_eq!(got["spec"]["ports"], json!([tcp(), {"name": "u", "protocol": "UDP", "port": 80}]));
    }

    /// `kubectl` sorts by the number and hence may send two of one number in any order.
    #[test]
    fn entries_of_one_number_may_come_in_any_order() {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"name": "u", "port": 80, "protocol": "UDP"}, {"name": "t", "port": 80}]});
        let wanted = json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]);
        let got = ports(json!([tcp()]), spec, Some(wanted));
        assert_eq!(got, json!([tcp(), {"name": "u", "port": 80, "protocol": "UDP"}]));
    }

    #[test]
    fn an_order_that_the_patch_does_not_keep_is_refused() {
        let body = json!({"spec": {"$setElementOrder/ports": [{"port": 80}, {"port": 81}],
            "ports": [{"port": 81, "name": "x"}, {"port": 80, "name": "y"}]}});
        let status = run(&live(two()), PatchForm::Strategic, &body).unwrap_err();
        assert_eq!(
            status.message.as_deref(),
            Some(
                "The order in patch list:\n[map[name:x port:81] map[name:y port:80]]\n doesn't match \
                  $setElementOrder list:\n[map[port:80] map[port:81]]\n"
            )
        );
    }

    /// `kubectl` pairs the ports by number; what it sends then fits both, or lacks one.
    #[rstest]
    #[case::changes_of_both_look_alike(
        json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"nodePort": 30080, "port": 80}, {"nodePort": 30080, "port": 80}]}),
        json!([tcp(), udp()])
    )]
    #[case::two_are_added_and_one_is_sent(
        json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"name": "t", "port": 80, "protocol": "UDP", "nodePort": 30080}, {"$patch": "delete", "port": 53}]}),
        json!([{"name": "u", "port": 53, "protocol": "UDP"}])
    )]
    #[case::nothing_is_sent(json!({}), json!([tcp()]))]
    fn what_is_applied_is_there_whatever_kubectl_makes_of_it(#[case] spec: Value, #[case] ours: Value) {
        let wanted = json!([{"name": "t", "port": 80, "nodePort": 30080},
            {"name": "u", "port": 80, "protocol": "UDP", "nodePort": 30080}]);
        let mut live = live(ours.clone());
        live["metadata"]["annotations"] = applied(&ours)["annotations"].clone();
        let body = json!({"metadata": applied(&wanted), "spec": spec});
        let got = run(&live, PatchForm::Strategic, &body).unwrap();
        let told = |port: &Value| (port["name"].clone(), port["protocol"].clone(), port["nodePort"].clone());
        let told: Vec<_> = got["spec"]["ports"].as_array().unwrap().iter().map(told).collect();
        assert_eq!(
            told,
            [(json!("t"), json!("TCP"), json!(30080)), (json!("u"), json!("UDP"), json!(30080))]
        );
    }

    #[test]
    fn two_changes_without_protocol_are_for_two_ports() {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"nodePort": 30080, "port": 80}, {"nodePort": 30080, "port": 80}]});
        let got = ports(json!([udp(), tcp()]), spec, None);
        let (mut u, mut t) = (udp(), tcp());
        (u["nodePort"], t["nodePort"]) = (30080.into(), 30080.into());
        assert_eq!(got, json!([u, t]));
    }

    /// `kubectl edit` sorts ports of one number into the order opposite to theirs.
    #[test]
    fn two_changes_that_were_computed_come_turned_around() {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}],
            "ports": [{"targetPort": 2, "port": 80}, {"targetPort": 1, "port": 80}]});
        let got = ports(json!([udp(), tcp()]), spec, None);
        assert_eq!((&got[0]["targetPort"], &got[1]["targetPort"]), (&json!(1), &json!(2)), "{got}");
    }

    /// kubernetes/kubernetes 49295: what `kubectl edit` sends when one of two goes, or the second is added below.
    #[rstest]
    #[case::udp_goes(json!([udp(), tcp()]), json!([{"port": 80}]), json!([{"$patch": "delete", "port": 80}]), json!([tcp()]))]
    #[case::tcp_goes(json!([udp(), tcp()]), json!([{"port": 80}]),
        json!([{"name": "u", "port": 80, "protocol": "UDP"}, {"$patch": "delete", "port": 80}]), json!([udp()]))]
    #[case::udp_comes(json!([tcp()]), json!([{"port": 80}, {"port": 80}]),
        json!([{"name": "u", "port": 80, "protocol": "UDP"}, tcp()]), json!([tcp(), udp()]))]
    fn edits_are_made_as_meant(
        #[case] ours: Value,
        #[case] order: Value,
        #[case] entries: Value,
        #[case] expected: Value,
    ) {
        let spec = json!({"$setElementOrder/ports": order, "ports": entries});
        assert_eq!(ports(ours, spec, None), expected);
    }

    #[rstest]
    #[case(json!({"name": "again", "port": 80, "protocol": "TCP", "targetPort": 1}))]
    #[case(json!({"name": "again", "port": 80}))]
    fn an_edit_that_adds_a_port_again_is_not_merged(#[case] entry: Value) {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [entry]});
        let got = ports(json!([tcp()]), spec, None);
        assert_eq!(got.as_array().unwrap().len(), 2, "{got}");
    }

    /// kubernetes/kubernetes 118918: `kubectl edit` sends what it changed of a port, and not of which.
    #[test]
    fn a_change_that_may_be_meant_for_several_ports_is_refused() {
        let body = |entry: Value| json!({"spec": {"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [entry]}});
        let patched = |entry: Value| run(&live(json!([udp(), tcp()])), PatchForm::Strategic, &body(entry));
        let status = patched(json!({"name": "other", "port": 80})).unwrap_err();
        assert_eq!(status.code, Some(400));
        let message = status.message.unwrap_or_default();
        assert!(message.contains("may mean any of 80/UDP, 80/TCP"), "{message}");
        // Nothing that a port has already is a change of it.
        let renamed = patched(json!({"name": "t", "port": 80})).unwrap();
        assert_eq!(renamed["spec"]["ports"][0]["name"], "t");
        let named = patched(json!({"name": "other", "port": 80, "protocol": "UDP"})).unwrap();
        assert_eq!(named["spec"]["ports"][0]["name"], "other");
    }

    #[test]
    fn ports_that_somebody_else_added_stay() {
        let ours = json!([tcp(), udp()]);
        let mut live = live(ours);
        live["metadata"]["annotations"] = applied(&json!([{"name": "t", "port": 80}]))["annotations"].clone();
        let wanted = json!([{"name": "t", "port": 80, "targetPort": 8080}]);
        let body = json!({"metadata": applied(&wanted), "spec": {"$setElementOrder/ports": [{"port": 80}],
            "ports": [{"port": 80, "targetPort": 8080}]}});
        let got = run(&live, PatchForm::Strategic, &body).unwrap();
        let mut changed = tcp();
        changed["targetPort"] = 8080.into();
        assert_eq!(got["spec"]["ports"], json!([changed, udp()]));
    }

    #[test]
    fn both_protocols_change_places() {
        let spec = json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}]});
        let wanted = json!([{"name": "u", "port": 80, "protocol": "UDP"}, {"name": "t", "port": 80}]);
        assert_eq!(ports(json!([tcp(), udp()]), spec, Some(wanted)), json!([udp(), tcp()]));
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
