//! One Service as the browser shows it: the object, and its slices with every endpoint. Pure.

use serde::Serialize;
use serde_json::Value;

use crate::kinds::{Endpoint, Slice, key_of};

/// A Service and its slices.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceView {
    /// The object, without what only its writers need; none if there is no such Service.
    object: Option<Value>,
    slices: Vec<SliceView>,
}

#[derive(Debug, Serialize)]
struct SliceView {
    name: String,
    family: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<String>,
    ports: Value,
    endpoints: Vec<EndpointView>,
    version: String,
}

/// An endpoint; lists and texts that are empty are left out, since there may be many.
#[derive(Debug, Serialize)]
struct EndpointView {
    address: String,
    condition: crate::kinds::Condition,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// What it stands for: a pod's namespace and name, or kind, namespace and name of something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    zones: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
}

/// Puts the view together; slices come in the order of their names.
pub(crate) fn service(object: Option<Value>, mut slices: Vec<Slice>) -> ServiceView {
    slices.sort_by_cached_key(|slice| key_of(&slice.metadata));
    ServiceView { object: object.map(bare), slices: slices.into_iter().map(slice).collect() }
}

/// An object without its field owners.
pub(crate) fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn slice(slice: Slice) -> SliceView {
    SliceView {
        manager: slice.manager().map(str::to_owned),
        ports: serde_json::to_value(&slice.ports).unwrap_or_default(),
        endpoints: slice.endpoints.into_iter().map(endpoint).collect(),
        name: slice.metadata.name.unwrap_or_default(),
        version: slice.metadata.resource_version.unwrap_or_default(),
        family: slice.address_type,
    }
}

fn endpoint(endpoint: Endpoint) -> EndpointView {
    let hints = endpoint.hints.unwrap_or_default();
    EndpointView {
        address: endpoint.addresses.into_iter().next().unwrap_or_default(),
        condition: endpoint.conditions.meaning(),
        zone: endpoint.zone,
        node: endpoint.node_name,
        target: endpoint.target_ref.map(|target| {
            let kind = target.kind.filter(|kind| kind != "Pod");
            let parts = [kind, target.namespace, target.name];
            parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        }),
        hostname: endpoint.hostname,
        zones: hints.zones().map(str::to_owned).collect(),
        nodes: hints.nodes().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_are_shown_with_conditions_zones_and_hints() {
        let later = json!({"metadata": {"namespace": "demo", "name": "b"}, "addressType": "IPv6"});
        let first = json!({
            "metadata": {"namespace": "demo", "name": "a", "resourceVersion": "9",
                "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": null}],
            "endpoints": [{
                "addresses": ["10.0.0.1"], "conditions": {"ready": true}, "zone": "a", "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "demo", "name": "p"}, "hints": {"forZones": [{"name": "b"}], "forNodes": [{"name": "n2"}]}
            }, {"addresses": [], "targetRef": {"kind": "Machine", "name": "m"}}]
        });
        let slices = [later, first].map(|slice| serde_json::from_value(slice).unwrap());
        let object = json!({"metadata": {"name": "hello", "managedFields": []}});
        let view = serde_json::to_value(service(Some(object), slices.into())).unwrap();
        assert_eq!(view["object"], json!({"metadata": {"name": "hello"}}));
        let expected = json!({
            "name": "a", "family": "IPv4", "manager": "endpointslice-controller.k8s.io", "version": "9",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
            "endpoints": [
                {"address": "10.0.0.1", "condition": "ready", "zone": "a", "node": "n1", "target": "demo/p", "zones": ["b"], "nodes": ["n2"]},
                {"address": "", "condition": "ready", "target": "Machine/m"}
            ]
        });
        assert_eq!(view["slices"][0], expected);
        assert_eq!(view["slices"][1]["name"], "b");
    }
}
