//! A pod compared in place against what reading it anew gives.

use proptest::prelude::*;
use service_controllers::cache::{Interners, Pod};
use service_controllers::objects::PodWire;

/// Pods of few values, so that equal ones are common.
fn pod() -> impl Strategy<Value = serde_json::Value> {
    let word = || prop_oneof![Just("a"), Just("b")];
    let container = (word(), 1..3, any::<bool>()).prop_map(|(name, number, udp)| {
        let protocol = if udp { "UDP" } else { "TCP" };
        serde_json::json!({"restartPolicy": "Always",
            "ports": [{"name": name, "containerPort": number, "protocol": protocol}, {"containerPort": 9}]})
    });
    let condition = (prop_oneof![Just("Ready"), Just("Initialized")], any::<bool>(), 0..2).prop_map(
        |(kind, yes, second)| {
            serde_json::json!({"type": kind, "status": if yes { "True" } else { "False" },
                "lastTransitionTime": format!("2026-11-01T00:00:0{second}Z")})
        },
    );
    let ips = prop::collection::vec(prop_oneof![Just("10.0.0.1"), Just("fd00::1"), Just("")], 0..3);
    let lists = (prop::collection::vec(container, 0..2), prop::collection::vec(condition, 0..2), ips);
    let texts = (word(), word(), word(), word(), any::<bool>(), prop_oneof![Just("Running"), Just("Failed")]);
    (lists, texts).prop_map(|((containers, conditions, ips), (uid, node, host, label, ending, phase))| {
        let mut metadata =
            serde_json::json!({"name": "p", "namespace": "n", "uid": uid, "labels": {"app": label}});
        if ending {
            metadata["deletionTimestamp"] = "2026-11-01T00:00:00Z".into();
        }
        serde_json::json!({"metadata": metadata,
            "spec": {"nodeName": node, "hostname": host, "subdomain": label,
                "containers": containers, "initContainers": containers},
            "status": {"phase": phase, "podIP": "10.0.0.9", "conditions": conditions,
                "podIPs": ips.iter().map(|ip| serde_json::json!({"ip": ip})).collect::<Vec<_>>()}})
    })
}

/// One in two is a copy with at most one difference.
fn pair() -> impl Strategy<Value = (serde_json::Value, serde_json::Value)> {
    let parts = ["metadata", "spec", "status"];
    (pod(), pod(), 0..6_usize).prop_map(move |(a, b, mix)| match parts.get(mix) {
        Some(part) => {
            let mut mixed = a.clone();
            mixed[*part] = b[*part].clone();
            (a, mixed)
        }
        None => (a.clone(), if mix == 3 { b } else { a }),
    })
}

proptest! {
    #[test]
    fn a_pod_is_as_before_exactly_if_reading_it_gives_the_same((before, after) in pair()) {
        let read = |value: &serde_json::Value| serde_json::from_value::<PodWire>(value.clone()).unwrap();
        let (before, after) = (read(&before), read(&after));
        let mut shared = Interners::default();
        let (old, old_labels) = Pod::read(&before, &mut shared);
        let (new, new_labels) = Pod::read(&after, &mut shared);
        let bound = old.is_bound_as_before(&after);
        prop_assert_eq!(bound && old.is_as_before(&after), old == new);
        if bound {
            prop_assert_eq!(old.moved_on(&after), new);
        }
        prop_assert_eq!(old_labels.are(&after.metadata.labels.0), old_labels == new_labels);
    }
}
