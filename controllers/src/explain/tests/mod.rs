//! What an explanation says is in a slice is in a slice of the plan, with those conditions and hints, and the reverse.

mod selected;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::planned::Planned;
use super::report::others::{
    AddressExplanation, CidrExplanation, NodePortExplanation, PodExplanation, SliceExplanation,
};
use super::report::{EndpointConditions, EndpointHints, PodState, ServiceExplanation, SliceState};
use super::*;
use crate::requests::slices::{self, SliceWrite};

/// A pod of the namespace `n`.
#[derive(Clone, Debug)]
struct PodDraft {
    selected: bool,
    ready: bool,
    terminating: bool,
    finished: bool,
    ips: [bool; 2],
    node: Option<usize>,
    named_port: bool,
}

/// The Service `n/s`, and what is around it.
#[derive(Clone, Debug)]
struct Draft {
    pods: Vec<PodDraft>,
    families: Vec<&'static str>,
    publish: bool,
    by_name: bool,
    hinting: usize,
    max: usize,
    zones: [Option<usize>; 4],
}

fn draft() -> impl Strategy<Value = Draft> {
    let flags =
        (any::<bool>(), prop::bool::weighted(0.7), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    let pod = (flags, any::<[bool; 2]>(), prop::option::of(0..6usize), any::<bool>()).prop_map(
        |((selected, ready, terminating, finished), ips, node, named_port)| PodDraft {
            selected,
            ready,
            terminating,
            finished,
            ips,
            node,
            named_port,
        },
    );
    let families = prop::sample::select(vec![vec!["IPv4"], vec!["IPv6"], vec!["IPv4", "IPv6"]]);
    let zones = prop::array::uniform4(prop::option::weighted(0.9, 0..3usize));
    (
        prop::collection::vec(pod, 0..12),
        families,
        prop::bool::weighted(0.2),
        any::<bool>(),
        0..5usize,
        1..5usize,
        zones,
    )
        .prop_map(|(pods, families, publish, by_name, hinting, max, zones)| Draft {
            pods,
            families,
            publish,
            by_name,
            hinting,
            max,
            zones,
        })
}

impl PodDraft {
    fn json(&self, number: usize) -> Value {
        let ips: Vec<Value> = [format!("10.0.0.{}", number + 1), format!("fd00::{:x}", number + 1)]
            .into_iter()
            .zip(self.ips)
            .filter(|(_, there)| *there)
            .map(|(ip, _)| json!({"ip": ip}))
            .collect();
        let mut pod = json!({
            "metadata": {"name": format!("p{number:02}"), "namespace": "n", "uid": format!("pod-{number}"),
                "labels": {"app": if self.selected { "s" } else { "t" }, "tier": "x"}},
            "spec": {"containers": [{"ports": [{"name": if self.named_port { "http" } else { "other" }, "containerPort": 8080}]}]},
            "status": {"phase": if self.finished { "Failed" } else { "Running" }, "podIPs": ips,
                "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" }}]},
        });
        if let Some(node) = self.node {
            pod["spec"]["nodeName"] = format!("node-{node}").into();
        }
        if self.terminating {
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
        }
        pod
    }
}

impl Draft {
    /// All objects but slices. Nodes 4 and 5, which pods may be bound to, do not exist.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(Subject::Service { namespace: "n".into(), name: "s".into() });
        for (number, zone) in self.zones.iter().enumerate() {
            let labels = zone.map(|zone| json!({"topology.kubernetes.io/zone": format!("z{zone}")}));
            let node = json!({"metadata": {"name": format!("node-{number}"), "labels": labels},
                "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}});
            add(&mut snapshot, Kind::Node, &node);
        }
        add(&mut snapshot, Kind::Service, &self.service());
        for (number, pod) in self.pods.iter().enumerate() {
            add(&mut snapshot, Kind::Pod, &pod.json(number));
        }
        snapshot.know(Kind::Pod);
        snapshot.know(Kind::EndpointSlice);
        snapshot
    }

    fn service(&self) -> Value {
        let distribution = ["PreferSameZone", "PreferSameNode", "PreferClose"].get(self.hinting);
        let mode = (self.hinting == 3).then(|| json!({"service.kubernetes.io/topology-mode": "Auto"}));
        json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "service-uid", "annotations": mode},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": self.families,
                "selector": {"app": "s", "tier": "x"}, "publishNotReadyAddresses": self.publish,
                "trafficDistribution": distribution,
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": if self.by_name { json!("http") } else { json!(8080) }}]},
        })
    }

    fn question(&self) -> Question {
        Question { max_endpoints_per_slice: self.max, ..Question::default() }
    }

    /// The same with the slices that the plan makes, as they are on the wire.
    fn carried_out(&self) -> (Snapshot, Vec<Value>) {
        let mut snapshot = self.snapshot();
        let service = snapshot.index.service("n", "s").unwrap().clone();
        let planned = Planned::of_pods(&snapshot.index, &service, self.max, true);
        let mut written = Vec::new();
        for (number, write) in planned.plan.writes.iter().enumerate() {
            assert!(matches!(write, SliceWrite::Create(_)));
            let request = slices::request(&"n".into(), write).unwrap();
            let mut slice: Value = serde_json::from_slice(&request.body).unwrap();
            slice["metadata"]["name"] = format!("s-{number}").into();
            slice["metadata"]["uid"] = format!("slice-{number}").into();
            slice["metadata"]["resourceVersion"] = "7".into();
            add(&mut snapshot, Kind::EndpointSlice, &slice);
            written.push(slice);
        }
        (snapshot, written)
    }
}

fn add(snapshot: &mut Snapshot, kind: Kind, object: &Value) {
    snapshot.add(kind, &serde_json::to_vec(object).unwrap()).unwrap();
}

fn explained(snapshot: &Snapshot, draft: &Draft) -> ServiceExplanation {
    service(snapshot, "n", "s", &draft.question()).unwrap()
}

/// Slice, conditions and hints of each pod in each family.
type Placed = BTreeMap<(String, String), (String, EndpointConditions, Option<EndpointHints>)>;

fn placed_on_the_wire(slices: &[Value]) -> Placed {
    let mut placed = Placed::new();
    for slice in slices {
        let name = slice["metadata"]["name"].as_str().unwrap();
        for endpoint in slice["endpoints"].as_array().unwrap() {
            let names = |list: &Value| -> Vec<String> {
                let all = list.as_array().into_iter().flatten();
                all.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
            };
            let flag = |name: &str| endpoint["conditions"][name].as_bool();
            let conditions = EndpointConditions {
                ready: flag("ready"),
                serving: flag("serving"),
                terminating: flag("terminating"),
            };
            let hints = endpoint.get("hints").map(|hints| EndpointHints {
                zones: names(&hints["forZones"]),
                nodes: names(&hints["forNodes"]),
            });
            let pod = endpoint["targetRef"]["name"].as_str().unwrap().to_owned();
            let family = slice["addressType"].as_str().unwrap().to_owned();
            assert!(placed.insert((family, pod), (name.to_owned(), conditions, hints)).is_none());
        }
    }
    placed
}

fn placed_as_explained(explanation: &ServiceExplanation) -> Placed {
    let mut placed = Placed::new();
    for pod in &explanation.pods {
        for family in &pod.families {
            assert_eq!(family.slice.is_some(), family.state != PodState::LeftOut, "{pod:?}");
            let (Some(slice), Some(conditions)) = (&family.slice, family.conditions) else { continue };
            assert_eq!(conditions.ready == Some(true), family.state == PodState::Ready, "{pod:?}");
            let key = (family.family.clone(), pod.name.clone());
            placed.insert(key, (slice.clone(), conditions, family.hints.clone()));
        }
    }
    placed
}

proptest! {
    #[test]
    fn what_is_explained_is_what_is_written(draft in draft()) {
        let (snapshot, written) = draft.carried_out();
        let explanation = explained(&snapshot, &draft);
        prop_assert_eq!(placed_as_explained(&explanation), placed_on_the_wire(&written));
        prop_assert_eq!(explanation.slices.len(), written.len());
        prop_assert!(explanation.slices.iter().all(|slice| slice.state == SliceState::Right), "{:?}", explanation.slices);
        prop_assert!(explanation.pods.iter().all(|pod| pod.families.iter().all(|family| family.pending.is_none())));
        let selected = draft.pods.iter().filter(|pod| pod.selected).count();
        prop_assert_eq!((explanation.pods.len(), explanation.counts.selected), (selected, selected));
    }

    #[test]
    fn before_anything_is_written_the_verdicts_are_the_same(draft in draft()) {
        let (before, after) = (explained(&draft.snapshot(), &draft), explained(&draft.carried_out().0, &draft));
        for (before, after) in before.pods.iter().zip(&after.pods) {
            prop_assert_eq!((&before.name, before.state, before.reason), (&after.name, after.state, after.reason));
            for family in &before.families {
                prop_assert_eq!(family.pending.is_some(), family.state != PodState::LeftOut);
            }
        }
        prop_assert!(before.slices.iter().all(|slice| slice.state == SliceState::ToCreate));
    }

    #[test]
    fn each_reason_is_one_that_the_objects_bear_out(draft in draft()) {
        let explanation = explained(&draft.carried_out().0, &draft);
        for pod in &explanation.pods {
            let number: usize = pod.name[1..].parse().unwrap();
            let own = &draft.pods[number];
            let right = match pod.reason {
                Reason::Ready => own.ready && !own.terminating,
                Reason::Published => draft.publish && (!own.ready || own.terminating),
                Reason::ConditionNotTrue => !own.ready && !own.terminating && !draft.publish,
                Reason::Terminating => own.terminating,
                Reason::TerminalPhase => own.finished,
                Reason::NoAddress => own.ips == [false, false],
                Reason::NoAddressOfFamily => own.ips != [true, true],
                Reason::NoNode => own.node.is_none() && !draft.publish,
                Reason::NodeUnknown => own.node.is_some_and(|node| node > 3) && !draft.publish,
                Reason::NamedPortMissing => draft.by_name && !own.named_port,
                _ => false,
            };
            prop_assert!(right, "{:?} of {:?}", pod, own);
        }
    }
}

fn plain(pods: Vec<PodDraft>) -> Draft {
    Draft {
        pods,
        families: vec!["IPv4"],
        publish: false,
        by_name: false,
        hinting: 4,
        max: 100,
        zones: [Some(0); 4],
    }
}

fn good_pod() -> PodDraft {
    PodDraft {
        selected: true,
        ready: true,
        terminating: false,
        finished: false,
        ips: [true, false],
        node: Some(0),
        named_port: true,
    }
}

#[test]
fn a_gate_is_told_from_a_condition() {
    for (condition, gate, reason, said) in [
        ("True", "example.com/lb", Reason::ReadinessGate, "its readiness gate example.com/lb is not True"),
        (
            "False",
            "example.com/lb",
            Reason::ConditionNotTrue,
            "its condition ContainersReady is False (Down: a is down)",
        ),
    ] {
        let mut snapshot = plain(Vec::new()).snapshot();
        let mut pod = PodDraft { ready: false, ..good_pod() }.json(0);
        pod["spec"]["readinessGates"] = json!([{"conditionType": gate}]);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": condition, "reason": "Down", "message": "a is down"}]);
        add(&mut snapshot, Kind::Pod, &pod);
        let explanation = service(&snapshot, "n", "s", &Question::default()).unwrap();
        assert_eq!((explanation.pods[0].reason, explanation.pods[0].message.as_str()), (reason, said));
    }
}

#[test]
fn pods_that_almost_match_are_found() {
    let mut snapshot = plain(Vec::new()).snapshot();
    let mut off = good_pod().json(0);
    off["metadata"]["labels"] = json!({"app": "s", "tier": "y"});
    let mut elsewhere = good_pod().json(1);
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut far = good_pod().json(2);
    far["metadata"]["labels"] = json!({"app": "q"});
    for pod in [&off, &elsewhere, &far] {
        add(&mut snapshot, Kind::Pod, pod);
    }
    let explanation = service(&snapshot, "n", "s", &Question::default()).unwrap();
    let found: Vec<(Reason, &str, usize)> = explanation
        .near_misses
        .iter()
        .map(|near| (near.reason, near.message.as_str(), near.pods.count))
        .collect();
    assert_eq!(
        found,
        [
            (Reason::OneLabelOff, "they have tier=y, and the selector wants tier=x", 1),
            (
                Reason::OtherNamespace,
                "they are in the namespace other: a Service selects in its own alone",
                1
            ),
        ]
    );
    assert_eq!(explanation.findings[0].reason, "NoPods");
}

#[test]
fn of_unknown_nodes_and_slices_it_is_said_so() {
    let draft = plain(vec![good_pod()]);
    let mut snapshot = Snapshot::new(Subject::Service { namespace: "n".into(), name: "s".into() });
    add(&mut snapshot, Kind::Service, &draft.service());
    add(&mut snapshot, Kind::Pod, &draft.pods[0].json(0));
    snapshot.miss(Kind::Node, "nodes is forbidden");
    snapshot.settle();
    let explanation = service(&snapshot, "n", "s", &Question::default()).unwrap();
    assert_eq!(explanation.pods[0].reason, Reason::Ready);
    assert!(explanation.slices.is_empty());
    let unknown: Vec<(&str, &str)> = explanation.unknown.iter().map(|u| (u.kind, u.why.as_str())).collect();
    assert_eq!(unknown[0], ("Node", "nodes is forbidden"));
}

#[test]
fn names_that_do_not_exist_have_near_ones() {
    let mut snapshot = plain(Vec::new()).snapshot();
    for (namespace, name) in [("n", "hello"), ("n", "hello-np"), ("n", "registry"), ("m", "helo")] {
        add(&mut snapshot, Kind::Service, &json!({"metadata": {"name": name, "namespace": namespace}}));
    }
    assert_eq!(near_services(&snapshot, "n", "helo"), ["hello", "m/helo"]);
    assert_eq!(near_services(&snapshot, "n", "zzzzz"), Vec::<String>::new());
}

/// The page has every reason, and the schema beside it is that of the code.
#[test]
fn the_page_and_the_schema_are_current() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = std::fs::read_to_string(docs.join("explain.md")).unwrap();
    for reason in Reason::ALL {
        assert!(page.contains(&format!("| `{reason}` |")), "docs/explain.md lacks {reason}");
    }
    let all = json!({
        "ServiceExplanation": schemars::schema_for!(ServiceExplanation),
        "PodExplanation": schemars::schema_for!(PodExplanation),
        "EndpointSliceExplanation": schemars::schema_for!(SliceExplanation),
        "AddressExplanation": schemars::schema_for!(AddressExplanation),
        "NodePortExplanation": schemars::schema_for!(NodePortExplanation),
        "ServiceCIDRExplanation": schemars::schema_for!(CidrExplanation),
        "Simulation": schemars::schema_for!(crate::simulate::report::Simulation),
    });
    let schema = serde_json::to_string_pretty(&all).unwrap() + "\n";
    let file = docs.join("explain.schema.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == schema,
        "docs/explain.schema.json is not current: UPDATE_DOCS=1 cargo test -p service-controllers explain"
    );
}

/// A snapshot for a question about values, with the Service `n/s` that has 10.96.0.9 and the node port 30080.
fn with_values(subject: Subject) -> Snapshot {
    let mut snapshot = Snapshot::new(subject);
    let mut object = plain(Vec::new()).service();
    object["spec"]["type"] = "NodePort".into();
    object["spec"]["ports"][0]["nodePort"] = 30080.into();
    add(&mut snapshot, Kind::Service, &object);
    let cidr = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/24"]}});
    add(&mut snapshot, Kind::ServiceCidr, &cidr);
    for (ip, holder) in [("10.96.0.9", "s"), ("10.96.0.77", "gone")] {
        let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"});
        let address = json!({"metadata": {"name": ip, "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": holder}}});
        add(&mut snapshot, Kind::IpAddress, &address);
    }
    snapshot
}

#[test]
fn who_has_a_value_and_what_frees_it() {
    use super::report::others::Holding;
    for (ip, holding, words) in [
        (
            "10.96.0.9",
            Holding::Held,
            "it is a cluster IP of Service n/s; in the lower band of ServiceCIDR kubernetes",
        ),
        ("10.96.0.77", Holding::Orphaned, "says that it is taken by services/n/gone, which does not have it"),
        ("10.96.0.50", Holding::Free, "in the upper band of ServiceCIDR kubernetes"),
        ("10.96.0.0", Holding::Unavailable, "it is never given away"),
        ("10.9.9.9", Holding::Unavailable, "in no ServiceCIDR"),
    ] {
        let ip: std::net::IpAddr = ip.parse().unwrap();
        let found = address(&with_values(Subject::Address(ip)), ip);
        assert_eq!(found.holding, holding, "{found:?}");
        assert!(found.message.contains(words), "{found:?}");
    }
    for (port, holding, words) in [
        (30080, Holding::Unrecorded, "it is a node port of Service n/s"),
        (30500, Holding::Free, "no Service has it"),
        (8080, Holding::Unavailable, "in no range of node ports"),
    ] {
        let found = node_port(&with_values(Subject::NodePort(port)), port);
        assert_eq!(found.holding, holding, "{found:?}");
        assert!(found.message.contains(words), "{found:?}");
    }
    let found =
        cidr(&with_values(Subject::Cidr("kubernetes".into())), "kubernetes", &Question::default()).unwrap();
    assert_eq!((found.usable, found.blockers.count), (true, 2));
}

#[test]
fn a_pod_knows_its_services_and_those_that_nearly_are() {
    let mut snapshot = Snapshot::new(Subject::Pod { namespace: "n".into(), name: "p00".into() });
    let draft = plain(vec![PodDraft { ready: false, ..good_pod() }]);
    add(&mut snapshot, Kind::Node, &json!({"metadata": {"name": "node-0"}}));
    add(&mut snapshot, Kind::Service, &draft.service());
    let mut near = draft.service();
    near["metadata"]["name"] = "near".into();
    near["spec"]["selector"] = json!({"app": "s", "tier": "y"});
    add(&mut snapshot, Kind::Service, &near);
    add(&mut snapshot, Kind::Pod, &draft.pods[0].json(0));
    let found = pod(&snapshot, "n", "p00", &Question::default()).unwrap();
    let services: Vec<(&str, Reason)> =
        found.services.iter().map(|of| (of.service.as_str(), of.verdict.reason)).collect();
    assert_eq!(services, [("s", Reason::ConditionNotTrue)]);
    assert_eq!((found.near_services.len(), found.near_services[0].service.as_str()), (1, "near"));
}
