//! What an EndpointSlice means (`discovery.k8s.io/v1`, KEP-752, KEP-2433 for hints).

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice};

use crate::address::{
    Family, canonical_ip_faults, ip_faults, ip_warnings, parse_lenient, to_errors, validate_endpoint_ip,
};
use crate::errors::{
    BadValue, FieldErrors, Path, duplicate, internal, invalid, not_supported, required, too_many,
};
use crate::meta::{self, Naming};
use crate::names;
use crate::object::Normalize;
use crate::service::PROTOCOLS;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// Fills in port names and protocols, and drops empty values.
pub fn default(slice: &mut EndpointSlice) {
    slice.normalize();
    for port in slice.ports.iter_mut().flatten() {
        port.name.get_or_insert_with(String::new);
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
    }
}

/// Prepares a defaulted slice for a create: generation 1, no topology of older API versions.
pub fn prepare_create(slice: &mut EndpointSlice) {
    meta::prepare_create(&mut slice.metadata);
    slice.metadata.generation = Some(1);
    drop_topology(slice, None);
}

/// Prepares a defaulted slice for an update: the generation grows when labels or content change.
pub fn prepare_update(new: &mut EndpointSlice, old: &EndpointSlice) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    let changed = new.metadata.labels != old.metadata.labels
        || new.address_type != old.address_type
        || !same_list(new.endpoints.as_ref(), old.endpoints.as_ref())
        || !same_list(new.ports.as_ref(), old.ports.as_ref());
    if changed {
        new.metadata.generation = Some(old.metadata.generation.unwrap_or(0) + 1);
    }
    if new.endpoints != old.endpoints {
        drop_topology(new, Some(old));
    }
}

/// An absent list equals an empty one.
fn same_list<T: PartialEq>(a: Option<&Vec<T>>, b: Option<&Vec<T>>) -> bool {
    a.map_or(&[][..], Vec::as_slice) == b.map_or(&[][..], Vec::as_slice)
}

/// The v1 API has no `topology`; a node name that an older version kept there moves to
/// `nodeName`.
fn drop_topology(slice: &mut EndpointSlice, old: Option<&EndpointSlice>) {
    let known: BTreeSet<String> = old
        .and_then(|o| o.endpoints.as_ref())
        .into_iter()
        .flatten()
        .filter_map(|e| e.deprecated_topology.as_ref()?.get(HOSTNAME_LABEL).cloned())
        .collect();
    for endpoint in slice.endpoints.iter_mut().flatten() {
        let topology = endpoint.deprecated_topology.take();
        let node = topology.as_ref().and_then(|t| t.get(HOSTNAME_LABEL));
        if let Some(node) = node
            && endpoint.node_name.is_none()
            && known.contains(node)
            && names::dns_subdomain(node).is_empty()
        {
            endpoint.node_name = Some(node.clone());
        }
    }
}

/// Errors of a slice that shall be created.
pub fn validate_create(slice: &EndpointSlice) -> FieldErrors {
    let mut errors = validate_head(slice);
    errors.extend(validate_endpoints(slice, &Path::root("endpoints")));
    errors
}

/// Errors of all but the endpoints.
fn validate_head(slice: &EndpointSlice) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&slice.metadata, Naming::SUBDOMAIN);
    match slice.address_type.as_str() {
        "" => errors.push(required("addressType", "")),
        known if ADDRESS_TYPES.contains(&known) => {}
        other => errors.push(not_supported("addressType", BadValue::named(other), &ADDRESS_TYPES)),
    }
    errors.extend(validate_ports(slice, &Path::root("ports")));
    errors
}

/// Errors of an update: the address type stays. Endpoints that stay as they were are not judged anew.
pub fn validate_update(new: &EndpointSlice, old: &EndpointSlice) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update_common(&new.metadata, &old.metadata);
    errors.extend(validate_head(new));
    if new.endpoints != old.endpoints {
        errors.extend(validate_endpoints(new, &Path::root("endpoints")));
    }
    if new.address_type != old.address_type {
        errors.push(invalid("addressType", BadValue::named(&new.address_type), meta::IMMUTABLE));
    }
    errors
}

fn validate_endpoints(slice: &EndpointSlice, path: &Path) -> FieldErrors {
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    if endpoints.len() > MAX_ENDPOINTS {
        return vec![too_many(path, endpoints.len(), MAX_ENDPOINTS)].into();
    }
    endpoints
        .iter()
        .enumerate()
        .flat_map(|(i, endpoint)| {
            let path = path.index(i);
            let mut errors = validate_addresses(endpoint, &slice.address_type, &path);
            errors.extend(validate_endpoint(endpoint, &path));
            errors
        })
        .collect()
}

fn validate_addresses(endpoint: &Endpoint, address_type: &str, path: &Path) -> FieldErrors {
    let list = path.child("addresses");
    let mut errors = FieldErrors::new();
    let count = endpoint.addresses.len();
    if count == 0 {
        errors.push(required(&list, "must contain at least 1 address"));
    } else if count > MAX_ADDRESSES {
        errors.push(too_many(&list, count, MAX_ADDRESSES));
    }
    for (i, address) in endpoint.addresses.iter().enumerate() {
        let field = list.index(i);
        errors.extend(match address_type {
            "IPv4" => validate_address(address, Family::V4, &field, &list),
            "IPv6" => validate_address(address, Family::V6, &field, &list),
            "FQDN" => validate_domain(address, &field),
            _ => FieldErrors::new(),
        });
    }
    errors
}

fn validate_address(address: &str, family: Family, field: &Path, list: &Path) -> FieldErrors {
    let faults = match family {
        Family::V4 => ip_faults(address),
        Family::V6 => canonical_ip_faults(address),
    };
    if !faults.is_empty() {
        return to_errors(field, address, faults);
    }
    let mut errors = FieldErrors::new();
    if parse_lenient(address).map(Family::of) != Some(family) {
        errors.push(invalid(list, address, format!("must be an {family} address")));
    }
    errors.extend(validate_endpoint_ip(field, address));
    errors
}

fn validate_domain(address: &str, field: &Path) -> FieldErrors {
    if address.is_empty() {
        return vec![required(field, "")].into();
    }
    names::fully_qualified_domain(address)
        .map(|(part, fault)| invalid(field, part, fault))
        .into_iter()
        .collect()
}

fn validate_endpoint(endpoint: &Endpoint, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(node) = &endpoint.node_name {
        let faults = names::dns_subdomain(node);
        errors.extend(to_errors(&path.child("nodeName"), node, faults));
    }
    if let Some(topology) = &endpoint.deprecated_topology {
        let field = path.child("deprecatedTopology");
        if topology.len() > MAX_TOPOLOGY_LABELS {
            errors.push(too_many(&field, topology.len(), MAX_TOPOLOGY_LABELS));
        }
        errors.extend(meta::validate_labels(Some(topology), &field));
        if topology.contains_key(ZONE_LABEL) {
            errors.push(internal(field.key(ZONE_LABEL), "reserved key was not removed in conversion"));
        }
    }
    if let Some(hostname) = &endpoint.hostname {
        let faults = names::dns_label(hostname);
        errors.extend(to_errors(&path.child("hostname"), hostname, faults));
    }
    if let Some(hints) = &endpoint.hints {
        errors.extend(validate_hints(hints, &path.child("hints")));
    }
    errors
}

fn validate_hints(hints: &EndpointHints, path: &Path) -> FieldErrors {
    let zones: Vec<&str> = hints.for_zones.iter().flatten().map(|z| z.name.as_str()).collect();
    let nodes: Vec<&str> = hints.for_nodes.iter().flatten().map(|n| n.name.as_str()).collect();
    let mut errors = validate_hint_names(&zones, names::label_value, &path.child("forZones"));
    if zones.len() <= MAX_HINTS {
        errors.extend(validate_hint_names(&nodes, names::dns_subdomain, &path.child("forNodes")));
    }
    errors
}

fn validate_hint_names(found: &[&str], rule: names::NameRule, path: &Path) -> FieldErrors {
    if found.len() > MAX_HINTS {
        return vec![too_many(path, found.len(), MAX_HINTS)].into();
    }
    let mut seen = BTreeSet::new();
    let mut errors = FieldErrors::new();
    for (i, name) in found.iter().enumerate() {
        let field = path.index(i).child("name");
        if !seen.insert(*name) {
            errors.push(duplicate(&field, *name));
        }
        errors.extend(to_errors(&field, name, rule(name)));
    }
    errors
}

fn validate_ports(slice: &EndpointSlice, path: &Path) -> FieldErrors {
    let ports = slice.ports.as_deref().unwrap_or_default();
    if ports.len() > MAX_PORTS {
        return vec![too_many(path, ports.len(), MAX_PORTS)].into();
    }
    let mut seen = BTreeSet::new();
    let mut errors = FieldErrors::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        let field = path.child("name");
        if !name.is_empty() {
            errors.extend(to_errors(&field, name, names::dns_label(name)));
        }
        if !seen.insert(name) {
            errors.push(duplicate(&field, name));
        }
        errors.extend(validate_port(port, &path));
    }
    errors
}

fn validate_port(port: &EndpointPort, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let field = path.child("protocol");
    match port.protocol.as_deref() {
        None => errors.push(required(&field, "")),
        Some(known) if PROTOCOLS.contains(&known) => {}
        Some(other) => errors.push(not_supported(&field, BadValue::named(other), &PROTOCOLS)),
    }
    if let Some(protocol) = &port.app_protocol {
        for fault in names::qualified_name(protocol) {
            let bad = BadValue::from(protocol);
            errors.push(invalid(path.child("appProtocol"), bad, fault));
        }
    }
    errors
}

/// Warnings of a create or an update: odd spellings, and the deprecated address type of a new slice.
/// Spellings of Kubernetes' own controllers are not looked at.
pub fn warnings(new: &EndpointSlice, old: Option<&EndpointSlice>) -> Vec<String> {
    let mut out = Vec::new();
    if old.is_none() && new.address_type == "FQDN" {
        out.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = new.metadata.labels.as_ref().and_then(|l| l.get(MANAGED_BY));
    if manager.is_some_and(|m| CONTROLLERS.contains(&m.as_str())) {
        return out;
    }
    for (i, endpoint) in new.endpoints.iter().flatten().enumerate() {
        let list = Path::root("endpoints").index(i).child("addresses");
        for (j, address) in endpoint.addresses.iter().enumerate() {
            out.extend(ip_warnings(&list.index(j), address));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn slice(value: Value) -> EndpointSlice {
        let mut value = value;
        value["metadata"] = json!({"name": "a", "namespace": "default", "resourceVersion": "1"});
        let mut slice = serde_json::from_value(value).unwrap();
        default(&mut slice);
        slice
    }

    fn messages(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case("IPv4", "::1", &[
        "endpoints[0].addresses: Invalid value: \"::1\": must be an IPv4 address",
        "endpoints[0].addresses[0]: Invalid value: \"::1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
    ])]
    #[case("IPv6", "2001:db8::1", &[])]
    #[case("FQDN", "a.b", &[])]
    fn addresses(#[case] kind: &str, #[case] address: &str, #[case] expected: &[&str]) {
        let slice = slice(json!({"addressType": kind, "endpoints": [{"addresses": [address]}]}));
        assert_eq!(messages(&validate_create(&slice)), expected);
    }

    #[test]
    fn faults_of_ports_come_before_those_of_endpoints() {
        let slice = slice(json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["bad"]}], "ports": [{"name": "a_b", "port": 80}],
        }));
        let fields: Vec<_> = validate_create(&slice).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["ports[0].name", "endpoints[0].addresses[0]"]);
    }

    #[test]
    fn endpoints_that_stay_are_not_judged_anew() {
        let old = slice(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}]}));
        let mut new = old.clone();
        new.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(validate_update(&new, &old), vec![]);
        let more = slice(json!({"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.2"]}]}));
        assert_eq!(validate_update(&more, &old).len(), 1);
    }

    #[test]
    fn hints_for_nodes_are_checked_like_hints_for_zones() {
        let slice = slice(json!({"addressType": "IPv4", "endpoints": [{
            "addresses": ["10.0.0.1"],
            "hints": {"forNodes": [{"name": "n"}, {"name": "n"}, {"name": "Bad_"}]},
        }]}));
        let fields: Vec<_> = validate_create(&slice).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["endpoints[0].hints.forNodes[1].name", "endpoints[0].hints.forNodes[2].name"]);
    }

    #[test]
    fn hints_for_nodes_are_not_looked_at_beside_too_many_zones() {
        let many: Vec<Value> = (0..9).map(|i| json!({"name": format!("z{i}")})).collect();
        let slice = slice(json!({"addressType": "IPv4", "endpoints": [{
            "addresses": ["10.0.0.1"], "hints": {"forZones": many.clone(), "forNodes": many},
        }]}));
        let fields: Vec<_> = validate_create(&slice).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["endpoints[0].hints.forZones"]);
    }

    #[test]
    fn the_deprecated_address_type_is_warned_about_once() {
        let names =
            slice(json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.example", "010.0.0.1"]}]}));
        let spelling =
            "endpoints[0].addresses[1]: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"";
        assert_eq!(warnings(&names, None), ["spec.addressType: FQDN endpoints are deprecated", spelling]);
        assert_eq!(warnings(&names, Some(&names)), [spelling]);
    }

    #[test]
    fn the_generation_counts_content_and_labels() {
        let mut old = slice(json!({"addressType": "IPv4"}));
        prepare_create(&mut old);
        let mut same = old.clone();
        same.endpoints = Some(vec![]);
        same.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
        prepare_update(&mut same, &old);
        assert_eq!(same.metadata.generation, Some(1));
        let mut labelled = old.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        prepare_update(&mut labelled, &old);
        assert_eq!(labelled.metadata.generation, Some(2));
    }

    #[test]
    fn old_topology_moves_to_the_node_name_only_if_it_was_there() {
        let topology = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {HOSTNAME_LABEL: "n1"}}]});
        let old = slice(topology.clone());
        let mut new = slice(topology.clone());
        new.endpoints.as_mut().unwrap()[0].addresses = vec!["10.0.0.2".to_owned()];
        prepare_update(&mut new, &old);
        let endpoint = &new.endpoints.unwrap()[0];
        assert_eq!(endpoint.node_name.as_deref(), Some("n1"));
        assert_eq!(endpoint.deprecated_topology, None);
        let mut created = slice(topology);
        prepare_create(&mut created);
        assert_eq!(created.endpoints.unwrap()[0].node_name, None);
    }
}
