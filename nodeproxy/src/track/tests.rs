use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn service(spec: &Value) -> ServiceWire {
    serde_json::from_value(json!({"metadata": {"namespace": "demo", "name": "web"}, "spec": spec})).unwrap()
}

fn slice(name: &str, service: Option<&str>, addresses: &[&str]) -> SliceWire {
    let endpoints: Vec<_> =
        addresses.iter().map(|address| json!({"addresses": [address], "nodeName": "one"})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "demo", "name": name, "labels": service.map(|name| json!({SERVICE_LABEL: name}))},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": endpoints}))
    .unwrap()
}

fn names(touched: &Touched) -> Vec<&str> {
    touched.services.iter().map(ServiceKey::as_str).collect()
}

#[rstest]
#[case(json!({"clusterIPs": ["10.0.0.1"]}), true)]
#[case(json!({"clusterIP": "10.0.0.1"}), true)]
#[case(json!({"clusterIP": "None", "clusterIPs": ["None"]}), false)]
#[case(json!({"type": "ExternalName", "externalName": "x.y", "clusterIPs": ["10.0.0.1"]}), false)]
#[case(json!({}), false)]
fn only_services_with_an_address_count(#[case] spec: Value, #[case] counts: bool) {
    let mut cluster = Cluster::new("one");
    assert_eq!(!cluster.on_service(Seen::Object(service(&spec))).is_empty(), counts);
}

#[rstest]
#[case(PROXY_NAME_LABEL, None, false)]
#[case(PROXY_NAME_LABEL, Some("mine"), true)]
#[case(HEADLESS_LABEL, None, false)]
#[case("other", None, true)]
fn labels_give_services_to_others(#[case] label: &str, #[case] name: Option<&str>, #[case] counts: bool) {
    let mut cluster = Cluster::new("one").for_proxy(name.map(str::to_owned));
    let mut wire = service(&json!({"clusterIPs": ["10.0.0.1"]}));
    wire.metadata.labels = Some([(label.to_owned(), "mine".to_owned())].into());
    assert_eq!(!cluster.on_service(Seen::Object(wire)).is_empty(), counts);
}

#[test]
fn an_event_that_changes_nothing_touches_nothing() {
    let mut cluster = Cluster::new("one");
    let wire = service(&json!({"clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}));
    assert_eq!(names(&cluster.on_service(Seen::Object(wire.clone()))), ["demo/web"]);
    assert!(cluster.on_service(Seen::Object(wire)).is_empty());
    let wire = slice("web-1", Some("web"), &["10.1.0.1"]);
    assert_eq!(names(&cluster.on_slice(Seen::Object(wire.clone()))), ["demo/web"]);
    assert!(cluster.on_slice(Seen::Object(wire)).is_empty());
}

#[test]
fn a_slice_can_change_hands_and_lose_its_label() {
    let mut cluster = Cluster::new("one");
    cluster.on_slice(Seen::Object(slice("web-1", Some("web"), &["10.1.0.1"])));
    let moved = cluster.on_slice(Seen::Object(slice("web-1", Some("api"), &["10.1.0.1"])));
    assert_eq!(names(&moved), ["demo/api", "demo/web"]);
    let lost = cluster.on_slice(Seen::Object(slice("web-1", None, &["10.1.0.1"])));
    assert_eq!(names(&lost), ["demo/api"]);
    assert!(cluster.slices(&ServiceKey::new("demo", "api")).is_none());
}

#[test]
fn what_a_list_does_not_name_is_gone() {
    let mut cluster = Cluster::new("one");
    cluster.on_slice(Seen::Object(slice("web-1", Some("web"), &["10.1.0.1"])));
    cluster.on_service(Seen::Object(service(&json!({"clusterIPs": ["10.0.0.1"]}))));
    assert!(cluster.on_slice(Seen::ListBegins).is_empty());
    assert!(cluster.on_slice(Seen::Object(slice("web-2", Some("web"), &["10.1.0.2"]))).services.len() == 1);
    assert_eq!(names(&cluster.on_slice(Seen::ListEnds)), ["demo/web"]);
    let left: Vec<_> =
        cluster.slices(&ServiceKey::new("demo", "web")).unwrap().keys().map(AsRef::as_ref).collect();
    assert_eq!(left, ["demo/web-2"]);
    cluster.on_service(Seen::ListBegins);
    assert_eq!(names(&cluster.on_service(Seen::ListEnds)), ["demo/web"]);
}

#[test]
fn an_address_of_the_wrong_family_is_left_out_and_counted() {
    let info = SliceInfo::read(&slice("s", Some("web"), &["10.1.0.1", "fd00::1", "x"]), "one").unwrap();
    assert_eq!((info.endpoints.len(), info.unusable), (1, 2));
    assert!(info.endpoints[0].local);
}

#[test]
fn a_load_balancer_that_answers_itself_is_no_address_of_ours() {
    let mut wire =
        service(&json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 31000,
        "externalTrafficPolicy": "Local", "loadBalancerSourceRanges": [" 10.0.0.1/8 "]}));
    wire.status = serde_json::from_value(json!({"loadBalancer": {"ingress": [
        {"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "VIP"}, {"ip": "192.0.2.3", "ipMode": "Proxy"}, {"hostname": "x"}]}}))
    .unwrap();
    let info = ServiceInfo::read(&wire).unwrap();
    assert_eq!(info.vips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(info.source_ranges[0].to_string(), "10.0.0.0/8");
    assert_eq!(info.health_port, Some(31000));
}

#[test]
fn a_node_that_goes_keeps_its_addresses() {
    let mut cluster = Cluster::new("one");
    let wire: NodeWire = serde_json::from_value(json!({"metadata": {"name": "one"},
        "status": {"addresses": [{"type": "ExternalIP", "address": "192.0.2.9"}, {"type": "InternalIP", "address": "192.0.2.1"}]}}))
    .unwrap();
    assert!(cluster.on_node(Seen::Object(wire.clone())).everything);
    assert!(cluster.on_node(Seen::Object(wire.clone())).is_empty());
    assert!(cluster.on_node(Seen::Gone(wire)).is_empty());
    let node = cluster.node().unwrap();
    assert_eq!(node.primary(Family::V4).unwrap().to_string(), "192.0.2.1");
    assert!(node.leaving);
}
