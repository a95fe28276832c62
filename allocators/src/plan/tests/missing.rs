//! What a stored Service lacks, and where it comes from.

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::*;
use crate::plan::{TakenBefore, WholeRanges};

fn fill(cluster: &Cluster, spec: Value, before: &TakenBefore) -> Result<Value, PlanError> {
    let mut service = service("web", spec);
    let mut rng = StdRng::seed_from_u64(3);
    cluster.ledger.plan_missing(&mut service, before, &mut WholeRanges(&mut rng))?;
    Ok(serde_json::to_value(service.spec.unwrap()).unwrap())
}

#[test]
fn what_a_service_has_stays_and_what_was_taken_for_it_comes_first() {
    let cluster = Cluster::new(&["10.96.0.0/24", "fd00::/120"], "30000-30019");
    let before = TakenBefore {
        addresses: vec!["10.96.0.200".parse().unwrap(), "fd00::77".parse().unwrap()],
        ports: vec![30003],
        health_checks: vec![30004],
    };
    let local = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ipFamilyPolicy": "PreferDualStack",
        "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
        "ports": [{"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"},
            {"name": "c", "port": 80, "nodePort": 30010}],
    });
    let filled = fill(&cluster, local, &before).unwrap();
    assert_eq!(filled["clusterIPs"], json!(["10.96.0.9", "fd00::77"]));
    let ports: Vec<&Value> = filled["ports"].as_array().unwrap().iter().map(|p| &p["nodePort"]).collect();
    assert_eq!(ports, [&json!(30003), &json!(30003), &json!(30010)]);
    assert_eq!(filled["healthCheckNodePort"], 30004);
}

#[test]
fn a_service_that_is_refused_stays_as_it_was() {
    let cluster = Cluster::new(&["10.96.0.0/24"], "30000-30000");
    let two = json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    let mut service = service("web", two.clone());
    let before = service.clone();
    let mut rng = StdRng::seed_from_u64(3);
    let refused = cluster
        .ledger
        .plan_missing(&mut service, &TakenBefore::default(), &mut WholeRanges(&mut rng))
        .unwrap_err();
    assert!(refused.to_string().contains("failed to allocate a nodePort: range is full"), "{refused}");
    assert_eq!(service, before);
}

#[rstest]
#[case(json!({"type": "ExternalName", "externalName": "example.com"}))]
#[case(json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}))]
fn services_without_values_get_none(#[case] spec: Value) {
    let cluster = Cluster::new(&["10.96.0.0/24"], "30000-30019");
    let filled = fill(&cluster, spec, &TakenBefore::default()).unwrap();
    assert!(filled.get("clusterIP").is_none_or(|ip| ip == "None"), "{filled}");
}
