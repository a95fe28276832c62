//! Node ports and health check node ports.

use super::*;

fn node_port(ports: Value) -> Value {
    json!({"type": "NodePort", "ports": ports})
}

fn local(ports: Value, health: i32) -> Value {
    json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": health, "ports": ports})
}

#[test]
fn one_number_serves_both_protocols() {
    let mut cluster = single();
    let plan = cluster
        .create(
            "d1",
            node_port(json!([{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}])),
        )
        .unwrap();
    let ports = cluster.node_ports("d1");
    assert_eq!(ports[0], ports[1]);
    assert_eq!(plan.take_ports.len(), 1);
    assert_eq!(plan.take_ports[0].protocols.to_string(), "TCP and UDP");
    // Also when only one of them names it, first or last.
    for (name, first, second) in [("x", 30053, 0), ("y", 0, 30054)] {
        let ports = json!([
            {"name": "t", "port": 53, "nodePort": first},
            {"name": "u", "port": 53, "protocol": "UDP", "nodePort": second},
        ]);
        cluster.create(name, node_port(ports)).unwrap();
        assert_eq!(cluster.node_ports(name), vec![first.max(second); 2]);
    }
    assert_eq!(cluster.allocated().1, 3);
    cluster.delete("d1");
    assert_eq!(cluster.allocated().1, 2);
}

/// Report P05.
#[test]
fn a_number_is_freed_with_its_last_user() {
    let mut cluster = single();
    let both = json!([
        {"name": "t", "port": 53, "nodePort": 30053},
        {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053},
    ]);
    cluster.create("d2", node_port(both)).unwrap();
    let d3 = node_port(json!([{"port": 5353, "protocol": "UDP", "nodePort": 30053}]));
    let refused = |holds| {
        format!(
            "spec.ports[0].nodePort: Invalid value: 30053: \
             provided port is already allocated: Service default/d2 holds it for {holds}"
        )
    };
    assert_eq!(cluster.create("d3", d3.clone()).unwrap_err().to_string(), refused("TCP and UDP"));
    let tcp = json!([{"name": "t", "port": 53, "nodePort": 30053}]);
    let plan = cluster.change("d2", json!({"ports": tcp})).unwrap();
    assert_eq!((plan.take_ports.len(), plan.release_ports.len()), (1, 0), "the number stays, for TCP");
    assert_eq!(cluster.create("d3", d3.clone()).unwrap_err().to_string(), refused("TCP"));
    assert_eq!(cluster.delete("d2").release_ports, [30053]);
    cluster.create("d3", d3).unwrap();
}

#[test]
fn services_share_a_number_per_protocol_when_set() {
    let ports = PortLedger::new("30000-32767".parse().unwrap(), PortSharing::PerProtocol);
    let mut cluster = Cluster::with(&["10.96.0.0/24"], ports);
    let tcp = json!({"name": "t", "port": 53, "nodePort": 30053});
    let udp = json!({"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053});
    cluster.create("d2", node_port(json!([tcp, udp]))).unwrap();
    let d3 = node_port(json!([{"port": 5353, "protocol": "UDP", "nodePort": 30053}]));
    assert!(cluster.create("d3", d3.clone()).is_err());
    cluster.change("d2", json!({"ports": [tcp]})).unwrap();
    cluster.create("d3", d3).unwrap();
    assert_eq!(cluster.allocated().1, 1);
    let error = cluster.change("d2", json!({"ports": [tcp, udp]})).unwrap_err().to_string();
    assert!(error.starts_with("spec.ports[1].nodePort: Invalid value: 30053:"), "{error}");
    cluster.delete("d2");
    assert_eq!(cluster.allocated().1, 1);
    cluster.delete("d3");
    assert_eq!(cluster.allocated().1, 0);
}

#[rstest]
#[case(json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30080}]), 1)]
#[case(json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "protocol": "UDP", "nodePort": 30080}]), 1)]
#[case(json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30090}]), 1)]
#[case(json!([{"name": "a", "port": 80, "nodePort": 30090}]), 0)]
fn a_number_that_is_taken(#[case] ports: Value, #[case] index: usize) {
    let mut cluster = single();
    cluster.create("owner", node_port(json!([{"port": 80, "nodePort": 30090}]))).unwrap();
    let number = ports[index]["nodePort"].clone();
    assert_eq!(
        cluster.create("a", node_port(ports)).unwrap_err().to_string(),
        format!("spec.ports[{index}].nodePort: Invalid value: {number}: provided port is already allocated")
    );
    assert_eq!(cluster.allocated(), (1, 1));
}

/// Twice the same port is for validation to refuse.
#[test]
fn the_same_port_twice_takes_one_number() {
    let mut cluster = single();
    let twice =
        json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 80, "nodePort": 30080}]);
    assert_eq!(cluster.create("a", node_port(twice)).unwrap().take_ports.len(), 1);
}

/// An automatic number never is one that a later port names.
#[test]
fn automatic_numbers_leave_named_ones_alone() {
    for seed in 0..40 {
        let mut cluster = Cluster::new(&["10.96.0.0/24"], "30000-30004");
        cluster.rng = StdRng::seed_from_u64(seed);
        let ports = json!([
            {"name": "a", "port": 80}, {"name": "b", "port": 81},
            {"name": "c", "port": 82, "nodePort": 30003}, {"name": "d", "port": 83, "nodePort": 30001},
        ]);
        cluster.create("a", local(ports, 30000)).unwrap();
        let mut numbers = cluster.node_ports("a");
        assert_eq!(numbers[2..], [30003, 30001]);
        numbers[..2].sort_unstable();
        assert_eq!(numbers[..2], [30002, 30004]);
    }
}

#[test]
fn a_full_range_is_not_the_users_mistake() {
    let mut cluster = Cluster::new(&["10.96.0.0/24"], "30000-30001");
    let full = |taken: &str| {
        let text = format!("failed to allocate a nodePort: range is full: {taken}");
        Err(PlanError::Internal(text))
    };
    let itself = "0 of the 2 node ports 30000-30001 are taken, and the Service itself asks for the rest";
    let three = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}, {"name": "c", "port": 3}]);
    assert_eq!(cluster.create("three", node_port(three)), full(itself));
    assert_eq!(cluster.allocated(), (0, 0));
    let two = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    assert_eq!(
        cluster.create("hc", local(two.clone(), 0)),
        Err(PlanError::Internal(format!(
            "failed to allocate a HealthCheck NodePort 0: range is full: {itself}"
        )))
    );
    cluster.create("two", node_port(two)).unwrap();
    assert_eq!(
        cluster.create("more", node_port(json!([{"port": 1}]))),
        full("2 of the 2 node ports 30000-30001 are taken")
    );
    let without =
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}]});
    cluster.create("without", without).unwrap();
    assert_eq!(cluster.node_ports("without"), [0]);
}

/// In a full range an update lives on what it gives up itself.
#[test]
fn an_update_may_use_what_it_gives_up() {
    let mut cluster = Cluster::new(&["10.96.0.0/24"], "30000-30001");
    let two = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    cluster.create("s", node_port(two.clone())).unwrap();
    cluster.change("s", local(json!([{"name": "c", "port": 3}]), 0)).unwrap();
    assert_eq!(cluster.allocated().1, 2);
    assert_eq!(
        cluster.change("s", local(two, 0)),
        Err(PlanError::Internal(
            "failed to allocate a nodePort: range is full: 2 of the 2 node ports 30000-30001 are taken"
                .to_owned()
        ))
    );
    assert_eq!(cluster.allocated().1, 2);
}

#[test]
fn ports_are_added_swapped_and_removed() {
    let mut cluster = single();
    let a = |n: i32| json!({"name": "a", "port": 80, "nodePort": n});
    let b = |n: i32| json!({"name": "b", "port": 81, "nodePort": n});
    cluster.create("s", node_port(json!([a(30080)]))).unwrap();
    let plan = cluster.change("s", json!({"ports": [b(30081), a(30080)]})).unwrap();
    assert_eq!(plan.take_ports.iter().map(|c| c.port).collect::<Vec<_>>(), [30081]);
    assert!(cluster.change("s", json!({"ports": [a(30081), b(30080)]})).unwrap().is_empty());
    let plan = cluster.change("s", json!({"ports": [b(30080), a(0)]})).unwrap();
    assert_eq!((plan.release_ports, plan.take_ports.len()), (vec![30081], 1));
    assert_ne!(cluster.node_ports("s")[1], 30081, "what is given back is free only afterwards");
    let plan = cluster.change("s", json!({"ports": [b(30080)]})).unwrap();
    assert_eq!(plan.release_ports.len(), 1);
    cluster.create("t", node_port(json!([a(30081)]))).unwrap();
    let error = cluster.change("t", json!({"ports": [a(30080)]})).unwrap_err().to_string();
    assert_eq!(error, "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated");
    assert_eq!(cluster.node_ports("t"), [30081]);
}

#[test]
fn an_update_that_names_a_pair_twice() {
    let mut cluster = single();
    cluster.create("a", node_port(json!([{"port": 80, "nodePort": 30080}]))).unwrap();
    let twice = json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30080}]);
    let error = cluster.change("a", json!({"ports": twice})).unwrap_err();
    assert!(matches!(error, PlanError::Invalid(_)), "{error:?}");
    assert_eq!(error.to_string(), "spec.ports[1].nodePort: Duplicate value: 30080");
    assert_eq!(cluster.node_ports("a"), [30080]);
}

#[rstest]
#[case(json!({"type": "ClusterIP"}))]
#[case(json!({"type": "ExternalName", "externalName": "x.y"}))]
fn a_type_without_node_ports_gives_them_back(#[case] change: Value) {
    let mut cluster = single();
    cluster.create("a", local(json!([{"port": 80, "nodePort": 30080}]), 30011)).unwrap();
    // Whether the old numbers are still in the object or wiped already.
    assert_eq!(cluster.change("a", change).unwrap().release_ports, [30011, 30080]);
    assert_eq!(cluster.allocated().1, 0);
}

/// Upstream takes the numbers of an ExternalName Service for its own on the way to NodePort.
#[test]
fn numbers_of_an_external_name_are_not_held() {
    let mut cluster = single();
    let named =
        json!({"type": "ExternalName", "externalName": "x.y", "ports": [{"port": 80, "nodePort": 30080}]});
    assert!(cluster.create("ext", named).unwrap().is_empty());
    cluster.create("a", node_port(json!([{"port": 80, "nodePort": 30080}]))).unwrap();
    let error = cluster.change("ext", json!({"type": "NodePort"})).unwrap_err().to_string();
    assert_eq!(error, "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated");
    assert!(cluster.delete("ext").is_empty());
    assert_eq!(cluster.allocated().1, 1);
}

#[test]
fn switching_automatic_node_ports() {
    let mut cluster = single();
    cluster.create("a", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).unwrap();
    let number = cluster.node_ports("a")[0];
    assert!(cluster.change("a", json!({"allocateLoadBalancerNodePorts": false})).unwrap().is_empty());
    let plan = cluster.change("a", json!({"ports": [{"port": 80}]})).unwrap();
    assert_eq!(i32::from(plan.release_ports[0]), number);
    assert_eq!(cluster.node_ports("a"), [0]);
    cluster.change("a", json!({"allocateLoadBalancerNodePorts": true})).unwrap();
    assert_ne!(cluster.node_ports("a"), [0]);
}

#[test]
fn health_check_ports_come_and_go() {
    let mut cluster = single();
    cluster.create("a", local(json!([{"port": 80}]), 0)).unwrap();
    let health = cluster.health_port("a");
    assert!(health >= 30086 && health != cluster.node_ports("a")[0]);
    assert_eq!(cluster.allocated().1, 2);
    let plan = cluster.change("a", json!({"externalTrafficPolicy": "Cluster"})).unwrap();
    assert_eq!(plan.release_ports.iter().map(|p| i32::from(*p)).collect::<Vec<_>>(), [health]);
    let back = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30011});
    let plan = cluster.change("a", back).unwrap();
    assert_eq!(plan.take_ports.iter().map(|c| c.port).collect::<Vec<_>>(), [30011]);
    assert!(cluster.change("a", json!({"selector": {"x": "y"}})).unwrap().is_empty());
    let nodeport = json!({"ports": [{"port": 80, "nodePort": 30011}]});
    let error = cluster.change("a", nodeport).unwrap_err().to_string();
    assert_eq!(error, "spec.ports[0].nodePort: Invalid value: 30011: provided port is already allocated");
    assert_eq!(cluster.delete("a").release_ports.len(), 2);
    assert_eq!(cluster.allocated(), (0, 0));
}

/// Better than upstream's 500: it is the user's mistake.
#[rstest]
#[case(80, "provided port is not in the valid range. The range of valid ports is 30000-32767")]
#[case(70_000, "provided port is not in the valid range. The range of valid ports is 30000-32767")]
#[case(-5, "provided port is not in the valid range. The range of valid ports is 30000-32767")]
#[case(30080, "provided port is already allocated")]
#[case(30090, "provided port is already allocated")]
fn a_health_check_port_that_can_not_be(#[case] health: i32, #[case] why: &str) {
    let mut cluster = single();
    cluster.create("owner", node_port(json!([{"port": 80, "nodePort": 30090}]))).unwrap();
    let error = cluster.create("a", local(json!([{"port": 80, "nodePort": 30080}]), health)).unwrap_err();
    assert!(matches!(error, PlanError::Invalid(_)));
    assert_eq!(error.to_string(), format!("spec.healthCheckNodePort: Invalid value: {health}: {why}"));
    assert_eq!(cluster.allocated(), (1, 1));
}

#[rstest]
#[case(80)]
#[case(29_999)]
#[case(32_768)]
#[case(65_535)]
fn a_node_port_out_of_range(#[case] number: i32) {
    let error = single().create("a", node_port(json!([{"port": 80, "nodePort": number}]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "spec.ports[0].nodePort: Invalid value: {number}: \
             provided port is not in the valid range. The range of valid ports is 30000-32767"
        )
    );
}

#[test]
fn a_dry_update_does_not_count_on_from_the_health_check_port_it_keeps() {
    let mut cluster = single();
    cluster.create("a", local(json!([{"name": "x", "port": 80, "nodePort": 30001}]), 30002)).unwrap();
    let old = cluster.services["a"].clone();
    let mut new = old.clone();
    new.spec.as_mut().unwrap().ports.as_mut().unwrap().push(
        serde_json::from_value(json!({"name": "y", "port": 81, "protocol": "TCP", "targetPort": 81}))
            .unwrap(),
    );
    let options = PlanOptions { dry_run: true };
    let plan = cluster.ledger.plan_update(&old, &mut new, &mut cluster.rng, options).unwrap();
    assert!(plan.is_empty());
    let ports: Vec<_> =
        new.spec.unwrap().ports.iter().flatten().map(|p| p.node_port.unwrap_or_default()).collect();
    assert_eq!(ports, [30001, 32769]);
}
