//! Objects as Go holds and prints them: empty values count as absent, and some absent values are
//! printed nevertheless.
//!
//! [`Normalize`] works on typed objects; [`complete`] on JSON that is about to be sent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EndpointAddress, Endpoints, LoadBalancerStatus, ObjectReference, Service, ServiceSpec, ServiceStatus,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

/// Drops what Go's JSON encoder leaves out: empty strings, lists and maps, zeros and `false`
/// where the type has no way to tell them from absent.
pub trait Normalize {
    /// Brings `self` into the form it has after a round trip through Go.
    fn normalize(&mut self);
}

fn text(field: &mut Option<String>) {
    if field.as_ref().is_some_and(String::is_empty) {
        *field = None;
    }
}

fn list<T>(field: &mut Option<Vec<T>>) {
    if field.as_ref().is_some_and(Vec::is_empty) {
        *field = None;
    }
}

fn map(field: &mut Option<BTreeMap<String, String>>) {
    if field.as_ref().is_some_and(BTreeMap::is_empty) {
        *field = None;
    }
}

fn zero<T: Default + PartialEq>(field: &mut Option<T>) {
    if field.as_ref() == Some(&T::default()) {
        *field = None;
    }
}

impl Normalize for ObjectMeta {
    fn normalize(&mut self) {
        for field in [
            &mut self.name,
            &mut self.generate_name,
            &mut self.namespace,
            &mut self.self_link,
            &mut self.uid,
            &mut self.resource_version,
        ] {
            text(field);
        }
        zero(&mut self.generation);
        map(&mut self.labels);
        map(&mut self.annotations);
        list(&mut self.owner_references);
        list(&mut self.finalizers);
        list(&mut self.managed_fields);
        for entry in self.managed_fields.iter_mut().flatten() {
            for field in [
                &mut entry.manager,
                &mut entry.operation,
                &mut entry.api_version,
                &mut entry.fields_type,
                &mut entry.subresource,
            ] {
                text(field);
            }
        }
    }
}

impl Normalize for Service {
    fn normalize(&mut self) {
        self.metadata.normalize();
        if let Some(spec) = &mut self.spec {
            spec.normalize();
        }
        self.status.get_or_insert_default().normalize();
    }
}

impl Normalize for ServiceSpec {
    fn normalize(&mut self) {
        for field in [
            &mut self.cluster_ip,
            &mut self.type_,
            &mut self.session_affinity,
            &mut self.load_balancer_ip,
            &mut self.external_name,
            &mut self.external_traffic_policy,
        ] {
            text(field);
        }
        for field in [
            &mut self.cluster_ips,
            &mut self.external_ips,
            &mut self.ip_families,
            &mut self.load_balancer_source_ranges,
        ] {
            list(field);
        }
        list(&mut self.ports);
        map(&mut self.selector);
        zero(&mut self.health_check_node_port);
        zero(&mut self.publish_not_ready_addresses);
        for port in self.ports.iter_mut().flatten() {
            text(&mut port.name);
            text(&mut port.protocol);
            zero(&mut port.node_port);
        }
    }
}

impl Normalize for ServiceStatus {
    fn normalize(&mut self) {
        list(&mut self.conditions);
        self.load_balancer.get_or_insert_default().normalize();
        for condition in self.conditions.iter_mut().flatten() {
            zero(&mut condition.observed_generation);
        }
    }
}

impl Normalize for LoadBalancerStatus {
    fn normalize(&mut self) {
        list(&mut self.ingress);
        for entry in self.ingress.iter_mut().flatten() {
            text(&mut entry.ip);
            text(&mut entry.hostname);
            list(&mut entry.ports);
        }
    }
}

impl Normalize for ObjectReference {
    fn normalize(&mut self) {
        for field in [
            &mut self.api_version,
            &mut self.kind,
            &mut self.namespace,
            &mut self.name,
            &mut self.uid,
            &mut self.resource_version,
            &mut self.field_path,
        ] {
            text(field);
        }
    }
}

impl Normalize for EndpointAddress {
    fn normalize(&mut self) {
        text(&mut self.hostname);
        if let Some(target) = &mut self.target_ref {
            target.normalize();
        }
    }
}

impl Normalize for Endpoints {
    fn normalize(&mut self) {
        self.metadata.normalize();
        list(&mut self.subsets);
        for subset in self.subsets.iter_mut().flatten() {
            list(&mut subset.addresses);
            list(&mut subset.not_ready_addresses);
            list(&mut subset.ports);
            let addresses = subset.addresses.iter_mut().flatten();
            for address in addresses.chain(subset.not_ready_addresses.iter_mut().flatten()) {
                address.normalize();
            }
            for port in subset.ports.iter_mut().flatten() {
                text(&mut port.name);
                text(&mut port.protocol);
            }
        }
    }
}

impl Normalize for EndpointSlice {
    fn normalize(&mut self) {
        self.metadata.normalize();
        list(&mut self.endpoints);
        list(&mut self.ports);
        for endpoint in self.endpoints.iter_mut().flatten() {
            endpoint.normalize();
        }
    }
}

impl Normalize for Endpoint {
    fn normalize(&mut self) {
        self.conditions.get_or_insert_default();
        map(&mut self.deprecated_topology);
        if let Some(hints) = &mut self.hints {
            list(&mut hints.for_zones);
            list(&mut hints.for_nodes);
        }
        if let Some(target) = &mut self.target_ref {
            target.normalize();
        }
    }
}

impl Normalize for ServiceCIDR {
    fn normalize(&mut self) {
        self.metadata.normalize();
        self.spec.get_or_insert_default();
        let status = self.status.get_or_insert_default();
        list(&mut status.conditions);
        for condition in status.conditions.iter_mut().flatten() {
            zero(&mut condition.observed_generation);
        }
    }
}

fn entry<'a>(map: &'a mut Map<String, Value>, key: &str, default: Value) -> &'a mut Value {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = default;
    }
    slot
}

fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    entry(map, key, json!({})).as_object_mut()
}

/// Adds to an object of `kind` what Go's encoder prints though it is empty: structs that are no
/// pointers (`status: {"loadBalancer": {}}`), and lists without `omitempty` (`ports: null`).
///
/// `value` is the whole object as JSON; kinds without such fields stay as they are.
pub fn complete(kind: &str, value: &mut Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    object(map, "metadata");
    match kind {
        "Service" => {
            object(map, "spec");
            if let Some(status) = object(map, "status") {
                object(status, "loadBalancer");
            }
        }
        "EndpointSlice" => complete_slice(map),
        "ServiceCIDR" | "Namespace" => {
            object(map, "spec");
            object(map, "status");
        }
        "IPAddress" | "Lease" => {
            object(map, "spec");
        }
        "Event" => complete_event(map),
        "Node" => complete_node(map),
        "Pod" => complete_pod(map),
        _ => {}
    }
}

fn complete_slice(map: &mut Map<String, Value>) {
    let endpoints = entry(map, "endpoints", Value::Null);
    for endpoint in endpoints.as_array_mut().into_iter().flatten() {
        if let Some(endpoint) = endpoint.as_object_mut() {
            entry(endpoint, "addresses", Value::Null);
            object(endpoint, "conditions");
        }
    }
    entry(map, "ports", Value::Null);
    entry(map, "addressType", json!(""));
}

fn complete_event(map: &mut Map<String, Value>) {
    object(map, "involvedObject");
    object(map, "source");
    entry(map, "firstTimestamp", Value::Null);
    entry(map, "lastTimestamp", Value::Null);
    entry(map, "eventTime", Value::Null);
    entry(map, "reportingComponent", json!(""));
    entry(map, "reportingInstance", json!(""));
}

fn complete_node(map: &mut Map<String, Value>) {
    object(map, "spec");
    let Some(status) = object(map, "status") else {
        return;
    };
    if let Some(endpoints) = object(status, "daemonEndpoints") {
        let kubelet = object(endpoints, "kubeletEndpoint");
        if let Some(kubelet) = kubelet {
            entry(kubelet, "Port", json!(0));
        }
    }
    if let Some(info) = object(status, "nodeInfo") {
        for field in [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ] {
            entry(info, field, json!(""));
        }
    }
}

fn complete_pod(map: &mut Map<String, Value>) {
    if let Some(spec) = object(map, "spec") {
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(container) = container.as_object_mut() {
                    object(container, "resources");
                }
            }
        }
        entry(spec, "containers", Value::Null);
    }
    object(map, "status");
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn normalized<T>(value: Value) -> Value
    where
        T: Normalize + serde::Serialize + serde::de::DeserializeOwned,
    {
        let mut object: T = serde_json::from_value(value).unwrap();
        object.normalize();
        serde_json::to_value(&object).unwrap()
    }

    #[test]
    fn empty_values_of_a_service_go() {
        let spec = json!({
            "clusterIP": "", "type": "", "ports": [{"port": 80, "nodePort": 0, "name": ""}],
            "selector": {}, "externalIPs": [], "healthCheckNodePort": 0,
            "publishNotReadyAddresses": false, "sessionAffinityConfig": {},
            "allocateLoadBalancerNodePorts": false, "internalTrafficPolicy": "",
        });
        let value = json!({"metadata": {"name": "a", "labels": {}, "generation": 0}, "spec": spec});
        assert_eq!(
            normalized::<Service>(value),
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "a"},
                "spec": {
                    "ports": [{"port": 80}], "sessionAffinityConfig": {},
                    "allocateLoadBalancerNodePorts": false, "internalTrafficPolicy": "",
                },
                "status": {"loadBalancer": {}},
            })
        );
    }

    #[test]
    fn what_a_create_must_judge_is_kept() {
        let value = json!({"spec": {"clusterIPs": [""]}});
        assert_eq!(normalized::<Service>(value)["spec"]["clusterIPs"], json!([""]));
    }

    #[rstest]
    #[case("Service", json!({}), json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}))]
    #[case(
        "EndpointSlice",
        json!({"metadata": {}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        json!({"metadata": {}, "addressType": "IPv4", "ports": null, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}]})
    )]
    #[case("EndpointSlice", json!({"addressType": "IPv4"}), json!({"metadata": {}, "addressType": "IPv4", "ports": null, "endpoints": null}))]
    #[case("ConfigMap", json!({"data": {}}), json!({"metadata": {}, "data": {}}))]
    fn printed_though_empty(#[case] kind: &str, #[case] value: Value, #[case] expected: Value) {
        let mut value = value;
        complete(kind, &mut value);
        assert_eq!(value, expected);
    }
}
