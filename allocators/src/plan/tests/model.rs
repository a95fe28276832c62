//! Random histories of Services against a plain model: nothing is given twice, nothing leaks, and
//! a ledger that is rebuilt from the objects is the same.

use std::collections::BTreeSet;

use proptest::prelude::*;
use service_api::service::{families, needs_cluster_ip, needs_health_check};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Create(u8, Wish),
    Update(u8, Wish),
    Delete(u8),
    /// A second range comes or goes.
    Extra(bool),
}

#[derive(Debug, Clone)]
struct Wish {
    kind: u8,
    policy: u8,
    ip: Option<u8>,
    ports: Vec<(u8, Option<u8>, bool)>,
    local: bool,
    health: Option<u8>,
}

fn wish() -> impl Strategy<Value = Wish> {
    let port = (0_u8..3, prop::option::weighted(0.4, 0_u8..22), any::<bool>());
    let ports = prop::collection::vec(port, 1..4);
    let health = prop::option::weighted(0.3, 0_u8..22);
    (0_u8..5, 0_u8..4, prop::option::weighted(0.3, 0_u8..18), ports, any::<bool>(), health)
        .prop_map(|(kind, policy, ip, ports, local, health)| Wish { kind, policy, ip, ports, local, health })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_u8..12, wish()).prop_map(|(n, w)| Step::Create(n, w)),
        5 => (0_u8..12, wish()).prop_map(|(n, w)| Step::Update(n, w)),
        3 => (0_u8..12).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Extra),
    ]
}

impl Wish {
    fn spec(&self) -> Value {
        let kind =
            ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Headless"][usize::from(self.kind)];
        let policy = ["SingleStack", "PreferDualStack", "RequireDualStack"].get(usize::from(self.policy));
        let has_node_ports = matches!(kind, "NodePort" | "LoadBalancer");
        let ports: Vec<Value> = self
            .ports
            .iter()
            .enumerate()
            .map(|(i, (port, number, udp))| {
                json!({
                    "name": format!("p{i}"), "port": 80 + port, "protocol": if *udp { "UDP" } else { "TCP" },
                    "nodePort": number.filter(|_| has_node_ports).map(|n| 29_999 + i32::from(n)),
                })
            })
            .collect();
        let ip = match kind {
            "Headless" => Some("None".to_owned()),
            "ExternalName" => None,
            _ => self.ip.map(|n| format!("10.96.0.{n}")),
        };
        let local = self.local && kind == "LoadBalancer";
        json!({
            "type": if kind == "Headless" { "ClusterIP" } else { kind },
            "clusterIP": ip, "ports": ports,
            "ipFamilyPolicy": if kind == "ExternalName" { None } else { policy },
            "externalTrafficPolicy": has_node_ports.then_some(if local { "Local" } else { "Cluster" }),
            "healthCheckNodePort": self.health.filter(|_| local).map(|n| 29_999 + i32::from(n)),
        })
    }
}

/// An update as a client sends it: addresses are kept, which is what the carry-over does.
fn carried_over(old: &ServiceSpec, wish: &Wish) -> Value {
    let mut spec = wish.spec();
    let keeps = |spec: &Value| spec["type"] != "ExternalName";
    if keeps(&spec) && needs_cluster_ip(old) {
        spec["clusterIP"] = json!(old.cluster_ip);
        spec["clusterIPs"] = json!(old.cluster_ips);
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilies"] = json!(old.ip_families);
        }
    }
    if spec["externalTrafficPolicy"] == "Local" && needs_health_check(old) {
        spec["healthCheckNodePort"] = json!(old.health_check_node_port);
    }
    spec
}

/// What all Services hold, and a failure when two hold the same.
fn held(cluster: &Cluster) -> Result<(BTreeSet<IpAddr>, BTreeSet<u16>), TestCaseError> {
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for (name, service) in &cluster.services {
        let spec = service.spec.as_ref().unwrap();
        for address in spec::held_addresses(spec) {
            prop_assert!(addresses.insert(address), "{} of {} is held twice", address, name);
        }
        for port in spec::held_ports(spec).into_keys() {
            prop_assert!(ports.insert(port), "{} of {} is held twice", port, name);
        }
        let needs_two = spec.ip_family_policy.as_deref() == Some("RequireDualStack");
        if spec::holds_addresses(spec) {
            prop_assert_eq!(cluster_ips(spec).len(), families(spec).len());
            prop_assert!(!needs_two || cluster_ips(spec).len() == 2);
        }
    }
    Ok((addresses, ports))
}

fn agrees(cluster: &Cluster) -> Result<(), TestCaseError> {
    let (addresses, ports) = held(cluster)?;
    for usage in cluster.ledger.addresses.usage() {
        let inside = addresses.iter().filter(|a| usage.prefix.offset(**a).is_some()).count() as u64;
        prop_assert_eq!(usage.allocated, inside);
        prop_assert_eq!(usage.allocated + usage.available, usage.prefix.usable());
    }
    for address in &addresses {
        prop_assert!(cluster.ledger.addresses.contains(*address));
    }
    prop_assert_eq!(cluster.ledger.ports.allocated(), ports.len() as u64);
    for (name, service) in &cluster.services {
        for (port, protocols) in spec::held_ports(service.spec.as_ref().unwrap()) {
            let holders = cluster.ledger.ports.holders(port);
            prop_assert_eq!(holders.len(), 1);
            prop_assert_eq!((holders[0].owner.name(), holders[0].protocols), (name.as_str(), protocols));
        }
    }
    Ok(())
}

fn usage(ledger: &Ledger) -> Vec<crate::RangeUsage> {
    ledger.addresses.usage().collect()
}

/// What a ledger says that is made anew from the stored Services.
fn rebuilt(cluster: &Cluster) -> (Vec<crate::RangeUsage>, u64) {
    let mut ledger = Cluster::new(&["10.96.0.0/28", "fd00::/125"], "30000-30019").ledger;
    let extra: Vec<_> = cluster.ledger.addresses.usage().skip(1).map(|u| u.prefix).collect();
    for service in cluster.services.values() {
        ledger.insert_existing(service);
    }
    if extra.len() > 1 {
        let nets: Vec<_> = extra.iter().map(|p| p.net()).filter(|n| n.to_string() != "fd00::/125").collect();
        ledger.addresses.set_range("extra", &nets, RangeState::Ready).unwrap();
    }
    (usage(&ledger), ledger.ports.allocated())
}

proptest! {
    #[test]
    fn nothing_is_given_twice_and_nothing_leaks(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut cluster = Cluster::new(&["10.96.0.0/28", "fd00::/125"], "30000-30019");
        cluster.rng = StdRng::seed_from_u64(seed);
        for step in steps {
            let before = (cluster.allocated(), cluster.services.clone());
            let refused = match step {
                Step::Create(n, wish) => {
                    let name = format!("s{n}");
                    !cluster.services.contains_key(&name) && cluster.create(&name, wish.spec()).is_err()
                }
                Step::Update(n, wish) => {
                    let name = format!("s{n}");
                    match cluster.services.get(&name).cloned() {
                        Some(old) => {
                            let mut new = service(&name, carried_over(old.spec.as_ref().unwrap(), &wish));
                            let options = PlanOptions::default();
                            match cluster.ledger.plan_update(&old, &mut new, &mut cluster.rng, options) {
                                Ok(plan) => {
                                    cluster.ledger.commit(&plan);
                                    cluster.services.insert(name, new);
                                    false
                                }
                                Err(_) => true,
                            }
                        }
                        None => false,
                    }
                }
                Step::Delete(n) => {
                    if cluster.services.contains_key(&format!("s{n}")) {
                        cluster.delete(&format!("s{n}"));
                    }
                    false
                }
                Step::Extra(true) => {
                    let nets = ["10.96.0.8/29".parse().unwrap(), "fd00::8/125".parse().unwrap()];
                    cluster.ledger.addresses.set_range("extra", &nets, RangeState::Ready).unwrap();
                    false
                }
                Step::Extra(false) => {
                    cluster.ledger.addresses.remove_range("extra");
                    false
                }
            };
            if refused {
                prop_assert_eq!(before, (cluster.allocated(), cluster.services.clone()));
            }
            agrees(&cluster)?;
        }
        prop_assert_eq!(&rebuilt(&cluster), &(usage(&cluster.ledger), cluster.allocated().1));
        for name in cluster.services.keys().cloned().collect::<Vec<_>>() {
            cluster.delete(&name);
        }
        prop_assert_eq!(cluster.allocated(), (0, 0));
    }
}
