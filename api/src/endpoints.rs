//! What an Endpoints object means (core/v1, deprecated since v1.33).

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};

use crate::address::{ip_faults, ip_warnings, to_errors, validate_endpoint_ip};
use crate::errors::{BadValue, FieldErrors, Path, invalid, not_supported, required};
use crate::meta::{self, Naming};
use crate::names;
use crate::object::Normalize;
use crate::service::PROTOCOLS;

/// The warning that goes with every request for Endpoints, reads and deletes included.
pub const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

/// Fills in protocols and drops empty values.
pub fn default(endpoints: &mut Endpoints) {
    endpoints.normalize();
    for subset in endpoints.subsets.iter_mut().flatten() {
        for port in subset.ports.iter_mut().flatten() {
            port.protocol.get_or_insert_with(|| "TCP".to_owned());
        }
    }
}

/// Prepares defaulted Endpoints for a create.
pub fn prepare_create(endpoints: &mut Endpoints) {
    meta::prepare_create(&mut endpoints.metadata);
}

/// Prepares defaulted Endpoints for an update.
pub fn prepare_update(new: &mut Endpoints, old: &Endpoints) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
}

/// Errors of Endpoints that shall be created.
pub fn validate_create(endpoints: &Endpoints) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&endpoints.metadata, Naming::SUBDOMAIN);
    errors.extend(validate_subsets(endpoints));
    errors
}

/// Errors of an update: those of the change, and all that new Endpoints may have.
pub fn validate_update(new: &Endpoints, old: &Endpoints) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    errors.extend(validate_create(new));
    errors
}

fn validate_subsets(endpoints: &Endpoints) -> FieldErrors {
    let path = Path::root("subsets");
    endpoints
        .subsets
        .iter()
        .flatten()
        .enumerate()
        .flat_map(|(i, subset)| validate_subset(subset, &path.index(i)))
        .collect()
}

/// Address lists of a subset with the names of their fields.
fn address_lists(subset: &EndpointSubset) -> [(&'static str, &[EndpointAddress]); 2] {
    [
        ("addresses", subset.addresses.as_deref().unwrap_or_default()),
        ("notReadyAddresses", subset.not_ready_addresses.as_deref().unwrap_or_default()),
    ]
}

fn validate_subset(subset: &EndpointSubset, path: &Path) -> FieldErrors {
    let lists = address_lists(subset);
    let mut errors = FieldErrors::new();
    if lists.iter().all(|(_, list)| list.is_empty()) {
        errors.push(required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (field, list) in lists {
        for (i, address) in list.iter().enumerate() {
            errors.extend(validate_address(address, &path.child(field).index(i)));
        }
    }
    let ports = subset.ports.as_deref().unwrap_or_default();
    for (i, port) in ports.iter().enumerate() {
        let needs_name = ports.len() > 1;
        errors.extend(validate_port(port, needs_name, &path.child("ports").index(i)));
    }
    errors
}

fn validate_address(address: &EndpointAddress, path: &Path) -> FieldErrors {
    let ip = path.child("ip");
    let mut errors = to_errors(&ip, &address.ip, ip_faults(&address.ip));
    let hostname = address.hostname.as_deref().unwrap_or_default();
    if !hostname.is_empty() {
        let faults = names::dns_label(hostname);
        errors.extend(to_errors(&path.child("hostname"), hostname, faults));
    }
    if let Some(node) = &address.node_name {
        let faults = names::dns_subdomain(node);
        errors.extend(to_errors(&path.child("nodeName"), node, faults));
    }
    errors.extend(validate_endpoint_ip(&ip, &address.ip));
    errors
}

fn validate_port(port: &EndpointPort, needs_name: bool, path: &Path) -> FieldErrors {
    let name = port.name.as_deref().unwrap_or_default();
    let field = path.child("name");
    let mut errors = FieldErrors::new();
    if !name.is_empty() {
        errors.extend(to_errors(&field, name, names::dns_label(name)));
    } else if needs_name {
        errors.push(required(&field, ""));
    }
    for fault in names::port_number(port.port) {
        errors.push(invalid(path.child("port"), port.port, fault));
    }
    let field = path.child("protocol");
    match port.protocol.as_deref().unwrap_or_default() {
        "" => errors.push(required(&field, "")),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.push(not_supported(&field, BadValue::named(other), &PROTOCOLS)),
    }
    if let Some(protocol) = &port.app_protocol {
        for fault in names::qualified_name(protocol) {
            errors.push(invalid(path.child("appProtocol"), protocol, fault));
        }
    }
    errors
}

/// Warnings about spellings, besides [`DEPRECATED`]. Endpoints of Kubernetes' own controller are
/// not looked at.
pub fn warnings(new: &Endpoints, _old: Option<&Endpoints>) -> Vec<String> {
    let manager = new.metadata.labels.as_ref().and_then(|l| l.get(MANAGED_BY));
    if manager.is_some_and(|m| m == CONTROLLER) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (i, subset) in new.subsets.iter().flatten().enumerate() {
        for (field, list) in address_lists(subset) {
            let path = Path::root("subsets").index(i).child(field);
            for (j, address) in list.iter().enumerate() {
                out.extend(ip_warnings(&path.index(j).child("ip"), &address.ip));
            }
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // values are written inline
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors_of(subset: Value) -> Vec<String> {
        let mut endpoints: Endpoints = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "default"}, "subsets": [subset],
        }))
        .unwrap();
        default(&mut endpoints);
        validate_create(&endpoints).iter().map(|e| e.to_string().replacen("subsets[0].", "", 1)).collect()
    }

    #[test]
    fn every_part_of_an_address_is_checked() {
        let found = errors_of(json!({
            "addresses": [{"ip": "10.0.0.1", "hostname": "A", "nodeName": "B"}],
            "notReadyAddresses": [{"ip": "127.0.0.1"}],
            "ports": [{"port": 80, "appProtocol": "a b"}],
        }));
        let fields: Vec<_> = found.iter().map(|e| e.split(':').next().unwrap()).collect();
        assert_eq!(
            fields,
            [
                "addresses[0].hostname",
                "addresses[0].nodeName",
                "notReadyAddresses[0].ip",
                "ports[0].appProtocol"
            ]
        );
    }

    #[test]
    fn an_update_judges_the_metadata_once_more_as_a_create_does() {
        let of = |labels: Value| -> Endpoints {
            serde_json::from_value(json!({"metadata": {
                "name": "a", "namespace": "default", "resourceVersion": "1", "labels": labels,
            }}))
            .unwrap()
        };
        assert_eq!(validate_create(&of(json!({"k": "-"}))).len(), 1);
        let found = validate_update(&of(json!({"k": "-"})), &of(json!({})));
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn not_ready_addresses_are_enough() {
        assert!(errors_of(json!({"notReadyAddresses": [{"ip": "10.0.0.1"}]})).is_empty());
    }
}
