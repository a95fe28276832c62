//! What must hold for every Service: defaulting settles, an object that was accepted is accepted
//! again, and a request that is sent twice changes nothing.
#![allow(missing_docs, clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::option;
use proptest::prelude::*;
use service_api::service;

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(values).prop_map(str::to_owned)
}

/// Ports with unlike names and numbers; without node ports.
fn some_ports() -> impl Strategy<Value = Vec<ServicePort>> {
    (1..4usize, any::<bool>(), any::<[bool; 3]>()).prop_map(|(count, named, udp)| {
        (0..count)
            .map(|i| ServicePort {
                name: (named || count > 1).then(|| format!("p{i}")),
                port: 80 + i32::try_from(i).unwrap(),
                protocol: udp[i].then(|| "UDP".to_owned()),
                ..ServicePort::default()
            })
            .collect()
    })
}

/// A request that breaks no rule.
fn good_request() -> impl Strategy<Value = Service> {
    (
        one_of(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "headless"]),
        some_ports(),
        option::of(one_of(&["Cluster", "Local"])),
        option::of(one_of(&["None", "ClientIP"])),
        option::of(one_of(&["PreferSameZone", "PreferSameNode"])),
        option::of(any::<bool>()),
    )
        .prop_map(|(kind, ports, policy, affinity, distribution, allocate)| {
            let headless = kind == "headless";
            let is = |name: &str| kind == name;
            let load_balancer = is("LoadBalancer");
            let spec = ServiceSpec {
                type_: Some(if headless { "ClusterIP".to_owned() } else { kind.clone() }),
                cluster_ip: headless.then(|| "None".to_owned()),
                external_name: is("ExternalName").then(|| "a.example.com".to_owned()),
                external_traffic_policy: policy.filter(|_| load_balancer || is("NodePort")),
                allocate_load_balancer_node_ports: allocate.filter(|_| load_balancer),
                session_affinity: affinity,
                traffic_distribution: distribution,
                ports: Some(ports),
                ..ServiceSpec::default()
            };
            Service {
                metadata: ObjectMeta {
                    name: Some("web".to_owned()),
                    namespace: Some("shop".to_owned()),
                    resource_version: Some("1".to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(spec),
                status: None,
            }
        })
}

/// Fills in what the planner would choose, without a choice.
fn plan(service: &mut Service) {
    let spec = service.spec.as_mut().unwrap();
    if service::needs_cluster_ip(spec) {
        spec.cluster_ip.get_or_insert_with(|| "10.96.0.10".to_owned());
        let ip = spec.cluster_ip.clone().unwrap();
        spec.cluster_ips.get_or_insert_with(|| vec![ip]);
        spec.ip_families.get_or_insert_with(|| vec!["IPv4".to_owned()]);
        spec.ip_family_policy.get_or_insert_with(|| "SingleStack".to_owned());
    }
    if service::needs_node_port(spec) && spec.allocate_load_balancer_node_ports != Some(false) {
        for port in spec.ports.iter_mut().flatten() {
            port.node_port.get_or_insert(30_000 + port.port);
        }
    }
    if service::needs_health_check(spec) {
        spec.health_check_node_port.get_or_insert(32_000);
    }
}

fn create(request: &Service) -> Service {
    let mut service = request.clone();
    service::default(&mut service);
    service::prepare_create(&mut service);
    plan(&mut service);
    service
}

fn update(request: &Service, old: &Service) -> Service {
    let mut service = request.clone();
    service::default(&mut service);
    service::prepare_update(&mut service, old);
    plan(&mut service);
    service
}

proptest! {
    #[test]
    fn defaulting_settles(request in good_request()) {
        let mut once = request;
        service::default(&mut once);
        let mut twice = once.clone();
        service::default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_good_request_passes_and_may_be_sent_again(request in good_request()) {
        let stored = create(&request);
        prop_assert_eq!(service::validate_create(&stored), vec![]);
        let again = update(&request, &stored);
        prop_assert_eq!(service::validate_update(&again, &stored), vec![]);
        prop_assert_eq!(again, stored);
    }

    #[test]
    fn what_was_read_can_be_written_back(request in good_request()) {
        let stored = create(&request);
        let text = serde_json::to_string(&stored).unwrap();
        let read: Service = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(update(&read, &stored), stored);
    }

    #[test]
    fn any_type_may_follow_any_other(from in good_request(), to in good_request()) {
        let stored = create(&from);
        let headless = service::is_headless(service::spec_of(&stored));
        let wants = service::cluster_ip(service::spec_of(&to)) == "None";
        let external = |s: &Service| !service::needs_cluster_ip(service::spec_of(s));
        // Only a detour over ExternalName makes a Service headless, or ends that.
        prop_assume!(headless == wants || external(&stored) || external(&to));
        let new = update(&to, &stored);
        prop_assert_eq!(service::validate_update(&new, &stored), vec![]);
        let spec = service::spec_of(&new);
        if external(&new) {
            prop_assert!(service::cluster_ips(spec).is_empty());
        }
        if !service::needs_node_port(spec) {
            prop_assert!(service::ports(spec).iter().all(|p| p.node_port.is_none()));
        }
        prop_assert!(service::needs_health_check(spec) || spec.health_check_node_port.is_none());
    }
}
