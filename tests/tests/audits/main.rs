//! The audits, on a server that checks nothing itself: what is found is told once and put right where nobody loses by it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::api::networking::v1::IPAddress;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use service_allocators::PortSharing;
use service_api::crds::{NodePort, NodePortRange, ServicePool};
use service_controllers::allocation::{self, Gauges, Repair, Settings};
use service_controllers::controller::Controller;
use service_controllers::leadership::Leadership;
use service_controllers::ledger::IN_USE;
use service_controllers::readiness::Readiness;
use service_controllers::report::metrics::Metrics;
use service_controllers::report::reconcile::Told;
use service_lab_apiserver::registry::Allocation;
use service_lab_apiserver::server::{LabConfig, Portless};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

struct Cluster {
    _lab: Portless,
    client: Client,
    services: Api<Service>,
    work: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.work.abort();
    }
}

fn cluster(controllers: &[Controller], repair: Repair) -> Cluster {
    protected(controllers, repair, false)
}

fn protected(controllers: &[Controller], repair: Repair, protect: bool) -> Cluster {
    started(reached, controllers, (repair, protect), Gauges::default())
}

fn reached(lab: &Portless) -> Client {
    Client::new(lab.trusting(), "default")
}

/// Controllers that reach a lab by such a client.
fn started(
    reach: impl FnOnce(&Portless) -> Client,
    controllers: &[Controller],
    (repair, protect): (Repair, bool),
    gauges: Gauges,
) -> Cluster {
    let config = LabConfig {
        service_cidrs: vec!["10.96.0.0/24".parse().unwrap()],
        node_ports: "30000-30019".parse().unwrap(),
        allocation: Allocation::Reconcile,
        ..LabConfig::local()
    };
    let lab = Portless::open(&config).unwrap();
    let client = reach(&lab);
    let settings = Settings {
        controllers: controllers.iter().copied().collect(),
        node_ports: config.node_ports,
        sharing: PortSharing::WithinService,
        leadership: Leadership::without_election(),
        kube_api_qps: 0.0,
        kube_api_burst: 0,
        metrics: Metrics::default(),
        readiness: Readiness::default(),
        repair,
        protect,
        gauges,
        told: Told::default(),
        failures: Arc::default(),
    };
    let work = tokio::spawn(allocation::start(client.clone(), settings, CancellationToken::new()));
    Cluster { services: Api::namespaced(client.clone(), "default"), _lab: lab, client, work }
}

impl Cluster {
    async fn create(&self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.services.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Reasons and objects of all Events, in their order by name.
    async fn events(&self) -> Vec<(String, String)> {
        let all = Api::<Event>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        let of =
            |event: Event| (event.reason.unwrap_or_default(), event.involved_object.name.unwrap_or_default());
        let mut all: Vec<_> = all.items.into_iter().map(of).collect();
        all.sort();
        all
    }

    async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut(&Client) -> Option<T>) -> T {
        for _ in 0..2000 {
            if let Some(found) = look(&self.client).await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{what}: {:?}", self.events().await);
    }

    async fn names<K>(&self) -> Vec<String>
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let all = Api::<K>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        all.items.iter().map(kube::ResourceExt::name_any).collect()
    }
}

fn address(ip: &str) -> Value {
    json!({"type": "ClusterIP", "clusterIP": ip, "ports": [{"port": 80}]})
}

#[tokio::test]
async fn addresses_without_an_entry_get_one_and_that_is_told_once() {
    let cluster = cluster(&[Controller::Addresses], Repair::Safe);
    cluster.create("a", address("10.96.0.5")).await;
    let addresses: Api<IPAddress> = Api::all(cluster.client.clone());
    let there =
        async |client: &Client| Api::<IPAddress>::all(client.clone()).get_opt("10.96.0.5").await.unwrap();
    let made = cluster.until("the entry", there).await;
    assert_eq!(made.spec.parent_ref.name, "a");
    assert_eq!(made.labels()["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    let told = async |_: &Client| {
        cluster.events().await.contains(&("ClusterIPNotAllocated".to_owned(), "a".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    // One that is taken away is there again before anybody else can have it.
    addresses.delete("10.96.0.5", &DeleteParams::default()).await.unwrap();
    cluster.until("the entry again", there).await;
    cluster.services.delete("a", &DeleteParams::default()).await.unwrap();
    let events = cluster.events().await;
    let of_a = events.iter().filter(|(_, name)| name == "a").count();
    assert!((1..=2).contains(&of_a), "{events:?}");
}

/// Somebody deletes the entry of a Service's address and makes one for something else, again and again.
async fn race(cluster: &Cluster, tries: usize) -> usize {
    let addresses: Api<IPAddress> = Api::all(cluster.client.clone());
    let theirs = json!({"metadata": {"name": "10.96.0.5"},
        "spec": {"parentRef": {"group": "example.com", "resource": "gateways", "namespace": "x", "name": "y"}}});
    let theirs: IPAddress = serde_json::from_value(theirs).unwrap();
    let mut won = 0;
    for _ in 0..tries {
        drop(addresses.delete("10.96.0.5", &DeleteParams::default()).await);
        won += usize::from(addresses.create(&PostParams::default(), &theirs).await.is_ok());
        tokio::task::yield_now().await;
    }
    won
}

#[tokio::test]
async fn a_protected_address_is_taken_by_nobody_while_its_service_has_it() {
    let cluster = protected(&[Controller::Addresses], Repair::Safe, true);
    cluster.create("a", address("10.96.0.5")).await;
    let find = async || Api::<IPAddress>::all(cluster.client.clone()).get_opt("10.96.0.5").await.unwrap();
    let guarded = async |_: &Client| find().await.filter(|entry| entry.finalizers() == [IN_USE]);
    let made = cluster.until("the finalizer", guarded).await;
    assert_eq!(race(&cluster, 100).await, 0, "nobody comes in between");
    let there = find().await.unwrap();
    assert_eq!(
        (there.uid(), there.metadata.deletion_timestamp.is_some()),
        (made.uid(), true),
        "it is the same one"
    );
    // It goes with its Service, and the value is free.
    cluster.services.delete("a", &DeleteParams::default()).await.unwrap();
    cluster.until("its end", async |_: &Client| find().await.is_none().then_some(())).await;
    assert_eq!(race(&cluster, 1).await, 1);
}

#[tokio::test]
async fn without_protection_the_finalizer_goes_and_whoever_loses_the_race_is_told() {
    let cluster = cluster(&[Controller::Addresses], Repair::Safe);
    let guarded = json!({"metadata": {"name": "10.96.0.5", "finalizers": [IN_USE, "example.com/other"]},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}});
    let addresses: Api<IPAddress> = Api::all(cluster.client.clone());
    addresses.create(&PostParams::default(), &serde_json::from_value(guarded).unwrap()).await.unwrap();
    cluster.create("a", address("10.96.0.5")).await;
    let off = async |_: &Client| {
        let entry = addresses.get("10.96.0.5").await.unwrap();
        (entry.finalizers() == ["example.com/other"]).then_some(())
    };
    cluster.until("the finalizer to go", off).await;
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    addresses.patch("10.96.0.5", &PatchParams::default(), &none).await.unwrap();
    // Here the API server hands the value to whoever is first: made again at once, or another's, and then that is told.
    if race(&cluster, 20).await == 0 {
        let back = async |_: &Client| addresses.get_opt("10.96.0.5").await.unwrap();
        assert_eq!(cluster.until("the entry", back).await.spec.parent_ref.name, "a");
    } else {
        let told = async |_: &Client| {
            let told = ("ClusterIPAlreadyAllocated".to_owned(), "a".to_owned());
            let back =
                addresses.get_opt("10.96.0.5").await.unwrap().is_some_and(|e| e.spec.parent_ref.name == "a");
            (back || cluster.events().await.contains(&told)).then_some(())
        };
        cluster.until("the Event", told).await;
    }
}

#[tokio::test]
async fn what_only_a_person_can_decide_is_told_and_left() {
    let cluster = cluster(&[Controller::Addresses], Repair::Safe);
    let holder = json!({"metadata": {"name": "10.96.0.9"},
        "spec": {"parentRef": {"group": "example.com", "resource": "gateways", "namespace": "x", "name": "y"}}});
    cluster.create("a", address("10.96.0.9")).await;
    let addresses: Api<IPAddress> = Api::all(cluster.client.clone());
    addresses.create(&PostParams::default(), &serde_json::from_value(holder).unwrap()).await.unwrap();
    let told = async |_: &Client| {
        let events = cluster.events().await;
        events.contains(&("ClusterIPAlreadyAllocated".to_owned(), "a".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    assert_eq!(addresses.get("10.96.0.9").await.unwrap().spec.parent_ref.resource, "gateways");
}

#[tokio::test]
async fn who_only_reports_writes_nothing_else() {
    let cluster = cluster(&[Controller::Addresses, Controller::NodePorts], Repair::Report);
    cluster
        .create(
            "a",
            json!({"type": "NodePort", "clusterIP": "10.96.0.5", "ports": [{"port": 80, "nodePort": 31000}]}),
        )
        .await;
    let told = async |_: &Client| {
        let events = cluster.events().await;
        let of = |reason: &str| events.iter().any(|(r, name)| r == reason && name == "a");
        (of("ClusterIPNotAllocated") && of("PortOutOfRange")).then_some(())
    };
    cluster.until("the Events", told).await;
    assert_eq!(cluster.names::<IPAddress>().await, [] as [&str; 0]);
    assert_eq!(cluster.names::<NodePort>().await, [] as [&str; 0]);
}

#[tokio::test]
async fn the_ledger_of_node_ports_follows_the_services() {
    let cluster = cluster(&[Controller::NodePorts], Repair::Safe);
    let ports = json!([{"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30003}]);
    cluster
        .create(
            "a",
            json!({"type": "LoadBalancer", "clusterIP": "10.96.0.5", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30004, "ports": ports}),
        )
        .await;
    let entry = async |name: &str| Api::<NodePort>::all(cluster.client.clone()).get_opt(name).await.unwrap();
    let port = cluster.until("the entry", async |_: &Client| entry("30003").await).await;
    assert_eq!((port.spec.protocols, port.spec.port_names), (vec!["UDP".to_owned()], vec!["dns".to_owned()]));
    cluster.until("the health check's", async |_: &Client| entry("30004").await).await;
    let renamed =
        json!({"spec": {"ports": [{"name": "d", "port": 53, "protocol": "TCP", "nodePort": 30003}]}});
    cluster.services.patch("a", &PatchParams::default(), &Patch::Merge(renamed)).await.unwrap();
    let follows = async |_: &Client| {
        entry("30003").await.filter(|p| p.spec.port_names == ["d"] && p.spec.protocols == ["TCP"])
    };
    cluster.until("the entry to follow", follows).await;
    Api::<NodePort>::all(cluster.client.clone()).delete("30003", &DeleteParams::default()).await.unwrap();
    cluster.until("the entry again", async |_: &Client| entry("30003").await).await;
    let told = async |_: &Client| {
        let events = cluster.events().await;
        (events == [("PortNotAllocated".to_owned(), "a".to_owned())]).then_some(())
    };
    cluster.until("the Event", told).await;
    cluster.services.delete("a", &DeleteParams::default()).await.unwrap();
    cluster
        .until("the end", async |_: &Client| cluster.names::<NodePort>().await.is_empty().then_some(()))
        .await;
    assert_eq!(cluster.events().await.len(), 1, "the rest is all in order");
}

#[tokio::test]
async fn a_range_stays_while_ports_depend_on_it() {
    let cluster = cluster(&[Controller::PortRanges, Controller::NodePorts], Repair::Safe);
    let ranges: Api<NodePortRange> = Api::all(cluster.client.clone());
    let range = json!({"metadata": {"name": "more"}, "spec": {"firstPort": 31000, "lastPort": 31009}});
    ranges.create(&PostParams::default(), &serde_json::from_value(range).unwrap()).await.unwrap();
    let get = async || ranges.get_opt("more").await.unwrap();
    let said = |range: &NodePortRange| range.status.as_ref().and_then(|s| s.conditions.first().cloned());
    let ready = async |_: &Client| {
        let range = get().await.unwrap();
        let ready = said(&range).is_some_and(|c| c.status == "True");
        (ready && !range.finalizers().is_empty()).then_some(())
    };
    cluster.until("the condition", ready).await;
    cluster
        .create(
            "web",
            json!({"type": "NodePort", "clusterIP": "10.96.0.5", "ports": [{"port": 80, "nodePort": 31004}]}),
        )
        .await;
    let filled = async |_: &Client| {
        get()
            .await
            .unwrap()
            .status
            .and_then(|s| s.ports)
            .filter(|ports| ports.upper.used + ports.lower.used == 1)
    };
    cluster.until("how full it is", filled).await;
    ranges.delete("more", &DeleteParams::default()).await.unwrap();
    let blocked = async |_: &Client| {
        said(&get().await.unwrap()).filter(|c| c.reason == "Terminating").map(|c| c.message)
    };
    let message = cluster.until("who holds it", blocked).await;
    assert!(
        message.contains("There is still 1 node port in the range")
            && message.contains("the first is 31004, of default/web"),
        "{message}"
    );
    let told = async |_: &Client| {
        cluster.events().await.contains(&("NodePortRangeInUse".to_owned(), "more".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    cluster.services.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.until("its end", async |_: &Client| get().await.is_none().then_some(())).await;
}

#[tokio::test]
async fn a_range_that_is_full_says_so_once() {
    let cluster = cluster(&[Controller::PortRanges], Repair::Safe);
    let ranges: Api<NodePortRange> = Api::all(cluster.client.clone());
    for (name, first, role) in [("more", 31000, "Dynamic"), ("fixed", 31010, "StaticOnly")] {
        let range = json!({"metadata": {"name": name},
            "spec": {"firstPort": first, "lastPort": first + 1, "role": role}});
        ranges.create(&PostParams::default(), &serde_json::from_value(range).unwrap()).await.unwrap();
    }
    for (i, port) in [31010, 31011, 31000, 31001].into_iter().enumerate() {
        let spec = json!({"type": "NodePort", "clusterIP": format!("10.96.0.{}", 20 + i),
            "ports": [{"port": 80, "nodePort": port}]});
        cluster.create(&format!("s{i}"), spec).await;
    }
    let told = async |_: &Client| {
        cluster.events().await.contains(&("PortRangeFull".to_owned(), "more".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    let full = async |_: &Client| {
        let ports = ranges.get("more").await.unwrap().status.and_then(|status| status.ports)?;
        (ports.upper.free + ports.lower.free == 0).then_some(())
    };
    cluster.until("the status", full).await;
    assert_eq!(cluster.events().await.len(), 1, "nothing is chosen from a range of static ports");
}

#[tokio::test]
async fn ranges_that_overlap_say_so_and_absurd_ones_are_refused() {
    let cluster = cluster(&[Controller::PortRanges], Repair::Safe);
    let ranges: Api<NodePortRange> = Api::all(cluster.client.clone());
    let range = |name: &str, first: i32, last: i32| -> NodePortRange {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"firstPort": first, "lastPort": last}}),
        )
        .unwrap()
    };
    ranges.create(&PostParams::default(), &range("more", 30010, 30029)).await.unwrap();
    let overlaps = async |_: &Client| {
        let status = ranges.get("more").await.unwrap().status?;
        status.conditions.into_iter().find(|condition| condition.message.contains("it overlaps kubernetes"))
    };
    assert_eq!(cluster.until("that it overlaps", overlaps).await.status, "True");
    for (first, last, field) in [
        (9, 1, "spec.lastPort"),
        (0, 5, "spec.firstPort"),
        (1, 70000, "spec.lastPort"),
        (-4, 4, "spec.firstPort"),
    ] {
        let error = ranges.create(&PostParams::default(), &range("absurd", first, last)).await.unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
}

/// A server without our kinds, until it `has` them.
fn without_our_kinds(lab: &Portless, has: &Arc<AtomicBool>) -> Client {
    let (router, has) = (lab.trusting(), Arc::clone(has));
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let (router, has) = (router.clone(), has.load(Ordering::Relaxed));
        async move {
            if !has && request.uri().path().starts_with("/apis/service-control-plane.io") {
                *request.uri_mut() =
                    http::Uri::from_static("/apis/service-control-plane.example.com/v1/things");
            }
            router.oneshot(request).await
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn without_our_kinds_what_does_not_need_them_works_and_the_rest_when_they_come() {
    let has = Arc::new(AtomicBool::new(false));
    let cluster = started(
        |lab| without_our_kinds(lab, &has),
        &[Controller::Addresses, Controller::NodePorts, Controller::Pools, Controller::PortRanges],
        (Repair::Safe, false),
        Gauges::default(),
    );
    cluster
        .create(
            "a",
            json!({"type": "NodePort", "clusterIP": "10.96.0.5", "ports": [{"port": 80, "nodePort": 31000}]}),
        )
        .await;
    let in_order =
        json!({"type": "NodePort", "clusterIP": "10.96.0.6", "ports": [{"port": 80, "nodePort": 30005}]});
    cluster.create("b", in_order).await;
    let made =
        async |client: &Client| Api::<IPAddress>::all(client.clone()).get_opt("10.96.0.5").await.unwrap();
    cluster.until("the entry", made).await;
    let told = async |_: &Client| {
        cluster.events().await.contains(&("PortOutOfRange".to_owned(), "a".to_owned())).then_some(())
    };
    cluster.until("the Event", told).await;
    // They are installed: what was there before gets its entry, too.
    has.store(true, Ordering::Relaxed);
    cluster
        .until("the NodePorts", async |_: &Client| {
            (cluster.names::<NodePort>().await == ["30005", "31000"]).then_some(())
        })
        .await;
}

/// The text of the Event on an object with this reason.
async fn message(cluster: &Cluster, reason: &str, name: &str) -> String {
    let find = async |client: &Client| {
        let all = Api::<Event>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(name)
        };
        all.items.into_iter().find(is_it)
    };
    cluster.until(reason, find).await.message.unwrap_or_default()
}

#[tokio::test]
async fn a_pool_says_how_full_it_is_and_who_fills_it() {
    let cluster = cluster(&[Controller::Pools], Repair::Safe);
    let pools: Api<ServicePool> = Api::all(cluster.client.clone());
    let pool = json!({"metadata": {"name": "gold"}, "spec": {"addresses": ["10.96.0.128/28"]}});
    pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    let others: Api<Service> = Api::namespaced(cluster.client.clone(), "kube-system");
    let outside = json!({"metadata": {"name": "nowhere"}, "spec": {"addresses": ["10.97.0.0/29"]}});
    pools.create(&PostParams::default(), &serde_json::from_value(outside).unwrap()).await.unwrap();
    let condition = async |name: &str, kind: &str| {
        let status = pools.get(name).await.unwrap().status?;
        status.conditions.into_iter().find(|c| c.type_ == kind)
    };
    let outside =
        async |_: &Client| condition("nowhere", "Ready").await.filter(|c| c.reason == "OutsideOfRanges");
    cluster.until("that it lies outside", outside).await;
    let fill = async |numbers: std::ops::Range<usize>| {
        for i in numbers {
            let services = if i < 3 { &others } else { &cluster.services };
            let object = json!({"metadata": {"name": format!("s{i}")}, "spec": address(&format!("10.96.0.{}", 128 + i))});
            services.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    };
    fill(0..12).await;
    let used = async |_: &Client| {
        let ipv4 = pools.get("gold").await.unwrap().status?.v4?;
        (ipv4.upper.used + ipv4.lower.used == 12).then_some(())
    };
    cluster.until("three quarters", used).await;
    assert_eq!(condition("gold", "Filling").await.unwrap().status, "False");
    for (upto, reason, fills) in [
        (13, "EightyPercentUsed", "13 of 16 ipv4 are used; most by default (10), kube-system (3)"),
        (15, "NinetyPercentUsed", "15 of 16 ipv4 are used; most by default (12), kube-system (3)"),
        (16, "Full", "16 of 16 ipv4 are used; most by default (13), kube-system (3)"),
    ] {
        fill(if upto == 13 {
            12..13
        } else if upto == 15 {
            13..15
        } else {
            15..16
        })
        .await;
        assert_eq!(message(&cluster, reason, "gold").await, fills);
        let said = async |_: &Client| condition("gold", "Filling").await.filter(|c| c.reason == reason);
        let said = cluster.until(reason, said).await;
        assert_eq!((said.status.as_str(), said.message.as_str()), ("True", fills.split(';').next().unwrap()));
    }
    let status = pools.get("gold").await.unwrap().status.unwrap();
    let largest: Vec<(&str, i64)> =
        status.largest_users.iter().map(|user| (user.namespace.as_str(), user.values)).collect();
    assert_eq!(largest, [("default", 13), ("kube-system", 3)]);
    let of_gold = cluster.events().await.iter().filter(|(_, name)| name == "gold").count();
    assert_eq!(of_gold, 3, "each level is told once");
}
