//! One rule a test.

use rstest::rstest;

use super::*;

const GOLD: &str = r#"{"addresses": ["10.96.0.128/28"], "nodePorts": [{"firstPort": 30032, "lastPort": 30041}],
    "serviceSelector": {"matchLabels": {"tier": "gold"}}}"#;

#[allow(clippy::needless_pass_by_value)] // as `json!` gives it
fn gold(more: serde_json::Value) -> ServicePool {
    let mut spec: serde_json::Value = serde_json::from_str(GOLD).unwrap();
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        spec[key] = value;
    }
    pool("gold", spec)
}

#[test]
fn its_services_get_its_values_all_of_them_and_then_others() {
    let mut cluster = Cluster::new(&[gold(json!({"lowerBand": {"addresses": 4, "nodePorts": 2}}))]);
    let services: Vec<Service> =
        (0..18).map(|i| cluster.create(&format!("s{i}"), json!({})).unwrap()).collect();
    let last_byte = |s: &Service| ip(s).rsplit('.').next().unwrap().parse::<u32>().unwrap();
    // A part has no network and no broadcast address of its own.
    assert!(services[..12].iter().all(|s| (132..144).contains(&last_byte(s))), "the upper band first");
    assert!(services[12..16].iter().all(|s| (128..132).contains(&last_byte(s))));
    assert!(services[16..].iter().all(|s| !(128..144).contains(&last_byte(s))));
    assert!(services[..8].iter().all(|s| (30034..=30041).contains(&port(s))));
    assert!(services[8..10].iter().all(|s| (30032..30034).contains(&port(s))));
    assert!(services[10..].iter().all(|s| !(30032..=30041).contains(&port(s))));
}

#[test]
fn a_full_pool_without_fallback_refuses_and_says_why() {
    let mut cluster = Cluster::new(&[gold(json!({"fallback": "Forbidden"}))]);
    for i in 0..10 {
        cluster.create(&format!("s{i}"), json!({})).unwrap();
    }
    let error = cluster.create("late", json!({})).unwrap_err();
    assert!(
        error.contains("ServicePool gold has nothing left and allows no value from elsewhere"),
        "{error}"
    );
    let error =
        cluster.create("asks", json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]})).unwrap_err();
    assert!(error.contains("10.96.0.9 is outside of ServicePool gold"), "{error}");
}

#[test]
fn an_exclusive_pool_keeps_others_out() {
    let mut cluster = Cluster::new(&[gold(json!({"exclusive": true}))]);
    cluster.members = false;
    let error = cluster
        .create("asks", json!({"clusterIP": "10.96.0.130", "clusterIPs": ["10.96.0.130"]}))
        .unwrap_err();
    assert!(
        error.contains("10.96.0.130 is in ServicePool gold, which is for other Services alone"),
        "{error}"
    );
    let mut count = 0;
    while let Ok(service) = cluster.create(&format!("s{count}"), json!({})) {
        assert!(!(30032..=30041).contains(&port(&service)));
        count += 1;
    }
    assert_eq!(count, 64 - 10, "all other ports are given, and none of the pool");
}

#[test]
fn a_reservation_is_for_its_service_alone_until_it_ends() {
    let reservations = json!([
        {"address": "10.96.0.135", "namespace": "shop", "name": "till", "until": "1970-01-01T01:00:00Z"},
        {"nodePort": 30040, "namespace": "shop", "name": "till"},
    ]);
    let mut cluster = Cluster::new(&[gold(json!({"reservations": reservations}))]);
    let asked = json!({"clusterIP": "10.96.0.135", "clusterIPs": ["10.96.0.135"]});
    let error = cluster.create("other", asked.clone()).unwrap_err();
    assert!(error.contains("10.96.0.135 is reserved for Service shop/till by ServicePool gold"), "{error}");
    let till = cluster.create("till", json!({})).unwrap();
    assert_eq!((ip(&till).as_str(), port(&till)), ("10.96.0.135", 30040));
    cluster.delete(&till);
    for i in 0..30 {
        let other = cluster.create(&format!("s{i}"), json!({})).unwrap();
        assert!(ip(&other) != "10.96.0.135" && port(&other) != 30040);
    }
    cluster.now = 3600;
    cluster.create("other", asked).unwrap();
}

#[test]
fn an_expired_reservation_is_free_for_everybody() {
    let reserved =
        json!([{"address": "10.96.0.135", "namespace": "a", "name": "b", "until": "1970-01-01T01:00:00Z"}]);
    let mut cluster =
        Cluster::new(&[gold(json!({"reservations": reserved, "nodePorts": [], "fallback": "Forbidden"}))]);
    for i in 0..15 {
        cluster.create(&format!("s{i}"), json!({})).unwrap();
    }
    assert!(cluster.create("late", json!({})).is_err());
    cluster.now = 3600;
    cluster.pools.advance(cluster.now, &cluster.ledger);
    assert_eq!(ip(&cluster.create("late", json!({})).unwrap()), "10.96.0.135");
}

#[test]
fn a_value_cools_down_and_the_oldest_comes_back_first() {
    let mut cluster =
        Cluster::new(&[gold(json!({"coolDownSeconds": 60, "fallback": "Forbidden", "nodePorts": []}))]);
    let services: Vec<Service> =
        (0..16).map(|i| cluster.create(&format!("s{i}"), json!({})).unwrap()).collect();
    for service in [&services[4], &services[2], &services[9]] {
        cluster.delete(service);
        cluster.now += 10;
    }
    assert!(cluster.create("new", json!({})).is_err(), "all of them cool down");
    let asked = json!({"clusterIP": ip(&services[9]), "clusterIPs": [ip(&services[9])]});
    let error = cluster.create("new", asked).unwrap_err();
    assert!(
        error.contains(
            "was given back by Service shop/s9 and ServicePool gold keeps it from others for another 50 s"
        ),
        "{error}"
    );
    let again = cluster.create("s2", json!({})).unwrap();
    assert_eq!(ip(&again), ip(&services[2]), "the same name has it back at once");
    cluster.now += 100;
    assert_eq!(ip(&cluster.create("new", json!({})).unwrap()), ip(&services[4]));
    assert_eq!(ip(&cluster.create("newer", json!({})).unwrap()), ip(&services[9]));
}

#[test]
fn a_value_in_flight_is_not_chosen_again_until_it_is_given_up() {
    let mut cluster = Cluster::new(&[gold(json!({"fallback": "Forbidden", "nodePorts": []}))]);
    for i in 0..16 {
        let mut service = service(&format!("s{i}"), json!({}));
        let plan = cluster.plan(&mut service).unwrap();
        cluster.pools.hold(Value::Address(plan.take_addresses[0]), cluster.now + 5);
    }
    assert!(cluster.create("late", json!({})).is_err());
    cluster.now += 5;
    cluster.pools.advance(cluster.now, &cluster.ledger);
    cluster.create("late", json!({})).unwrap();
}

#[rstest]
#[case(1)]
#[case(2)]
#[case(3)]
#[case(7)]
fn replicas_that_know_nothing_of_each_other_never_choose_alike(#[case] replicas: u32) {
    let objects = [gold(json!({"coolDownSeconds": 5}))];
    let mut chosen = std::collections::BTreeSet::new();
    for index in 0..replicas {
        for members in [true, false] {
            let mut cluster = Cluster::new(&objects);
            (cluster.share, cluster.members) = (Share::new(index, replicas).unwrap(), members);
            let mut own = std::collections::BTreeSet::new();
            for i in 0..300 {
                let spec = json!({"type": "ClusterIP"});
                let Ok(service) = cluster.create(&format!("s{i}"), spec) else { break };
                own.insert(ip(&service));
            }
            if !members {
                continue;
            }
            for ip in own {
                assert!(chosen.insert(ip.clone()), "{ip} was chosen by two");
            }
        }
    }
    assert_eq!(chosen.len(), 254, "the shares together are the whole range");
}

#[test]
fn the_first_pool_that_is_for_a_service_counts() {
    let general = pool("a-general", json!({"addresses": ["10.96.0.64/28"]}));
    let pools = Pools::new(&[general.clone(), gold(json!({"priority": 1}))]);
    let names: Vec<&str> = pools.names().map(|(_, name)| name).collect();
    assert_eq!(names, ["gold", "a-general"]);
    let found = |service: &Service| pools.find(service, &BTreeMap::new()).map(|id| names[id.0]);
    let mut service = service("a", json!({}));
    assert_eq!(found(&service), Some("gold"));
    service.metadata.labels = None;
    assert_eq!(found(&service), Some("a-general"));
    let of_team = pool(
        "team",
        json!({"addresses": ["10.96.0.64/28"], "namespaceSelector": {"matchLabels": {"team": "x"}}}),
    );
    let pools = Pools::new(&[of_team]);
    assert_eq!(pools.find(&service, &BTreeMap::new()), None);
    assert!(pools.find(&service, &[("team".to_owned(), "x".to_owned())].into()).is_some());
}

#[test]
fn what_is_wrong_with_a_pool_is_told() {
    let bad = pool(
        "bad",
        json!({
            "addresses": ["10.96.0.136/29", "10.97.0.0/24", "x", "fd00::/48"],
            "nodePorts": [{"firstPort": 1, "lastPort": 10}, {"firstPort": 9, "lastPort": 0}],
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]},
            "reservations": [{"address": "10.1.1.1", "namespace": "a", "name": "b"}],
        }),
    );
    let pools = Pools::new(&[bad, gold(json!({"priority": 1}))]);
    let texts: Vec<String> = pools.faults().iter().map(|f| format!("{}: {}", f.pool, f.text)).collect();
    insta_like(
        &texts,
        &[
            "bad: \"x\" is no part of a ServiceCIDR",
            "bad: \"fd00::/48\" is no part of a ServiceCIDR",
            "bad: 9-0 is no part of a NodePortRange",
            "bad: namespaceSelector: \"Like\" is not a valid label selector operator: it must be In, NotIn, Exists or DoesNotExist; the pool is for no Service",
            "bad: 10.96.0.136/29 overlaps a part of ServicePool gold; it is left out",
            "bad: the reservation of 10.1.1.1 for Service a/b is outside of the pool",
        ],
    );
    let outside: Vec<String> = pools.outside(&ledger()).into_iter().map(|f| f.text).collect();
    insta_like(
        &outside,
        &["10.97.0.0/24 is in no ServiceCIDR", "1-10 is in no NodePortRange from which ports can be had"],
    );
}

fn insta_like(found: &[String], expected: &[&str]) {
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn usage_counts_what_is_taken_by_anybody() {
    let mut cluster = Cluster::new(&[gold(json!({"lowerBand": {"addresses": 4}}))]);
    cluster.create("a", json!({"clusterIP": "10.96.0.129", "clusterIPs": ["10.96.0.129"]})).unwrap();
    cluster.create("b", json!({})).unwrap();
    let usage: Vec<PoolUsage> = cluster.pools.usage(&cluster.ledger).collect();
    assert_eq!(usage[0].kinds[&Kind::V4], [(1, 3), (1, 11)]);
    assert_eq!(usage[0].total(Kind::Port), Some((2, 8)));
    assert_eq!(usage[0].total(Kind::V6), None);
}

#[test]
fn a_changed_pool_takes_up_what_was_known() {
    let mut cluster = Cluster::new(&[gold(json!({"coolDownSeconds": 60, "nodePorts": []}))]);
    let a = cluster.create("a", json!({})).unwrap();
    let b = cluster.create("b", json!({})).unwrap();
    cluster.delete(&b);
    let mut after =
        Pools::new(&[gold(json!({"coolDownSeconds": 60, "nodePorts": [], "fallback": "Forbidden"}))]);
    after.adopt(&cluster.pools, &cluster.ledger);
    cluster.pools = after;
    let rest: Vec<String> =
        (0..14).map(|i| ip(&cluster.create(&format!("s{i}"), json!({})).unwrap())).collect();
    assert!(!rest.contains(&ip(&a)) && !rest.contains(&ip(&b)));
    assert!(cluster.create("late", json!({})).is_err());
}
