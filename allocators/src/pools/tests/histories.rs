//! Random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Create { name: u8, member: bool, ask: Option<u8> },
    Delete { name: u8 },
    Wait { seconds: u8 },
    Hold { name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..60, any::<bool>(), prop::option::weighted(0.2, any::<u8>()))
            .prop_map(|(name, member, ask)| Step::Create { name, member, ask }),
        4 => (0_u8..60).prop_map(|name| Step::Delete { name }),
        1 => any::<u8>().prop_map(|seconds| Step::Wait { seconds }),
        1 => (0_u8..60).prop_map(|name| Step::Hold { name }),
    ]
}

fn objects(cool_down: u8, exclusive: bool) -> Vec<ServicePool> {
    let gold = json!({
        "addresses": ["10.96.0.16/28", "10.96.0.240/28"], "nodePorts": [{"firstPort": 30010, "lastPort": 30029}],
        "coolDownSeconds": cool_down, "exclusive": exclusive, "priority": 1,
        "reservations": [{"address": "10.96.0.20", "namespace": "shop", "name": "s1"}],
        "serviceSelector": {"matchLabels": {"tier": "gold"}},
    });
    let other = json!({"addresses": ["10.96.0.64/29"], "serviceSelector": {"matchLabels": {"tier": "none"}}});
    vec![pool("gold", gold), pool("other", other)]
}

proptest! {
    #[test]
    fn no_value_is_given_twice_and_none_leaks(
        steps in prop::collection::vec(step(), 1..150), cool_down in 0_u8..40, exclusive in any::<bool>()
    ) {
        let mut cluster = Cluster::new(&objects(cool_down, exclusive));
        let mut stored: BTreeMap<u8, Service> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Create { name, member, ask } if !stored.contains_key(&name) => {
                    cluster.members = member;
                    let spec = ask.map_or(json!({}), |n| {
                        let ip = format!("10.96.0.{n}");
                        json!({"clusterIP": ip, "clusterIPs": [ip]})
                    });
                    if let Ok(service) = cluster.create(&format!("s{name}"), spec) {
                        stored.insert(name, service);
                    }
                }
                Step::Create { .. } => {}
                Step::Delete { name } => {
                    if let Some(service) = stored.remove(&name) {
                        cluster.delete(&service);
                    }
                }
                Step::Wait { seconds } => {
                    cluster.now += Seconds::from(seconds);
                    cluster.pools.advance(cluster.now, &cluster.ledger);
                }
                Step::Hold { name } => {
                    let mut service = service(&format!("h{name}"), json!({}));
                    if let Ok(plan) = cluster.plan(&mut service) {
                        cluster.pools.hold(Value::Address(plan.take_addresses[0]), cluster.now + 5);
                    }
                }
            }
            let ips: BTreeSet<String> = stored.values().map(ip).collect();
            let ports: BTreeSet<i32> = stored.values().map(port).collect();
            prop_assert_eq!(ips.len(), stored.len());
            prop_assert_eq!(ports.len(), stored.len());
            let taken: BTreeSet<String> = cluster.ledger.addresses.iter().map(|a| a.to_string()).collect();
            prop_assert_eq!(&taken, &ips);
        }
        for service in stored.values() {
            cluster.delete(service);
        }
        cluster.now += 10_000;
        cluster.pools.advance(cluster.now, &cluster.ledger);
        let mut given = BTreeSet::new();
        cluster.members = true;
        for i in 0..254 {
            let made = cluster.create(&format!("n{i}"), json!({"type": "ClusterIP"}));
            // One address stays reserved.
            prop_assert_eq!(made.is_ok(), i < 253, "number {}: {:?}", i, made);
            given.extend(made.ok().map(|s| ip(&s)));
        }
        prop_assert_eq!(given.len(), 253);
    }

    #[test]
    fn without_a_pool_the_choice_is_the_same(seed in any::<u64>(), count in 1_u8..70) {
        let mut upstream = ledger();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cluster = Cluster::new(&[]);
        cluster.rng = StdRng::seed_from_u64(seed);
        for i in 0..count {
            let mut expected = service(&format!("s{i}"), json!({}));
            let mut found = expected.clone();
            let plan = upstream.plan_create(&mut expected, &mut rng, PlanOptions::default());
            let ours = cluster.plan(&mut found);
            prop_assert_eq!(&plan, &ours);
            prop_assert_eq!(expected, found);
            if let (Ok(plan), Ok(ours)) = (plan, ours) {
                upstream.commit(&plan);
                cluster.commit(&ours);
            }
        }
    }

    #[test]
    fn a_pool_for_others_changes_nothing_about_which_values_there_are(seed in any::<u64>()) {
        let mut cluster = Cluster::new(&[pool("x", json!({"addresses": ["10.96.0.8/29", "10.96.0.128/27"]}))]);
        (cluster.rng, cluster.members) = (StdRng::seed_from_u64(seed), false);
        let mut given = Vec::new();
        for i in 0..254 {
            given.push(ip(&cluster.create(&format!("s{i}"), json!({"type": "ClusterIP"})).unwrap()));
        }
        let last: BTreeSet<&String> = given[254 - 16..].iter().collect();
        let lower: Vec<String> = (1..=16).map(|n| format!("10.96.0.{n}")).collect();
        prop_assert_eq!(last, lower.iter().collect::<BTreeSet<_>>(), "the lower band comes last, as without the pool");
        prop_assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 254);
    }
}
