//! A simulation ends where the controllers would: what is planned again after it is nothing.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn add(simulator: &mut Simulator, group: &str, kind: &str, object: &Value) {
    simulator.add(group, kind, &serde_json::to_vec(object).unwrap()).unwrap();
}

fn edits(texts: &[&str]) -> Vec<Edit> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Three nodes in two zones, and six ready pods of a ReplicaSet behind the Service `demo/web`.
fn cluster(what_if: &[&str]) -> Simulator {
    let mut simulator = Simulator::new(edits(what_if), 4);
    for (name, zone) in [("n1", "z1"), ("n2", "z1"), ("n3", "z2")] {
        add(&mut simulator, "", "Node", &stages::node(name, zone, 4000));
    }
    let cidr =
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/20", "fd00:10::/112"]}});
    add(&mut simulator, "networking.k8s.io", "ServiceCIDR", &cidr);
    let web = json!({"metadata": {"name": "web", "namespace": "demo", "uid": "web"}, "spec": {"type": "ClusterIP",
        "clusterIP": "10.96.8.1", "clusterIPs": ["10.96.8.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "selector": {"app": "web"}, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    add(&mut simulator, "", "Service", &web);
    for number in 0..6_usize {
        let mut pod = json!({"metadata": {"namespace": "demo", "labels": {"app": "web"}, "ownerReferences": [
            {"kind": "ReplicaSet", "name": "web", "uid": "rs", "apiVersion": "apps/v1", "controller": true}]}, "spec": {}});
        let node = format!("n{}", number % 3 + 1);
        stages::place(&mut pod, &format!("web-{number}"), &node, number + 100, &[false, true]);
        add(&mut simulator, "", "Pod", &pod);
    }
    simulator
}

/// Writes of each step, as verb and kind.
fn writes(simulation: &Simulation) -> Vec<Vec<(&str, &str)>> {
    let steps = simulation.steps.iter();
    steps.map(|step| step.writes.iter().map(|write| (write.verb, write.kind)).collect()).collect()
}

const SLICE: &str = "EndpointSlice";

#[test]
fn what_is_missing_is_made_and_told_to_every_node() {
    let simulation = cluster(&[]).run(&Asked::default(), &|| {});
    assert_eq!(writes(&simulation), [[("Create", SLICE), ("Create", SLICE), ("Create", "Endpoints")]]);
    let totals = &simulation.steps[0].totals;
    assert_eq!((totals.writes, totals.events_to_nodes), (3, 6));
    assert!(totals.bytes_to_nodes > 0 && simulation.steps[0].writes[0].lines[0].starts_with("+ 100.64.0."));
}

#[rstest]
#[case::field("service.demo/web.trafficDistribution=PreferSameZone", &["Update EndpointSlice, Update EndpointSlice"])]
#[case::external("service.demo/web=external-name:db.example", &["Delete EndpointSlice, Delete EndpointSlice, Delete Endpoints"])]
#[case::dual("service.demo/web=dual-stack", &["Create EndpointSlice, Create EndpointSlice"])]
#[case::drained("node.n3=drained", &[
    "Update EndpointSlice, Update EndpointSlice, Update Endpoints",
    "Update EndpointSlice, Update EndpointSlice, Update Endpoints",
])]
#[case::zone("zone.z3=2", &[""])]
fn an_edit_is_what_it_costs(#[case] edit: &str, #[case] expected: &[&str]) {
    let simulation = cluster(&[edit]).run(&Asked::default(), &|| {});
    let said = |step: &Vec<(&str, &str)>| {
        let writes: Vec<String> = step.iter().map(|(verb, kind)| format!("{verb} {kind}")).collect();
        writes.join(", ")
    };
    let after: Vec<String> = writes(&simulation)[1..].iter().map(said).collect();
    assert_eq!(after, expected, "{simulation:#?}");
}

#[test]
fn a_smaller_range_says_who_is_left_out() {
    let simulation = cluster(&["servicecidr.kubernetes=10.96.0.0/24"]).run(&Asked::default(), &|| {});
    assert_eq!(simulation.steps[1].notes, ["1 values would be in no range: demo/web (10.96.8.1)"]);
}

#[test]
fn an_edit_that_cannot_be_is_said_and_the_others_go_on() {
    let simulation = cluster(&[
        "node.n9=drained",
        "service.demo/none=dual-stack",
        "service.demo/web.spec.type=Odd",
        "zone.z3=1",
    ])
    .run(&Asked::default(), &|| {});
    let said: Vec<&str> = simulation.steps[1..4].iter().map(|step| step.notes[0].as_str()).collect();
    assert_eq!(said[..2], ["there is no Node n9", "there is no Service demo/none"]);
    assert!(said[2].contains("would be refused"), "{said:?}");
    assert_eq!(simulation.steps[4].name, "zone z3 with 1 nodes");
}

#[test]
fn manifests_get_values_and_pods() {
    let mut simulator = Simulator::new(Vec::new(), 100);
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}});
    add(&mut simulator, "", "Service", &service);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 5, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    add(&mut simulator, "apps", "Deployment", &deployment);
    let simulation = simulator.run(&Asked::default(), &|| {});
    let kinds: Vec<&str> = simulation.steps[0].writes.iter().map(|write| write.kind).collect();
    assert_eq!(kinds, ["IPAddress", "NodePort", SLICE, "Endpoints"]);
    assert_eq!(simulation.steps[0].writes[2].lines.len(), 5);
    assert!(simulation.steps[0].notes.iter().any(|note| note.contains("5 ready ones are made up for web")));
}

#[test]
fn what_was_carried_out_is_right() {
    let mut simulator =
        cluster(&["node.n1=drained", "service.demo/web=dual-stack", "max-endpoints-per-slice=2"]);
    let again = simulator.world.step("once".to_owned(), Vec::new(), &|| {});
    assert_eq!(again.writes.len(), 3);
    let edits = std::mem::take(&mut simulator.edits);
    for edit in &edits {
        for (name, changes) in stages::stages(edit, &simulator.world, &simulator.kept).unwrap() {
            simulator.world.step(name, changes, &|| {});
            let again = simulator.world.step("again".to_owned(), Vec::new(), &|| {});
            assert_eq!(again.writes, [], "{edit:?}");
        }
    }
}

#[test]
fn writes_are_shown_for_the_services_that_are_asked_for() {
    let of = |namespace: Option<&str>, selector: Option<&str>| {
        let asked = Asked {
            namespace: namespace.map(ToOwned::to_owned),
            selector: selector.map(|text| Selector::parse(text).unwrap()),
        };
        let mut simulator = cluster(&[]);
        let other = json!({"metadata": {"name": "other", "namespace": "demo", "uid": "o", "labels": {"tier": "db"}}, "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.8.2", "clusterIPs": ["10.96.8.2"], "ipFamilies": ["IPv4"],
            "selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP"}]}});
        add(&mut simulator, "", "Service", &other);
        let simulation = simulator.run(&asked, &|| {});
        simulation.steps[0].totals.writes
    };
    assert_eq!(of(None, None), 6);
    assert_eq!(of(Some("demo"), None), 6);
    assert_eq!(of(Some("shop"), None), 0);
    assert_eq!(of(None, Some("tier=db")), 3);
    assert_eq!(of(Some("demo"), Some("tier!=db")), 3);
    assert_eq!(of(Some("shop"), Some("tier=db")), 0);
}
