//! What a create or an update changes before it is validated: fields a client may not set, values
//! an update may leave out, and values that stop making sense when the type changes.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceSpec, ServiceStatus};

use super::carry_over_node_ports;
use super::fields::{
    LOAD_BALANCER, cluster_ip, cluster_ips, external_policy, externally_accessible, families,
    health_check_port, needs_cluster_ip, needs_health_check, needs_node_port, node_port, policy, ports,
    same_cluster_ips, spec_of, type_of,
};
use crate::meta;

/// Prepares a defaulted Service for a create: the status goes, `clusterIPs` follows `clusterIP`.
pub fn prepare_create(service: &mut Service) {
    meta::prepare_create(&mut service.metadata);
    service.status = Some(empty_status());
    let spec = service.spec.get_or_insert_default();
    if !cluster_ip(spec).is_empty() && cluster_ips(spec).is_empty() {
        spec.cluster_ips = Some(vec![cluster_ip(spec).to_owned()]);
    }
}

fn empty_status() -> ServiceStatus {
    ServiceStatus { load_balancer: Some(LoadBalancerStatus::default()), ..ServiceStatus::default() }
}

/// Prepares a defaulted Service for an update of the main resource: carries over what was
/// allocated, wipes what the new type has no use for, keeps the status.
pub fn prepare_update(new: &mut Service, old: &Service) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    new.status = Some(old.status.clone().unwrap_or_else(empty_status));
    carry_over(new, old);
    drop_type_dependent(new, old);
}

/// Prepares an update of the status subresource: everything but status and metadata stays.
pub fn prepare_status_update(new: &mut Service, old: &Service) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    new.spec.clone_from(&old.spec);
}

/// Fills in allocated values that the update left out, so that a client can send the object it
/// created once more.
pub fn carry_over(new: &mut Service, old: &Service) {
    let old = spec_of(old);
    let new = new.spec.get_or_insert_default();
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if cluster_ip(new).is_empty() {
            new.cluster_ip.clone_from(&old.cluster_ip);
        }
        if cluster_ips(new).is_empty() && !cluster_ips(old).is_empty() {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    match_cluster_ips(new, old);
    if needs_node_port(old) && gets_node_ports(new) {
        carry_over_node_ports(new, old);
    }
    if needs_health_check(old) && needs_health_check(new) && health_check_port(new) == 0 {
        new.health_check_node_port = old.health_check_node_port;
    }
}

/// Whether ports without a node port are given one; without it, leaving a node port out gives it
/// up.
fn gets_node_ports(spec: &ServiceSpec) -> bool {
    let switched_off =
        type_of(spec) == LOAD_BALANCER && spec.allocate_load_balancer_node_ports == Some(false);
    needs_node_port(spec) && !switched_off
}

/// Old clients know `clusterIP` only: `clusterIPs` follows it when they changed just that.
fn match_cluster_ips(new: &mut ServiceSpec, old: &ServiceSpec) {
    if !cluster_ips(old).is_empty() && cluster_ips(new).is_empty() && cluster_ip(old) == cluster_ip(new) {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
    let same_list = cluster_ips(old) == cluster_ips(new);
    if cluster_ip(old) == cluster_ip(new) || !same_list {
        return;
    }
    new.cluster_ips = if !cluster_ip(old).is_empty() && cluster_ip(new).is_empty() {
        None
    } else {
        Some(vec![cluster_ip(new).to_owned()])
    };
}

/// Wipes fields that the new type has no use for, unless the update changed them too: then
/// validation shall refuse them.
pub fn drop_type_dependent(new: &mut Service, old: &Service) {
    let old = spec_of(old);
    let spec = new.spec.get_or_insert_default();
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        drop_cluster_ips(spec, old);
    }
    if needs_node_port(old) && !needs_node_port(spec) && adds_no_node_port(spec, old) {
        for port in spec.ports.iter_mut().flatten() {
            port.node_port = None;
        }
    }
    if needs_health_check(old)
        && !needs_health_check(spec)
        && health_check_port(old) == health_check_port(spec)
    {
        spec.health_check_node_port = None;
    }
    if type_of(old) == LOAD_BALANCER && type_of(spec) != LOAD_BALANCER {
        if spec.allocate_load_balancer_node_ports == old.allocate_load_balancer_node_ports {
            spec.allocate_load_balancer_node_ports = None;
        }
        if spec.load_balancer_class == old.load_balancer_class {
            spec.load_balancer_class = None;
        }
    }
    if externally_accessible(old)
        && !externally_accessible(spec)
        && external_policy(old) == external_policy(spec)
    {
        spec.external_traffic_policy = None;
    }
    if type_of(spec) != LOAD_BALANCER {
        new.status.get_or_insert_default().load_balancer = Some(LoadBalancerStatus::default());
    }
}

fn drop_cluster_ips(new: &mut ServiceSpec, old: &ServiceSpec) {
    if same_cluster_ips(old, new) {
        new.cluster_ip = None;
        new.cluster_ips = None;
    }
    if families(old) == families(new) {
        new.ip_families = None;
    }
    if policy(old) == policy(new) {
        new.ip_family_policy = None;
    }
}

fn adds_no_node_port(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    let had: HashSet<i32> = ports(old).iter().map(node_port).collect();
    ports(new).iter().map(node_port).filter(|n| *n != 0).all(|n| had.contains(&n))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // values are written inline
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn update(old: Value, new: Value) -> Value {
        let old = service(old);
        let mut new = service(new);
        prepare_update(&mut new, &old);
        serde_json::to_value(&new.spec).unwrap()
    }

    #[rstest]
    #[case(json!({"clusterIP": "10.0.0.1"}), json!(["10.0.0.1"]))]
    #[case(json!({"clusterIPs": ["10.0.0.1"]}), json!(["10.0.0.1"]))]
    #[case(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}), json!(["10.0.0.2"]))]
    fn a_create_lets_the_list_follow(#[case] spec: Value, #[case] expected: Value) {
        let mut service = service(spec);
        prepare_create(&mut service);
        assert_eq!(serde_json::to_value(&service.spec).unwrap()["clusterIPs"], expected);
    }

    #[rstest]
    #[case::nothing_said(json!({}), json!("10.0.0.1"), json!(["10.0.0.1", "fd00::1"]))]
    #[case::one_said(json!({"clusterIP": "10.0.0.1"}), json!("10.0.0.1"), json!(["10.0.0.1", "fd00::1"]))]
    #[case::other(json!({"clusterIP": "10.0.0.9"}), json!("10.0.0.9"), json!(["10.0.0.9"]))]
    #[case::other_with_list(
        json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.1", "fd00::1"]}),
        json!("10.0.0.9"),
        json!(["10.0.0.9"])
    )]
    fn addresses_are_carried_over(#[case] new: Value, #[case] ip: Value, #[case] ips: Value) {
        let old =
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]});
        let mut new = new;
        new["type"] = json!("ClusterIP");
        let spec = update(old, new);
        assert_eq!(spec["clusterIP"], ip);
        assert_eq!(spec["clusterIPs"], ips);
    }

    #[rstest]
    #[case(json!(false), Value::Null)]
    #[case(json!(true), json!(30001))]
    fn a_node_port_left_out_is_given_up_if_none_would_be_allocated(
        #[case] allocate: Value,
        #[case] expected: Value,
    ) {
        let old = json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30001}]});
        let new = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": allocate, "ports": [{"port": 80}]});
        assert_eq!(update(old, new)["ports"][0]["nodePort"], expected);
    }

    #[test]
    fn a_change_to_external_name_wipes_addresses() {
        let old = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
        let mut new = old.clone();
        new["type"] = json!("ExternalName");
        assert_eq!(update(old, new), json!({"type": "ExternalName"}));
    }

    #[test]
    fn a_load_balancer_that_becomes_cluster_ip_loses_what_only_it_has() {
        let old = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002,
            "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a/b",
            "ports": [{"port": 80, "nodePort": 30001}],
        });
        let mut new = old.clone();
        new["type"] = json!("ClusterIP");
        assert_eq!(update(old, new), json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
    }

    #[test]
    fn a_node_port_that_was_changed_with_the_type_stays_to_be_refused() {
        let old = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
        let new = json!({"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30002}]});
        assert_eq!(update(old, new)["ports"][0]["nodePort"], 30002);
    }

    #[test]
    fn the_status_stays_unless_the_type_changes() {
        let mut old = service(json!({"type": "LoadBalancer"}));
        old.status = serde_json::from_value(json!({
            "loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]},
            "conditions": [{"type": "A", "status": "True", "reason": "B", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
        }))
        .unwrap();
        let mut same = service(json!({"type": "LoadBalancer"}));
        prepare_update(&mut same, &old);
        assert_eq!(same.status, old.status);
        let mut other = service(json!({"type": "NodePort"}));
        prepare_update(&mut other, &old);
        let status = other.status.unwrap();
        assert_eq!(status.load_balancer, Some(LoadBalancerStatus::default()));
        assert_eq!(status.conditions, old.status.unwrap().conditions);
    }
}
