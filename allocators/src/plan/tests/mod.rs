//! Whole plans: what each kind of Service takes, keeps and gives back, and what it is told.
#![allow(unused_must_use, reason = "the cluster below has committed every plan that it returns")]
#![allow(clippy::needless_pass_by_value, reason = "JSON literals read best as plain arguments")]

mod missing;
mod model;
mod nodeports;

use k8s_openapi::api::core::v1::ServiceSpec;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rstest::rstest;
use serde_json::{Value, json};
use service_api::service::cluster_ips;

use super::*;
use crate::ip::RangeState;
use crate::port::PortSharing;
use crate::prefix::{Family, ServicePrefix};

/// A ledger and its Services, driven as a server would.
struct Cluster {
    ledger: Ledger,
    services: BTreeMap<String, Service>,
    rng: StdRng,
}

impl Cluster {
    fn new(cidrs: &[&str], ports: &str) -> Self {
        Self::with(cidrs, PortLedger::new(ports.parse().unwrap(), PortSharing::WithinService))
    }

    fn with(cidrs: &[&str], ports: PortLedger) -> Self {
        let nets: Vec<ipnet::IpNet> = cidrs.iter().map(|c| c.parse().unwrap()).collect();
        let primary = Family::of(nets[0].addr());
        let families =
            if nets.len() == 2 { ClusterFamilies::dual(primary) } else { ClusterFamilies::single(primary) };
        let mut ledger = Ledger::new(families, ports);
        ledger.addresses.set_range("kubernetes", &nets, RangeState::Ready).unwrap();
        Self { ledger, services: BTreeMap::new(), rng: StdRng::seed_from_u64(11) }
    }

    fn create(&mut self, name: &str, spec: Value) -> Result<Plan, PlanError> {
        let mut service = service(name, spec);
        let plan = self.ledger.plan_create(&mut service, &mut self.rng, PlanOptions::default())?;
        self.ledger.commit(&plan);
        self.services.insert(name.to_owned(), service);
        Ok(plan)
    }

    /// Replaces fields of the stored spec.
    fn change(&mut self, name: &str, change: Value) -> Result<Plan, PlanError> {
        let old = self.services[name].clone();
        let mut spec = serde_json::to_value(old.spec.as_ref().unwrap()).unwrap();
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let mut new = service(name, spec);
        let plan = self.ledger.plan_update(&old, &mut new, &mut self.rng, PlanOptions::default())?;
        self.ledger.commit(&plan);
        self.services.insert(name.to_owned(), new);
        Ok(plan)
    }

    fn delete(&mut self, name: &str) -> Plan {
        let plan = self.ledger.plan_delete(&self.services.remove(name).unwrap());
        self.ledger.commit(&plan);
        plan
    }

    fn ips(&self, name: &str) -> Vec<IpAddr> {
        let spec = self.services[name].spec.as_ref().unwrap();
        assert_eq!(spec.cluster_ip.as_ref(), cluster_ips(spec).first());
        cluster_ips(spec).iter().map(|ip| ip.parse().unwrap()).collect()
    }

    fn node_ports(&self, name: &str) -> Vec<i32> {
        let ports = self.services[name].spec.as_ref().unwrap().ports.iter().flatten();
        ports.map(|p| p.node_port.unwrap_or(0)).collect()
    }

    fn health_port(&self, name: &str) -> i32 {
        self.services[name].spec.as_ref().unwrap().health_check_node_port.unwrap_or(0)
    }

    fn allocated(&self) -> (u64, u64) {
        (self.ledger.addresses.usage().map(|u| u.allocated).sum(), self.ledger.ports.allocated())
    }
}

fn service(name: &str, spec: Value) -> Service {
    let mut value = spec;
    if value["clusterIPs"].is_null() && value["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty()) {
        value["clusterIPs"] = json!([value["clusterIP"]]);
    }
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": value}))
        .unwrap()
}

fn dual() -> Cluster {
    Cluster::new(&["10.96.0.0/24", "fd00:10:96::/112"], "30000-32767")
}

fn single() -> Cluster {
    Cluster::new(&["10.96.0.0/24"], "30000-32767")
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[rstest]
#[case(json!({}), 1)]
#[case(json!({"clusterIP": ""}), 1)]
#[case(json!({"clusterIPs": []}), 1)]
#[case(json!({"ipFamilyPolicy": "RequireDualStack"}), 2)]
#[case(json!({"clusterIP": "None"}), 0)]
#[case(json!({"clusterIP": "None", "selector": {"a": "b"}}), 0)]
#[case(json!({"type": "ExternalName", "externalName": "x.y"}), 0)]
fn addresses_of_a_create(#[case] spec: Value, #[case] expected: usize) {
    let mut cluster = dual();
    let plan = cluster.create("a", spec).unwrap();
    assert_eq!(plan.take_addresses.len(), expected);
    if expected > 0 {
        assert_eq!(plan.take_addresses, cluster.ips("a"));
    }
    assert_eq!(cluster.allocated(), (expected as u64, 0));
    let back = cluster.delete("a");
    assert_eq!(back.release_addresses, plan.take_addresses);
    assert_eq!(cluster.allocated(), (0, 0));
}

#[test]
fn explicit_addresses_in_both_orders() {
    let mut cluster = dual();
    let both =
        |a: &str, b: &str| json!({"clusterIP": a, "clusterIPs": [a, b], "ipFamilyPolicy": "PreferDualStack"});
    cluster.create("a", both("10.96.0.10", "fd00:10:96::10")).unwrap();
    assert_eq!(cluster.ips("a"), [ip("10.96.0.10"), ip("fd00:10:96::10")]);
    cluster.create("b", both("fd00:10:96::11", "10.96.0.11")).unwrap();
    cluster
        .create("c", json!({"clusterIP": "fd00:10:96::12", "ipFamilyPolicy": "RequireDualStack"}))
        .unwrap();
    assert_eq!(cluster.ips("c")[0], ip("fd00:10:96::12"));
    assert!(cluster.ips("c")[1].is_ipv4());
    assert_eq!(cluster.allocated().0, 6);
}

/// Report P01: the address at fault is blamed, and the good one is not kept.
#[rstest]
#[case(&["10.96.0.11", "fd00::b"], "fd00::b", "the provided network does not match the current range")]
#[case(&["fd00::b", "10.96.0.11"], "fd00::b", "the provided network does not match the current range")]
#[case(&["10.96.0.11", "fd00:10:96::b"], "fd00:10:96::b", "provided IP is already allocated")]
#[case(&["10.96.0.5", "fd00:10:96::c"], "10.96.0.5", "provided IP is already allocated")]
fn a_refused_pair_keeps_nothing(#[case] ips: &[&str], #[case] blamed: &str, #[case] why: &str) {
    let mut cluster = dual();
    let taken = json!({
        "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00:10:96::b"], "ipFamilyPolicy": "RequireDualStack",
    });
    cluster.create("owner", taken).unwrap();
    let bad = json!({"clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": "RequireDualStack"});
    let list = format!("[\"{}\",\"{}\"]", ips[0], ips[1]);
    for _ in 0..3 {
        let before = cluster.allocated();
        let error = cluster.create("bad", bad.clone()).unwrap_err();
        let expected =
            format!("spec.clusterIPs: Invalid value: {list}: failed to allocate IP {blamed}: {why}");
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, PlanError::Invalid(_)));
        assert_eq!(cluster.allocated(), before);
    }
    cluster.delete("owner");
    let good = json!({
        "clusterIP": "10.96.0.11", "clusterIPs": ["10.96.0.11", "fd00:10:96::b"], "ipFamilyPolicy": "RequireDualStack",
    });
    cluster.create("bad", good).unwrap();
}

#[test]
fn a_refused_upgrade_leaves_the_first_address() {
    let mut cluster = dual();
    cluster.create("a", json!({"clusterIP": "10.96.0.11"})).unwrap();
    let change = json!({"clusterIPs": ["10.96.0.11", "fd00::b"], "ipFamilyPolicy": "RequireDualStack"});
    let error = cluster.change("a", change).unwrap_err().to_string();
    assert!(error.contains("failed to allocate IP fd00::b"), "{error}");
    assert_eq!(cluster.ips("a"), [ip("10.96.0.11")]);
    assert_eq!(cluster.allocated().0, 1);
}

/// An address that is asked for is refused before a range that is full for the other one.
#[test]
fn the_useful_refusal_comes_first() {
    let mut cluster = Cluster::new(&["10.96.0.0/30", "fd00::/126"], "30000-32767");
    for name in ["a", "b"] {
        cluster.create(name, json!({})).unwrap();
    }
    let asked =
        json!({"clusterIPs": ["fd00::9"], "clusterIP": "fd00::9", "ipFamilyPolicy": "RequireDualStack"});
    assert_eq!(
        cluster.create("c", asked).unwrap_err().to_string(),
        "spec.clusterIPs: Invalid value: [\"fd00::9\",\"\"]: failed to allocate IP fd00::9: \
         the provided network does not match the current range"
    );
}

#[test]
fn a_full_range_is_not_the_users_mistake() {
    let mut cluster = Cluster::new(&["10.20.0.0/30", "fd00::/112"], "30000-32767");
    cluster.create("a", json!({})).unwrap();
    cluster.create("b", json!({})).unwrap();
    for policy in ["SingleStack", "PreferDualStack", "RequireDualStack"] {
        let error = cluster.create("full", json!({"ipFamilyPolicy": policy})).unwrap_err();
        let text = "failed to allocate a serviceIP for Service \"full\": range is full: 10.20.0.0/30 (ServiceCIDR \
                    kubernetes) has 2 of 2 addresses taken; other ranges: fd00::/112 (ServiceCIDR kubernetes) has 0 of \
                    65535 addresses taken; a further ServiceCIDR adds addresses";
        assert_eq!(error, PlanError::Internal(text.to_owned()));
        assert_eq!(cluster.allocated(), (2, 0));
    }
    cluster.create("six", json!({"ipFamilies": ["IPv6"]})).unwrap();
}

#[test]
fn stacks_are_added_and_given_back() {
    let mut cluster = dual();
    cluster.create("a", json!({"clusterIP": "10.96.0.10"})).unwrap();
    let up = cluster.change("a", json!({"ipFamilyPolicy": "PreferDualStack"})).unwrap();
    assert_eq!(cluster.ips("a"), [ip("10.96.0.10"), up.take_addresses[0]]);
    assert_eq!(cluster.allocated().0, 2);
    let down = cluster.change("a", json!({"ipFamilyPolicy": "SingleStack"})).unwrap();
    assert_eq!(down.release_addresses, up.take_addresses);
    assert_eq!(cluster.ips("a"), [ip("10.96.0.10")]);
    let chosen =
        json!({"clusterIPs": ["10.96.0.10", "fd00:10:96::10"], "ipFamilyPolicy": "RequireDualStack"});
    let up = cluster.change("a", chosen).unwrap();
    assert_eq!(up.take_addresses, [ip("fd00:10:96::10")]);
    assert!(cluster.change("a", json!({"selector": {"x": "y"}})).unwrap().is_empty());
}

#[test]
fn types_come_and_go() {
    let mut cluster = dual();
    cluster
        .create("a", json!({"clusterIP": "10.96.0.10", "type": "ClusterIP", "ports": [{"port": 80}]}))
        .unwrap();
    let wiped = json!({
        "type": "ExternalName", "externalName": "x.y", "clusterIP": null, "clusterIPs": null,
        "ipFamilies": null, "ipFamilyPolicy": null,
    });
    let gone = cluster.change("a", wiped.clone()).unwrap();
    assert_eq!(gone.release_addresses, [ip("10.96.0.10")]);
    assert_eq!(cluster.allocated(), (0, 0));
    let back = cluster.change("a", json!({"type": "NodePort"})).unwrap();
    assert_eq!((back.take_addresses.len(), back.take_ports.len()), (1, 1));
    let gone = cluster.change("a", wiped).unwrap();
    assert_eq!((gone.release_addresses, gone.release_ports.len()), (back.take_addresses, 1));
    assert_eq!(cluster.allocated(), (0, 0));
}

#[test]
fn a_headless_service_moves_nothing() {
    let mut cluster = dual();
    cluster.create("h", json!({"clusterIP": "None", "selector": {"a": "b"}})).unwrap();
    for policy in ["RequireDualStack", "SingleStack"] {
        assert!(cluster.change("h", json!({"ipFamilyPolicy": policy})).unwrap().is_empty());
    }
    assert!(cluster.delete("h").is_empty());
}

#[test]
fn an_address_of_a_range_that_is_gone_is_given_back() {
    let mut cluster = single();
    let extra = ["10.200.0.0/24".parse().unwrap()];
    cluster.ledger.addresses.set_range("extra", &extra, RangeState::Ready).unwrap();
    cluster.create("a", json!({"clusterIP": "10.200.0.5"})).unwrap();
    cluster.ledger.addresses.remove_range("extra");
    assert!(cluster.change("a", json!({"selector": {"x": "y"}})).unwrap().is_empty());
    let error = cluster.create("b", json!({"clusterIP": "10.200.0.6"})).unwrap_err().to_string();
    assert!(error.ends_with("the provided network does not match the current range"), "{error}");
    assert_eq!(cluster.delete("a").release_addresses, [ip("10.200.0.5")]);
    assert!(!cluster.ledger.addresses.contains(ip("10.200.0.5")));
}

#[test]
fn dry_runs_show_placeholders_and_plan_nothing() {
    let mut cluster = dual();
    cluster.create("a", json!({"clusterIP": "10.96.0.10", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]})).unwrap();
    let mut dry = |spec: Value| {
        let mut service = service("d", spec);
        let options = PlanOptions { dry_run: true };
        let plan = cluster.ledger.plan_create(&mut service, &mut cluster.rng, options)?;
        assert!(plan.is_empty());
        let spec = service.spec.unwrap();
        let ports: Vec<_> = spec.ports.iter().flatten().map(|p| p.node_port.unwrap_or(0)).collect();
        Ok::<_, PlanError>((cluster_ips(&spec).join(","), ports, spec.health_check_node_port.unwrap_or(0)))
    };
    let ports = json!([{"name": "x", "port": 80}, {"name": "y", "port": 81}]);
    assert_eq!(
        dry(json!({"ipFamilyPolicy": "RequireDualStack"})),
        Ok(("10.96.0.0,fd00:10:96::".into(), vec![], 0))
    );
    assert_eq!(dry(json!({"clusterIP": "10.96.0.10"})), Ok(("10.96.0.10".into(), vec![], 0)));
    assert_eq!(
        dry(json!({"type": "NodePort", "ports": ports})),
        Ok(("10.96.0.0".into(), vec![32769, 32770], 0))
    );
    assert_eq!(
        dry(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports})),
        Ok(("10.96.0.0".into(), vec![32769, 32770], 32771))
    );
    assert_eq!(
        dry(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})),
        Ok(("10.96.0.0".into(), vec![80], 0))
    );
    let taken = dry(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}));
    assert_eq!(
        taken.unwrap_err().to_string(),
        "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    );
}

#[test]
fn a_refused_service_stays_as_it_was() {
    let mut cluster = single();
    let asked = json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 80}]});
    let mut refused = service("a", asked);
    let before = refused.clone();
    let result = cluster.ledger.plan_create(&mut refused, &mut cluster.rng, PlanOptions::default());
    assert!(result.is_err());
    assert_eq!(refused, before);
}

#[test]
fn a_plan_may_be_committed_twice() {
    let mut cluster = dual();
    let plan = cluster.create("a", json!({"type": "NodePort", "ports": [{"port": 80}]})).unwrap();
    cluster.ledger.commit(&plan);
    assert_eq!(cluster.allocated(), (1, 1));
    let plan = cluster.delete("a");
    cluster.ledger.commit(&plan);
    assert_eq!(cluster.allocated(), (0, 0));
}

#[test]
fn automatic_addresses_come_from_the_upper_band() {
    let mut cluster = single();
    let prefix: ServicePrefix = "10.96.0.0/24".parse().unwrap();
    for n in 0..150 {
        cluster.create(&format!("s{n}"), json!({})).unwrap();
        assert!(prefix.offset(cluster.ips(&format!("s{n}"))[0]).unwrap() >= 16);
    }
    cluster.create("static", json!({"clusterIP": "10.96.0.10"})).unwrap();
}
