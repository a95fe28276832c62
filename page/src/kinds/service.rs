//! Services: what the list of them shows, and who holds which address and port by its own word.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString};
use serde::{Deserialize, Serialize};

use super::{Kind, Shown, created, list, slim, text};

/// What is read of a Service.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Service {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    r#type: Option<String>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", deserialize_with = "list")]
    cluster_ips: Vec<String>,
    #[serde(deserialize_with = "list")]
    ports: Vec<ServicePort>,
    selector: Option<BTreeMap<String, String>>,
    external_name: Option<String>,
    health_check_node_port: Option<i32>,
    internal_traffic_policy: Option<String>,
    external_traffic_policy: Option<String>,
    traffic_distribution: Option<String>,
    publish_not_ready_addresses: Option<bool>,
    session_affinity: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServicePort {
    name: Option<String>,
    protocol: Option<String>,
    port: i32,
    target_port: Option<IntOrString>,
    node_port: Option<i32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(deserialize_with = "list")]
    ingress: Vec<Ingress>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: Option<String>,
    hostname: Option<String>,
}

/// A Service as the browser gets it; what is left out has the API's default.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    ns: &'a str,
    name: &'a str,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<PortRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ingress: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    internal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not_ready_too: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<i64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleting: bool,
}

#[derive(Serialize)]
struct PortRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    protocol: &'a str,
    port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<i32>,
}

impl Shown for Service {
    const KIND: Kind = Kind::Services;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn row(&self) -> String {
        let spec = &self.spec;
        let mut ips: Vec<&str> = spec.cluster_ips.iter().map(String::as_str).collect();
        if ips.is_empty() {
            ips.extend(spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty()));
        }
        let ingress = self.status.load_balancer.ingress.iter();
        text(&Row {
            ns: self.metadata.namespace.as_deref().unwrap_or_default(),
            name: self.metadata.name.as_deref().unwrap_or_default(),
            r#type: spec.r#type.as_deref().unwrap_or("ClusterIP"),
            ips,
            ports: spec.ports.iter().map(port).collect(),
            selector: spec.selector.as_ref().filter(|selector| !selector.is_empty()),
            external_name: spec.external_name.as_deref().filter(|name| !name.is_empty()),
            ingress: ingress.filter_map(|at| at.ip.as_deref().or(at.hostname.as_deref())).collect(),
            health: spec.health_check_node_port.filter(|port| *port > 0),
            internal: unless(spec.internal_traffic_policy.as_deref(), "Cluster"),
            external: unless(spec.external_traffic_policy.as_deref(), "Cluster"),
            distribution: spec.traffic_distribution.as_deref(),
            not_ready_too: spec.publish_not_ready_addresses.unwrap_or_default(),
            affinity: unless(spec.session_affinity.as_deref(), "None"),
            created: created(&self.metadata),
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

fn port(port: &ServicePort) -> PortRow<'_> {
    PortRow {
        name: port.name.as_deref().filter(|name| !name.is_empty()),
        protocol: port.protocol.as_deref().unwrap_or("TCP"),
        port: port.port,
        target: port.target_port.as_ref(),
        node: port.node_port.filter(|port| *port > 0),
    }
}

/// A value, unless it is the usual one.
fn unless<'a>(value: Option<&'a str>, usual: &str) -> Option<&'a str> {
    value.filter(|value| *value != usual)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(object: Value) -> Value {
        serde_json::from_str(&serde_json::from_value::<Service>(object).unwrap().row()).unwrap()
    }

    #[test]
    fn what_is_as_usual_is_left_out() {
        let plain = json!({
            "metadata": {"namespace": "demo", "name": "hello", "managedFields": [{"manager": "kubectl"}]},
            "spec": {"clusterIP": "10.96.0.7", "ports": null, "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"},
            "status": {"loadBalancer": {}}
        });
        let expected = json!({"ns": "demo", "name": "hello", "type": "ClusterIP", "ips": ["10.96.0.7"]});
        assert_eq!(row(plain), expected);
    }

    #[test]
    fn what_a_service_holds_is_in_its_row() {
        let whole = json!({
            "metadata": {"namespace": "demo", "name": "lb", "creationTimestamp": "2026-12-01T00:00:00Z", "deletionTimestamp": "2026-12-01T00:00:01Z"},
            "spec": {
                "type": "LoadBalancer", "clusterIPs": ["10.96.0.7", "fd00::7"], "selector": {"app": "lb"},
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web", "nodePort": 30080}, {"port": 81}],
                "healthCheckNodePort": 30900, "externalTrafficPolicy": "Local", "trafficDistribution": "PreferSameZone",
                "publishNotReadyAddresses": true
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.example"}]}}
        });
        let expected = json!({
            "ns": "demo", "name": "lb", "type": "LoadBalancer", "ips": ["10.96.0.7", "fd00::7"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "target": "web", "node": 30080}, {"protocol": "TCP", "port": 81}],
            "selector": {"app": "lb"}, "ingress": ["192.0.2.1", "lb.example"], "health": 30900, "external": "Local",
            "distribution": "PreferSameZone", "notReadyToo": true, "created": 1_796_083_200_000_i64, "deleting": true
        });
        assert_eq!(row(whole), expected);
    }
}
