//! What is asked for by labels, and what is known of who changed what.

use serde_json::{Value, json};

use super::*;

/// What is asked for by labels is explained as what is asked for by its name, in whatever order objects come.
#[test]
fn what_labels_select_is_explained_as_by_its_name() {
    let managed = |object: &Value, manager: &str, time: &str| {
        let mut object = object.clone();
        object["metadata"]["managedFields"] =
            json!([{"manager": manager, "operation": "Update", "time": time}]);
        object
    };
    let draft = plain(vec![good_pod(), PodDraft { ready: false, ..good_pod() }]);
    let (_, slices) = draft.carried_out();
    let mut objects = vec![
        (Kind::Node, json!({"metadata": {"name": "node-0"}})),
        (Kind::Event, event("Service", "s", "Mended")),
        (Kind::Event, event("Service", "t", "Broken")),
        (Kind::Event, event("Pod", "p01", "Unhealthy")),
    ];
    for name in ["s", "t", "u"] {
        let mut object = draft.service();
        object["metadata"]["name"] = name.into();
        object["metadata"]["labels"] = json!({"team": if name == "u" { "b" } else { "a" }});
        objects.push((Kind::Service, managed(&object, name, "2026-01-01T00:00:00Z")));
    }
    let slices =
        slices.iter().map(|slice| (Kind::EndpointSlice, managed(slice, "slicer", "2026-01-02T00:00:00Z")));
    objects.extend(slices);
    let pods = draft.pods.iter().enumerate();
    objects
        .extend(pods.map(|(n, pod)| (Kind::Pod, managed(&pod.json(n), "kubelet", "2026-01-03T00:00:00Z"))));
    let snapshot = |subject: Subject, reversed: bool| {
        let mut snapshot = Snapshot::new(subject);
        let mut objects: Vec<_> = objects.iter().collect();
        if reversed {
            objects.reverse();
        }
        for (kind, object) in objects {
            add(&mut snapshot, *kind, object);
        }
        snapshot
    };
    let selected = |kind, selector: &str, reversed| {
        let selector = service_api::labels::Selector::parse(selector).unwrap();
        snapshot(Subject::Selected { kind, namespace: "n".into(), selector }, reversed)
    };
    let question = Question::default();
    let text = |explanation: Option<Value>| serde_json::to_string_pretty(&explanation.unwrap()).unwrap();
    for reversed in [false, true] {
        let all = selected(Kind::Service, "team=a", reversed);
        assert_eq!(all.selected(), ["s", "t"]);
        for name in ["s", "t"] {
            let one = snapshot(Subject::Service { namespace: "n".into(), name: name.into() }, false);
            let of = |from: &Snapshot| text(service(from, "n", name, &question).map(|e| json!(e)));
            assert_eq!(of(&all), of(&one));
        }
        let all = selected(Kind::Pod, "app=s,tier in (x, y)", reversed);
        assert_eq!(all.selected(), ["p00", "p01"]);
        for name in ["p00", "p01"] {
            let one = snapshot(Subject::Pod { namespace: "n".into(), name: name.into() }, false);
            let of = |from: &Snapshot| text(pod(from, "n", name, &question).map(|e| json!(e)));
            assert_eq!(of(&all), of(&one));
        }
        assert!(selected(Kind::Service, "team=c", reversed).selected().is_empty());
        assert!(selected(Kind::Pod, "app!=s", reversed).selected().is_empty());
    }
}

fn event(kind: &str, name: &str, reason: &str) -> Value {
    json!({"metadata": {"name": reason, "namespace": "n"}, "reason": reason, "message": "", "type": "Warning",
        "lastTimestamp": "2026-01-04T00:00:00Z", "involvedObject": {"kind": kind, "namespace": "n", "name": name}})
}

#[test]
fn the_history_of_a_value_is_that_of_who_has_it_too() {
    let mut holder = plain(Vec::new()).service();
    holder["spec"]["ports"][0]["nodePort"] = 30080.into();
    holder["metadata"]["managedFields"] =
        json!([{"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]);
    let mut other = holder.clone();
    other["metadata"]["name"] = "other".into();
    other["spec"]["clusterIPs"] = json!(["10.96.0.10"]);
    other["spec"]["clusterIP"] = "10.96.0.10".into();
    other["spec"]["ports"][0]["nodePort"] = 30081.into();
    let changed =
        |changes: Vec<report::Change>| changes.into_iter().map(|change| change.object).collect::<Vec<_>>();
    let ip: std::net::IpAddr = "10.96.0.9".parse().unwrap();
    let mut snapshot = Snapshot::new(Subject::Address(ip));
    for object in [&holder, &other] {
        add(&mut snapshot, Kind::Service, object);
    }
    assert_eq!(changed(address(&snapshot, ip).changes), ["Service n/s"]);
    let mut snapshot = Snapshot::new(Subject::NodePort(30080));
    for object in [&holder, &other] {
        add(&mut snapshot, Kind::Service, object);
    }
    assert_eq!(changed(node_port(&snapshot, 30080).changes), ["Service n/s"]);
}

/// What a server does not say of who changed an object is not left out by kubectl.
#[test]
fn a_dump_without_field_managers_says_so_and_a_server_does_not() {
    let unknown = |mut snapshot: Snapshot| {
        let object = json!({"metadata": {"name": "30080", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}, "protocols": ["TCP"]}});
        add(&mut snapshot, Kind::NodePort, &object);
        node_port(&snapshot, 30080).unknown.iter().map(|unknown| unknown.kind).collect::<Vec<_>>()
    };
    assert_eq!(unknown(Snapshot::new(Subject::NodePort(30080))), ["managedFields"]);
    assert_eq!(unknown(Snapshot::of_server(Subject::NodePort(30080))), Vec::<&str>::new());
}
