//! Random histories of Services against what they must add up to.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::registry::strategy::Subresource;
use crate::registry::testing::{Lab, lab, reload};
use crate::repair;

const RANGES: [&str; 2] = ["10.97.0.0/28", "fd00:97::/124"];
const NET: &str = "networking.k8s.io";

/// One request of a user.
#[derive(Clone, Debug)]
enum Step {
    Create { name: u8, spec: Value },
    Change { name: u8, spec: Value },
    Delete { name: u8 },
    DeleteAddress { at: usize },
    Repair,
}

fn spec() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("ClusterIP"),
        Just("NodePort"),
        Just("LoadBalancer"),
        Just("ExternalName"),
        Just("Headless")
    ];
    let policy = prop_oneof![Just("SingleStack"), Just("PreferDualStack"), Just("RequireDualStack")];
    let address = prop_oneof![3 => Just(None), 1 => (1_u8..16).prop_map(Some)];
    let node_port = prop_oneof![3 => Just(None), 1 => (30_000_u16..30_004).prop_map(Some)];
    (kind, policy, address, node_port, any::<bool>(), 1_usize..3).prop_map(
        |(kind, policy, address, node_port, local, ports)| {
            let mut spec = json!({"type": kind});
            if kind == "ExternalName" {
                spec["externalName"] = json!("x.example");
                return spec;
            }
            spec["ipFamilyPolicy"] = json!(policy);
            let protocols = ["TCP", "UDP"];
            spec["ports"] = (0..ports)
                .map(|at| json!({"name": format!("p{at}"), "port": 53, "protocol": protocols[at]}))
                .collect();
            match (kind, address) {
                ("Headless", _) => {
                    spec["type"] = json!("ClusterIP");
                    spec["clusterIP"] = json!("None");
                }
                (_, Some(last)) => spec["clusterIP"] = json!(format!("10.97.0.{last}")),
                _ => {}
            }
            if let (Some(port), "NodePort" | "LoadBalancer") = (node_port, kind) {
                spec["ports"][0]["nodePort"] = json!(port);
            }
            if local && kind == "LoadBalancer" {
                spec["externalTrafficPolicy"] = json!("Local");
            }
            spec
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0_u8..6;
    prop_oneof![
        4 => (name.clone(), spec()).prop_map(|(name, spec)| Step::Create { name, spec }),
        3 => (name.clone(), spec()).prop_map(|(name, spec)| Step::Change { name, spec }),
        2 => name.prop_map(|name| Step::Delete { name }),
        1 => (0_usize..20).prop_map(|at| Step::DeleteAddress { at }),
        1 => Just(Step::Repair),
    ]
}

fn take(lab: &Lab, step: &Step) {
    match step {
        Step::Create { name, spec } => {
            let object =
                json!({"metadata": {"name": format!("s{name}"), "namespace": "default"}, "spec": spec});
            let before = lab.revision();
            if lab.create("", "services", object).is_err() {
                assert_eq!(lab.revision(), before, "a refused request left something behind");
            }
        }
        Step::Change { name, spec } => {
            let name = format!("s{name}");
            if lab.get("", "services", "default", &name).is_none() {
                return;
            }
            let before = lab.revision();
            let changed = lab.update(("", "services", "default", &name), Subresource::None, |new| {
                new["spec"] = spec.clone();
            });
            if changed.is_err() {
                assert_eq!(lab.revision(), before, "a refused request left something behind");
            }
        }
        Step::Delete { name } => {
            let name = format!("s{name}");
            if lab.get("", "services", "default", &name).is_some() {
                lab.delete(("", "services", "default", &name));
            }
        }
        Step::DeleteAddress { at } => {
            if let Some(name) = lab.names(NET, "ipaddresses").get(*at) {
                lab.delete((NET, "ipaddresses", "", name));
            }
        }
        Step::Repair => {
            repair::apply(&lab.store, &lab.registry, jiff::Timestamp::UNIX_EPOCH).unwrap();
        }
    }
}

/// Addresses and node ports of all Services, with how often each is used.
fn used(lab: &Lab) -> (Vec<String>, Vec<i64>) {
    let (mut addresses, mut ports) = (Vec::new(), Vec::new());
    for name in lab.names("", "services") {
        let service = lab.get("", "services", "default", &name).unwrap();
        let listed =
            service.pointer("/spec/clusterIPs").and_then(Value::as_array).cloned().unwrap_or_default();
        addresses.extend(listed.iter().filter_map(Value::as_str).filter(|a| *a != "None").map(str::to_owned));
        let of_service: BTreeSet<i64> = service
            .pointer("/spec/ports")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|port| port.get("nodePort")?.as_i64())
            .chain(service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64))
            .collect();
        ports.extend(of_service);
    }
    (addresses, ports)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No address and no port is given twice or kept by nobody; a reload agrees; a repair pass finds nothing.
    #[test]
    fn services_and_their_allocations_agree(steps in proptest::collection::vec(step(), 1..40)) {
        let lab = lab(&RANGES);
        let by_hand = steps.iter().any(|step| matches!(step, Step::DeleteAddress { .. }));
        for step in &steps {
            take(&lab, step);
        }
        let usage = lab.store.read(|view| view.index().services.usage());
        prop_assert_eq!(&reload(&lab, &RANGES), &usage);
        let (addresses, ports) = used(&lab);
        let distinct: BTreeSet<&i64> = ports.iter().collect();
        prop_assert_eq!(distinct.len(), ports.len(), "a port is used by two Services");
        prop_assert_eq!(usage.allocated_ports, ports.len() as u64);
        if !by_hand {
            let distinct: BTreeSet<&String> = addresses.iter().collect();
            prop_assert_eq!(distinct.len(), addresses.len(), "an address is used by two Services");
            let held: BTreeSet<String> = lab.names(NET, "ipaddresses").into_iter().collect();
            prop_assert_eq!(held, addresses.into_iter().collect::<BTreeSet<_>>());
            let found = repair::apply(&lab.store, &lab.registry, jiff::Timestamp::UNIX_EPOCH).unwrap();
            prop_assert_eq!(found, vec![]);
        }
    }
}
