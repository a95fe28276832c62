//! Services of an API server that allocates nothing get their values from service-allocation-controller, and give them
//! back: whoever is killed, wherever, and however many lead at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod orders;
mod stored;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::{Event, Service, ServiceSpec};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use service_allocators::PortSharing;
use service_controllers::allocation::{self, Gauges, Repair, Settings};
use service_controllers::controller::Controller;
use service_controllers::leadership::Leadership;
use service_controllers::readiness::Readiness;
use service_controllers::report::metrics::Metrics;
use service_controllers::report::reconcile::Told;
use service_lab_apiserver::registry::Allocation;
use service_lab_apiserver::server::{LabConfig, Portless};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use stored::{Stored, settled};

/// A server that allocates nothing.
fn lab(cidrs: &[&str], ports: &str) -> Portless {
    let config = LabConfig {
        service_cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        node_ports: ports.parse().unwrap(),
        allocation: Allocation::Reconcile,
        ..LabConfig::local()
    };
    Portless::open(&config).unwrap()
}

fn client(lab: &Portless) -> Client {
    Client::new(lab.trusting(), "default")
}

fn settings() -> Settings {
    Settings {
        controllers: [Controller::Allocation].into(),
        node_ports: "30000-32767".parse().unwrap(),
        sharing: PortSharing::WithinService,
        leadership: Leadership::without_election(),
        kube_api_qps: 0.0,
        kube_api_burst: 0,
        metrics: Metrics::default(),
        readiness: Readiness::default(),
        repair: Repair::default(),
        protect: false,
        gauges: Gauges::default(),
        told: Told::default(),
        failures: Arc::default(),
    }
}

fn lead(client: Client) -> JoinHandle<()> {
    tokio::spawn(allocation::start(client, settings(), CancellationToken::new()))
}

fn service(name: &str, spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn every_kind_of_service_gets_its_values_and_gives_them_back() {
    let lab = lab(&["10.96.0.0/24", "fd00:10:96::/112"], "30000-30019");
    let (client, leader) = (client(&lab), lead(client(&lab)));
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let ports =
        json!([{"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    for (name, spec) in [
        ("plain", json!({"ports": [{"port": 80}]})),
        ("dual", json!({"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"})),
        ("second", json!({"ports": [{"port": 80}], "ipFamilies": ["IPv6"]})),
        ("asks", json!({"ports": [{"port": 80}], "clusterIP": "10.96.0.77"})),
        ("headless", json!({"ports": [{"port": 80}], "clusterIP": "None"})),
        ("external", json!({"type": "ExternalName", "externalName": "example.com"})),
        ("dns", json!({"type": "NodePort", "ports": ports})),
        ("local", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]})),
        (
            "none",
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}),
        ),
    ] {
        services.create(&PostParams::default(), &service(name, &spec)).await.unwrap();
    }
    tokio::time::timeout(
        Duration::from_secs(20),
        until(&services, "local", |s| {
            s.spec.as_ref().unwrap().health_check_node_port.is_some_and(|port| port != 0)
        }),
    )
    .await
    .unwrap();
    let spec = async |name: &str| services.get(name).await.unwrap().spec.unwrap();
    until(&services, "none", |s| s.spec.as_ref().unwrap().cluster_ip.is_some()).await;
    assert_eq!(spec("dual").await.cluster_ips.unwrap().len(), 2);
    assert!(spec("second").await.cluster_ip.unwrap().starts_with("fd00:"));
    assert_eq!(spec("asks").await.cluster_ip.unwrap(), "10.96.0.77");
    let dns = spec("dns").await.ports.unwrap();
    assert_eq!(dns[0].node_port, dns[1].node_port, "one number serves both protocols");
    assert!(spec("none").await.ports.unwrap()[0].node_port.is_none());

    // What an update comes to need, and what it gives up.
    let patch = async |name: &str, spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        services.patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    patch("plain", json!({"type": "NodePort"})).await;
    patch("dual", json!({"ipFamilyPolicy": "SingleStack"})).await;
    patch("local", json!({"type": "ClusterIP", "externalTrafficPolicy": null})).await;
    patch("external", json!({"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}]})).await;
    patch(
        "asks",
        json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null}),
    )
    .await;
    until(&services, "plain", |s| s.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port.is_some())
        .await;
    let stored = settled(&client).await;
    assert!(!stored.addresses.iter().any(|address| address.metadata.name.as_deref() == Some("10.96.0.77")));
    for name in ["plain", "dual", "second", "dns", "local", "none", "external", "asks", "headless"] {
        services.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let left = settled(&client).await;
    assert_eq!((left.addresses.len(), left.ports.len()), (1, 0), "that of default/kubernetes");
    leader.abort();
}

async fn until(services: &Api<Service>, name: &str, there: impl Fn(&Service) -> bool) {
    for _ in 0..2000 {
        if there(&services.get(name).await.unwrap()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{name}: {:#?}", services.get(name).await.unwrap().spec);
}

#[tokio::test]
async fn a_value_that_is_taken_is_refused_at_once() {
    let lab = lab(&["10.96.0.0/28"], "30000-30001");
    let (client, leader) = (client(&lab), lead(client(&lab)));
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let node = |port: i32| json!({"type": "NodePort", "clusterIP": "10.96.0.5", "ports": [{"port": 80, "nodePort": port}]});
    services.create(&PostParams::default(), &service("a", &node(30001))).await.unwrap();
    let error =
        services.create(&PostParams::default(), &service("b", &node(30000))).await.unwrap_err().to_string();
    assert!(error.contains("failed to allocate IP 10.96.0.5: provided IP is already allocated"), "{error}");
    let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
    let error = services.create(&PostParams::default(), &service("b", &port)).await.unwrap_err().to_string();
    assert!(error.contains("provided port is already allocated"), "{error}");
    settled(&client).await;
    leader.abort();
}

#[tokio::test]
async fn who_finds_a_range_full_is_told_which_one_and_served_when_something_comes_free() {
    let lab = lab(&["10.96.0.0/29"], "30000-30001");
    let (client, leader) = (client(&lab), lead(client(&lab)));
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let node = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    services.create(&PostParams::default(), &service("has", &node)).await.unwrap();
    until(&services, "has", |s| s.spec.as_ref().unwrap().ports.as_ref().unwrap()[1].node_port.is_some())
        .await;
    services.create(&PostParams::default(), &service("ports", &node)).await.unwrap();
    let told = async |name: &str| {
        let events = Api::<Event>::all(client.clone());
        for _ in 0..2000 {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let mut of_it = all.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
            if let Some(event) = of_it.next_back() {
                return (event.reason.clone().unwrap(), event.message.clone().unwrap());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nobody tells of {name}");
    };
    let (reason, message) = told("ports").await;
    assert_eq!(reason, "PortRangeFull");
    assert!(message.contains("range is full") && message.contains("30000-30001"), "{message}");
    for name in ["a", "b", "c", "d"] {
        services
            .create(&PostParams::default(), &service(name, &json!({"ports": [{"port": 80}]})))
            .await
            .unwrap();
    }
    for name in ["a", "b", "c", "d"] {
        until(&services, name, |s| s.spec.as_ref().unwrap().cluster_ip.is_some()).await;
    }
    services
        .create(&PostParams::default(), &service("none", &json!({"ports": [{"port": 80}]})))
        .await
        .unwrap();
    let (reason, message) = told("none").await;
    assert_eq!(reason, "ServiceCIDRFull");
    assert!(message.contains("10.96.0.0/29 (ServiceCIDR kubernetes) has 6 of 6"), "{message}");
    services.delete("has", &DeleteParams::default()).await.unwrap();
    services.delete("a", &DeleteParams::default()).await.unwrap();
    settled(&client).await;
    leader.abort();
}

/// Ends its leader at a write: before the server sees it, or before the leader sees the answer.
struct Fuse {
    left: AtomicUsize,
    sent: bool,
    blown: Notify,
}

impl Fuse {
    fn new(writes: usize, sent: bool) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(writes), sent, blown: Notify::new() })
    }

    fn client(self: &Arc<Self>, lab: &Portless) -> Client {
        let (fuse, router) = (Arc::clone(self), lab.trusting());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (fuse, router) = (Arc::clone(&fuse), router.clone());
            async move {
                let writes = request.method() != Method::GET;
                let left =
                    || fuse.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                let last = writes && left().unwrap_or(0) == 0;
                if last && !fuse.sent {
                    fuse.blown.notify_one();
                    std::future::pending::<()>().await;
                }
                let answer = router.oneshot(request).await;
                if last {
                    fuse.blown.notify_one();
                    std::future::pending::<()>().await;
                }
                answer
            }
        });
        Client::new(service, "default")
    }
}

/// One change that a user makes; what is refused is refused.
async fn change(services: &Api<Service>, rng: &mut StdRng) {
    let name = format!("s{}", rng.random_range(0..9));
    let node = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    match rng.random_range(0..6) {
        0 => drop(
            services.create(&PostParams::default(), &service(&name, &json!({"ports": [{"port": 80}]}))).await,
        ),
        1 => drop(services.create(&PostParams::default(), &service(&name, &node)).await),
        2 => drop(services.delete(&name, &DeleteParams::default()).await),
        3 => {
            let ip = format!("10.96.0.{}", rng.random_range(2..15));
            let asks = json!({"clusterIP": ip, "ports": [{"port": 80}]});
            drop(services.create(&PostParams::default(), &service(&name, &asks)).await);
        }
        4 => {
            let patch = Patch::Merge(json!({"spec": {"type": "NodePort"}}));
            drop(services.patch(&name, &PatchParams::default(), &patch).await);
        }
        _ => {
            let patch = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
            drop(services.patch(&name, &PatchParams::default(), &patch).await);
        }
    }
}

/// Whoever reads the Events learns which range was full, or who has what was asked for; nothing else went wrong.
async fn events_are_clear(client: &Client) {
    for event in Api::<Event>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
        let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        let words = match reason.as_str() {
            "ServiceCIDRFull" => "10.96.0.0/28 (ServiceCIDR kubernetes) has",
            "PortRangeFull" => "30000-30019",
            "ClusterIPAlreadyAllocated" | "PortAlreadyAllocated" => "was assigned to Service default/s",
            _ => panic!("{reason}: {message}"),
        };
        assert!(message.contains(words), "{reason}: {message}");
    }
}

/// A hundred takeovers under load. Gives how long the last leader took until nothing contradicted anything, as tokio's
/// clock counts.
async fn takeovers() -> Duration {
    let lab = lab(&["10.96.0.0/28"], "30000-30019");
    let client = client(&lab);
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let stop = CancellationToken::new();
    let (users, ended, mut of_users) = (services.clone(), stop.clone(), StdRng::seed_from_u64(seed ^ 1));
    let load = tokio::spawn(async move {
        while !ended.is_cancelled() {
            change(&users, &mut of_users).await;
            tokio::task::yield_now().await;
        }
    });
    // One leads, and the next one begins before it has ended: the gap of a lease.
    let mut before: Option<JoinHandle<()>> = None;
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let fuse = Fuse::new(rng.random_range(0..12), rng.random());
        let leader = lead(fuse.client(&lab));
        fuse.blown.notified().await;
        if let Some(before) = before.replace(leader) {
            before.abort();
        }
        let stored = Stored::read(&client).await;
        assert_eq!(stored.twice(), [] as [&str; 0]);
        seen.extend(stored.addresses.iter().map(kube::ResourceExt::name_any));
    }
    stop.cancel();
    load.await.unwrap();
    before.unwrap().abort();
    let end = Instant::now();
    let last = lead(client.clone());
    let stored = settled(&client).await;
    let took = end.elapsed();
    events_are_clear(&client).await;
    println!(
        "{} Services at the end, {} addresses in all, settled after {took:?}",
        stored.services.len(),
        seen.len()
    );
    last.abort();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_takeovers_give_no_value_twice_and_leak_none() {
    takeovers().await;
}

/// The clock stands while there is anything to do, so it counts only what the controllers wait by themselves: their
/// back-off and their rests.
#[tokio::test(start_paused = true)]
async fn after_a_hundred_takeovers_no_service_waits_two_seconds_for_its_values() {
    let took = takeovers().await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

/// A life with every kind of write: values are given, changed and given back.
async fn life(services: &Api<Service>) {
    let node = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    let dual = json!({"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"});
    for (name, spec) in [("node", &node), ("dual", &dual), ("gone", &node)] {
        services.create(&PostParams::default(), &service(name, spec)).await.unwrap();
    }
    let has = async |name: &str, there: fn(&ServiceSpec) -> bool| {
        until(services, name, |s| there(s.spec.as_ref().unwrap())).await;
    };
    has("node", |s| s.ports.as_ref().unwrap().iter().all(|port| port.node_port.is_some())).await;
    has("dual", |s| s.cluster_ips.as_ref().is_some_and(|ips| ips.len() == 2)).await;
    has("gone", |s| s.cluster_ip.is_some()).await;
    for (name, spec) in
        [("node", json!({"type": "ClusterIP"})), ("dual", json!({"ipFamilyPolicy": "SingleStack"}))]
    {
        let patch = Patch::Merge(json!({"spec": spec}));
        services.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    services.delete("gone", &DeleteParams::default()).await.unwrap();
}

/// The leader is killed at each of its writes in turn, before the server sees it and before it sees the answer. The next one
/// begins where that one was.
#[tokio::test(start_paused = true)]
async fn whoever_is_killed_between_two_writes_leaves_nothing_that_the_next_one_does_not_mend() {
    let mut writes = 0;
    for sent in [false, true] {
        for at in 0.. {
            let lab = lab(&["10.96.0.0/28", "fd00:10:96::/124"], "30000-30009");
            let client = client(&lab);
            let services: Api<Service> = Api::namespaced(client.clone(), "default");
            let (life, fuse) = (
                {
                    let services = services.clone();
                    tokio::spawn(async move { life(&services).await })
                },
                Fuse::new(at, sent),
            );
            let first = lead(fuse.client(&lab));
            let (mut life, settled_first) = (life, async {
                settled(&client).await;
            });
            let blown = tokio::select! {
                () = fuse.blown.notified() => true,
                lived = &mut life => {
                    lived.unwrap();
                    tokio::select! {
                        () = fuse.blown.notified() => true,
                        () = settled_first => false,
                    }
                }
            };
            first.abort();
            if !blown {
                // All of its writes have had their turn.
                break;
            }
            writes += 1;
            assert_eq!(Stored::read(&client).await.twice(), [] as [&str; 0], "write {at}");
            let next = lead(client.clone());
            if !life.is_finished() {
                life.await.unwrap();
            }
            settled(&client).await;
            next.abort();
        }
    }
    println!("{writes} writes");
    assert!(writes > 20, "{writes}");
}

/// Two lead at once, and neither knows: no value is given twice, none leaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_lead_at_once_give_no_value_twice() {
    let lab = lab(&["10.96.0.0/28"], "30000-30019");
    let client = client(&lab);
    let leaders = [lead(client.clone()), lead(client.clone())];
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    for i in 0..300 {
        change(&services, &mut rng).await;
        if i % 10 == 0 {
            assert_eq!(Stored::read(&client).await.twice(), [] as [&str; 0]);
        }
    }
    settled(&client).await;
    leaders.iter().for_each(JoinHandle::abort);
}
