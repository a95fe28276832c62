//! Defaults that do not depend on the cluster.

use k8s_openapi::api::core::v1::{
    ClientIPConfig, Service, ServiceSpec, ServiceStatus, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::fields::{
    CLUSTER, CLUSTER_IP, LOAD_BALANCER, NODE_PORT, external_policy, externally_accessible, text, type_of,
};
use crate::object::Normalize;

const CLIENT_IP_TIMEOUT_SECONDS: i32 = 10_800;

fn fill(field: &mut Option<String>, value: &str) {
    if text(field.as_ref()).is_empty() {
        *field = Some(value.to_owned());
    }
}

/// Fills in what every cluster fills in alike, and drops empty values.
///
/// Runs on each object a client sends, on reads of old objects, and on the result of a patch.
pub fn default(service: &mut Service) {
    service.normalize();
    let spec = service.spec.get_or_insert_default();
    default_affinity(spec);
    fill(&mut spec.type_, CLUSTER_IP);
    default_ports(spec);
    default_policies(spec);
    if type_of(spec) == LOAD_BALANCER {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
        let status = service.status.get_or_insert_default();
        default_ip_modes(status);
    }
}

fn default_affinity(spec: &mut ServiceSpec) {
    fill(&mut spec.session_affinity, "None");
    match text(spec.session_affinity.as_ref()) {
        "None" => spec.session_affinity_config = None,
        "ClientIP" => {
            let timeout = spec
                .session_affinity_config
                .as_ref()
                .and_then(|c| c.client_ip.as_ref())
                .and_then(|c| c.timeout_seconds);
            if timeout.is_none() {
                spec.session_affinity_config = Some(SessionAffinityConfig {
                    client_ip: Some(ClientIPConfig { timeout_seconds: Some(CLIENT_IP_TIMEOUT_SECONDS) }),
                });
            }
        }
        _ => {}
    }
}

fn default_ports(spec: &mut ServiceSpec) {
    for port in spec.ports.iter_mut().flatten() {
        fill(&mut port.protocol, "TCP");
        let unset = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(name)) => name.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if unset {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
}

fn default_policies(spec: &mut ServiceSpec) {
    if externally_accessible(spec) && external_policy(spec).is_empty() {
        spec.external_traffic_policy = Some(CLUSTER.to_owned());
    }
    if matches!(type_of(spec), CLUSTER_IP | NODE_PORT | LOAD_BALANCER) {
        spec.internal_traffic_policy.get_or_insert_with(|| CLUSTER.to_owned());
    }
}

fn default_ip_modes(status: &mut ServiceStatus) {
    let ingress = status.load_balancer.iter_mut().flat_map(|lb| lb.ingress.iter_mut().flatten());
    for entry in ingress {
        if entry.ip.as_ref().is_some_and(|ip| !ip.is_empty()) {
            entry.ip_mode.get_or_insert_with(|| "VIP".to_owned());
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // values are written inline
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn defaulted(spec: Value) -> Value {
        let mut service: Service = serde_json::from_value(json!({
            "metadata": {"name": "a"}, "spec": spec,
        }))
        .unwrap();
        default(&mut service);
        serde_json::to_value(&service).unwrap()
    }

    #[test]
    fn a_minimal_service_gets_all_static_defaults() {
        assert_eq!(
            defaulted(json!({"ports": [{"port": 80}]}))["spec"],
            json!({
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
            })
        );
    }

    #[test]
    fn affinity_by_client_gets_three_hours() {
        let spec = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {}});
        assert_eq!(
            defaulted(spec)["spec"]["sessionAffinityConfig"],
            json!({"clientIP": {"timeoutSeconds": 10800}})
        );
    }

    #[rstest]
    #[case(json!({"type": "ExternalName"}), Value::Null)]
    #[case(json!({"type": "ClusterIP"}), Value::Null)]
    #[case(json!({"externalIPs": ["203.0.113.1"]}), json!("Cluster"))]
    #[case(json!({"type": "NodePort"}), json!("Cluster"))]
    #[case(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}), json!("Local"))]
    fn external_policy_where_it_applies(#[case] spec: Value, #[case] expected: Value) {
        assert_eq!(defaulted(spec)["spec"]["externalTrafficPolicy"], expected);
    }

    #[test]
    fn an_empty_internal_policy_is_not_defaulted() {
        let spec = json!({"internalTrafficPolicy": ""});
        assert_eq!(defaulted(spec)["spec"]["internalTrafficPolicy"], "");
    }

    #[test]
    fn load_balancer_addresses_are_virtual_unless_said_otherwise() {
        let mut service: Service = serde_json::from_value(json!({
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.1"}, {"hostname": "a.b"}, {"ip": "192.0.2.2", "ipMode": "Proxy"},
            ]}},
        }))
        .unwrap();
        default(&mut service);
        let value = serde_json::to_value(&service).unwrap();
        let ingress = &value["status"]["loadBalancer"]["ingress"];
        assert_eq!(ingress[0]["ipMode"], "VIP");
        assert_eq!(ingress[1]["ipMode"], Value::Null);
        assert_eq!(ingress[2]["ipMode"], "Proxy");
    }
}
