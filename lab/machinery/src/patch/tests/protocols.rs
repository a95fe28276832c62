//! Ports of one number, told apart by their protocols.

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
    let spec =
        json!({"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [{"name": "t", "port": 80}]});
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
fn a_change_without_protocol_goes_where_the_configuration_has_it(#[case] wanted: Value, #[case] at: usize) {
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
    let spec = json!({"$setElementOrder/ports": [{"port": 80}], "ports": [{"$patch": "delete", "port": 80}]});
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
    let spec = json!({"$setElementOrder/ports": [{"port": 80}], "ports": [{"port": 80, "protocol": "UDP"}]});
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
    let before =
        json!([{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP", "targetPort": 5353}]);
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
    assert_eq!(told, [(json!("t"), json!("TCP"), json!(30080)), (json!("u"), json!("UDP"), json!(30080))]);
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
