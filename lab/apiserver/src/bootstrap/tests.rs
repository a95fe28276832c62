//! The cluster's own objects: made, kept, put right, and not written when they are right.

use rstest::rstest;

use super::*;
use crate::registry::testing::{self, Lab};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 10);

fn settings(ranges: &[&str], port: u16) -> Settings {
    Settings {
        service_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        origin: RangeOrigin::Flag,
        node_ports: NodePortRange::default(),
        advertise: SocketAddr::new(ADDRESS.into(), port),
    }
}

fn lab(ranges: &[&str]) -> (Lab, Vec<Notice>) {
    let lab = testing::empty(ranges);
    let notices = run(&lab.store, &lab.registry, &settings(ranges, 6443), Timestamp::UNIX_EPOCH).unwrap();
    (lab, notices)
}

#[rstest]
#[case(&["10.96.0.0/12"], "10.96.0.1")]
#[case(&["fd00:10:96::/112", "10.96.0.0/12"], "fd00:10:96::1")]
#[case(&["10.97.0.0/30"], "10.97.0.1")]
fn the_default_service_has_the_first_address(#[case] ranges: &[&str], #[case] address: &str) {
    let (lab, notices) = lab(ranges);
    assert_eq!(notices, []);
    let service = lab.get("", "services", "default", "kubernetes").unwrap();
    assert_eq!(service["spec"]["clusterIPs"], json!([address]));
    assert_eq!(service["spec"]["ports"][0]["targetPort"], json!(6443));
    let held = lab.get(NETWORKING, "ipaddresses", "", address).unwrap();
    assert_eq!(held["spec"]["parentRef"]["name"], json!("kubernetes"));
    let range = lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap();
    assert_eq!(range["spec"]["cidrs"], json!(ranges));
    assert_eq!(range["metadata"].get("finalizers"), None);
}

#[test]
fn a_restart_writes_nothing() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let before = lab.revision();
    run(&lab.store, &lab.registry, &settings(&["10.96.0.0/12"], 6443), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(lab.revision(), before);
}

#[test]
fn a_restart_on_another_port_moves_the_endpoint() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    run(&lab.store, &lab.registry, &settings(&["10.96.0.0/12"], 7500), Timestamp::UNIX_EPOCH).unwrap();
    let slice = lab.get("discovery.k8s.io", "endpointslices", "default", "kubernetes").unwrap();
    assert_eq!(slice["ports"][0]["port"], json!(7500));
    assert_eq!(slice["metadata"]["generation"], json!(2));
    assert_eq!(
        lab.get("", "endpoints", "default", "kubernetes").unwrap()["subsets"][0]["ports"][0]["port"],
        json!(7500)
    );
}

#[test]
fn another_range_is_told_and_not_taken() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let notices =
        run(&lab.store, &lab.registry, &settings(&["10.200.0.0/16"], 6443), Timestamp::UNIX_EPOCH).unwrap();
    assert!(matches!(&notices[..], [Notice::RangeDiffers(said)] if said.contains("10.96.0.0/12, not")));
    assert_eq!(lab.names("", "events"), ["kubernetes.kubernetesdefaultservicecidrinconsistent"]);
    let before = lab.revision();
    let later = settings(&["10.200.0.0/16"], 6443);
    bring_up(&lab.store, &lab.registry, &later, Occasion::Kept, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(lab.revision(), before, "told once");
    assert_eq!(
        lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap()["spec"]["cidrs"],
        json!(["10.96.0.0/12"])
    );
}

#[rstest]
#[case::asked_for(RangeOrigin::Flag, "--service-cluster-ip-range of this start, 10.200.0.0/16")]
#[case::by_default(RangeOrigin::Default, "10.200.0.0/16, which this server takes where no range is given")]
fn ranges_that_differ_are_told_wherever_somebody_looks(#[case] origin: RangeOrigin, #[case] other: &str) {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let later = Settings { origin, ..settings(&["10.200.0.0/16"], 6443) };
    run(&lab.store, &lab.registry, &later, Timestamp::UNIX_EPOCH).unwrap();
    let range = || lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap();
    let told = &range()["status"]["conditions"][1];
    assert_eq!((&told["type"], &told["status"]), (&json!("Consistent"), &json!("False")));
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(other), "{message}");
    assert_eq!(range()["status"]["conditions"][0]["status"], json!("True"), "addresses can be given");
    let event = "kubernetes.kubernetesdefaultservicecidrinconsistent";
    assert_eq!(lab.get("", "events", "default", event).unwrap()["message"], json!(message));
    let difference = || lab.store.read(|view| view.index().services.difference().map(str::to_owned));
    assert_eq!(difference().as_deref(), Some(message));

    // The next start asks for what is there.
    run(&lab.store, &lab.registry, &settings(&["10.96.0.0/12"], 6443), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(range()["status"]["conditions"].as_array().map(Vec::len), Some(1));
    assert_eq!(difference(), None);
}

#[test]
fn what_is_deleted_comes_back() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    lab.delete(("", "services", "default", "kubernetes"));
    lab.delete((NETWORKING, "servicecidrs", "", "kubernetes"));
    assert_eq!(lab.get("", "endpoints", "default", "kubernetes"), None);
    let settings = settings(&["10.96.0.0/12"], 6443);
    let done = bring_up(&lab.store, &lab.registry, &settings, Occasion::Kept, Timestamp::UNIX_EPOCH);
    assert_eq!(done.unwrap(), []);
    assert!(lab.get(NETWORKING, "servicecidrs", "", "kubernetes").is_some());
    assert_eq!(
        lab.get("", "services", "default", "kubernetes").unwrap()["spec"]["clusterIP"],
        json!("10.96.0.1")
    );
    assert!(lab.get("", "endpoints", "default", "kubernetes").is_some());
}

#[test]
fn a_second_family_is_added() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let both = ["10.96.0.0/12", "fd00:10:96::/112"];
    assert_eq!(run(&lab.store, &lab.registry, &settings(&both, 6443), Timestamp::UNIX_EPOCH).unwrap(), []);
    assert_eq!(lab.get(NETWORKING, "servicecidrs", "", "kubernetes").unwrap()["spec"]["cidrs"], json!(both));
}

fn look_again(lab: &Lab, occasion: Occasion) {
    let settings = settings(&["10.96.0.0/12"], 6443);
    bring_up(&lab.store, &lab.registry, &settings, occasion, Timestamp::UNIX_EPOCH).unwrap();
}

/// Changes an object as a client would, through the verbs' own steps.
fn edit(
    lab: &Lab,
    (group, resource): (&str, &str),
    change: impl FnOnce(&mut Value),
) -> Result<Value, ApiError> {
    lab.update((group, resource, "default", "kubernetes"), Subresource::None, change)
}

const ENDPOINTS: (&str, &str) = ("", "endpoints");
const SLICES: (&str, &str) = ("discovery.k8s.io", "endpointslices");

fn endpoints_of(lab: &Lab) -> (Value, Value) {
    let endpoints = lab.get("", "endpoints", "default", "kubernetes").unwrap()["subsets"].clone();
    let slice = lab.get("discovery.k8s.io", "endpointslices", "default", "kubernetes").unwrap();
    (
        endpoints,
        json!({"endpoints": slice["endpoints"], "ports": slice["ports"], "type": slice["addressType"]}),
    )
}

#[test]
fn the_servers_own_objects_can_be_labelled_and_stay_as_they_are() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    for kind in [ENDPOINTS, SLICES] {
        edit(&lab, kind, |object| object["metadata"]["labels"]["a"] = json!("b")).unwrap();
    }
    let before = lab.revision();
    look_again(&lab, Occasion::Kept);
    look_again(&lab, Occasion::Start);
    assert_eq!(lab.revision(), before, "labels of others are no reason to write");
}

#[test]
fn edited_endpoints_are_put_right() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let right = endpoints_of(&lab);
    edit(&lab, ENDPOINTS, |object| {
        object["subsets"] =
            json!([{"notReadyAddresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "https", "port": 1}]}]);
        object["metadata"]["labels"] = json!({});
    })
    .unwrap();
    edit(&lab, SLICES, |object| {
        object["endpoints"] = json!([]);
        object["metadata"]["labels"] = json!({"mine": "1"});
    })
    .unwrap();
    assert_ne!(endpoints_of(&lab), right);
    // A second server on the store keeps its hands off.
    let before = lab.revision();
    look_again(&lab, Occasion::Beside);
    assert_eq!(lab.revision(), before);
    look_again(&lab, Occasion::Kept);
    assert_eq!(endpoints_of(&lab), right);
    let labels = |(group, resource): (&str, &str)| {
        lab.get(group, resource, "default", "kubernetes").unwrap()["metadata"]["labels"].clone()
    };
    assert_eq!(labels(ENDPOINTS), json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    assert_eq!(labels(SLICES), json!({"kubernetes.io/service-name": "kubernetes", "mine": "1"}));
    let before = lab.revision();
    look_again(&lab, Occasion::Kept);
    assert_eq!(lab.revision(), before);
}

#[test]
fn a_slice_of_the_other_family_is_made_anew() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let mut settings = settings(&["10.96.0.0/12"], 6443);
    settings.advertise = "[fd00:192:168:10::10]:6443".parse().unwrap();
    run(&lab.store, &lab.registry, &settings, Timestamp::UNIX_EPOCH).unwrap();
    let (_, slice) = endpoints_of(&lab);
    assert_eq!(
        (&slice["type"], &slice["endpoints"][0]["addresses"]),
        (&json!("IPv6"), &json!(["fd00:192:168:10::10"]))
    );
}

#[test]
fn an_edited_service_is_put_right_at_the_next_start() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let made = lab.get("", "services", "default", "kubernetes").unwrap();
    edit(&lab, ("", "services"), |object| {
        object["spec"]["type"] = json!("NodePort");
        object["spec"]["ports"][0]["targetPort"] = json!(1);
    })
    .unwrap();
    let before = lab.revision();
    look_again(&lab, Occasion::Kept);
    assert_eq!(lab.revision(), before, "until then it is its editor's");
    look_again(&lab, Occasion::Start);
    assert_eq!(lab.get("", "services", "default", "kubernetes").unwrap()["spec"], made["spec"]);
}

#[rstest]
#[case("", "services", "default", "kubernetes", &[None])]
#[case("", "endpoints", "default", "kubernetes", &[None])]
#[case("discovery.k8s.io", "endpointslices", "default", "kubernetes", &[None])]
#[case("", "namespaces", "", "kube-system", &[None])]
#[case(NETWORKING, "servicecidrs", "", "kubernetes", &[None, Some("status")])]
fn what_the_server_makes_is_noted_as_its_own(
    #[case] group: &str,
    #[case] resource: &str,
    #[case] namespace: &str,
    #[case] name: &str,
    #[case] parts: &[Option<&str>],
) {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let object = lab.get(group, resource, namespace, name).unwrap();
    let managers: Vec<_> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["manager"].as_str(), entry["operation"].as_str(), entry["subresource"].as_str()))
        .collect();
    let expected: Vec<_> = parts.iter().map(|part| (Some("kube-apiserver"), Some("Update"), *part)).collect();
    assert_eq!(managers, expected);
}

#[tokio::test]
async fn an_edit_is_put_right_while_the_server_runs() {
    let (lab, _) = lab(&["10.96.0.0/12"]);
    let api = Arc::new(lab.into_api());
    let closing = CancellationToken::new();
    let settings = settings(&["10.96.0.0/12"], 6443);
    let keeping = tokio::spawn(keep(Arc::clone(&api), settings, Keeper::First, closing.clone()));
    let local = crate::local::Local::new(api, "test");
    let kind = ("", "endpoints");
    let (_, mut watch) = local.list_and_watch(kind).unwrap();
    // The keeper listens from its first turn on; were it later, its next look would find the edit.
    tokio::task::yield_now().await;
    local.update(kind, ("default", "kubernetes"), |object| object["subsets"] = json!([])).unwrap();
    let right = async {
        while local.get(kind, "default", "kubernetes").unwrap().pointer("/subsets/0/addresses").is_none() {
            let _ = watch.next_batch().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), right).await.unwrap();
    closing.cancel();
    keeping.await.unwrap();
}
