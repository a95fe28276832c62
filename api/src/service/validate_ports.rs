//! Validation of `spec.ports`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use super::fields::{CLUSTER_IP, node_port, ports, protocol, spec_of, text, type_of};
use crate::errors::{
    BadValue, FieldErrors, Path, duplicate, forbidden, invalid, not_supported, required, too_many,
};
use crate::names;

/// The transport protocols, in the order messages list them.
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Most ports of a Service. Upstream has no such bound; what it cannot store begins at about as many.
pub const MAX_PORTS: usize = 10_000;

/// Errors of `spec.ports` that do not depend on what is allocated.
pub fn port_faults(service: &Service) -> FieldErrors {
    validate_ports(spec_of(service), &Path::root("spec").child("ports"))
}

/// Errors of each port on its own, and of repeated names.
pub(super) fn validate_ports(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    if ports(spec).len() > MAX_PORTS {
        return too_many(path, ports(spec).len(), MAX_PORTS).into();
    }
    let mut names = BTreeSet::new();
    let needs_name = ports(spec).len() > 1;
    let mut errors = FieldErrors::new();
    for (i, port) in ports(spec).iter().enumerate() {
        let path = path.index(i);
        errors.extend(validate_name(port, needs_name, &mut names, &path));
        errors.extend(validate_port(port, &path));
    }
    errors
}

fn validate_name<'a>(
    port: &'a ServicePort,
    needed: bool,
    names: &mut BTreeSet<&'a str>,
    path: &Path,
) -> FieldErrors {
    let name = text(port.name.as_ref());
    let field = path.child("name");
    if name.is_empty() {
        return if needed { vec![required(&field, "")].into() } else { FieldErrors::new() };
    }
    let mut errors: FieldErrors =
        names::dns_label(name).into_iter().map(|fault| invalid(&field, name, fault)).collect();
    if !names.insert(name) {
        errors.push(duplicate(&field, name));
    }
    errors
}

fn validate_port(port: &ServicePort, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for fault in names::port_number(port.port) {
        errors.push(invalid(path.child("port"), port.port, fault));
    }
    let field = path.child("protocol");
    match protocol(port) {
        "" => errors.push(required(&field, "")),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.push(not_supported(&field, BadValue::named(other), &PROTOCOLS)),
    }
    errors.extend(validate_target(port, &path.child("targetPort")));
    if let Some(protocol) = &port.app_protocol {
        for fault in names::qualified_name(protocol) {
            errors.push(invalid(path.child("appProtocol"), protocol, fault));
        }
    }
    errors
}

fn validate_target(port: &ServicePort, path: &Path) -> FieldErrors {
    match &port.target_port {
        Some(IntOrString::String(name)) => {
            names::port_name(name).into_iter().map(|fault| invalid(path, name, fault)).collect()
        }
        number => {
            let number = match number {
                Some(IntOrString::Int(number)) => *number,
                _ => 0,
            };
            names::port_number(number).into_iter().map(|fault| invalid(path, number, fault)).collect()
        }
    }
}

/// How upstream prints the part of a port that has to be unique.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PortKey<'a> {
    name: &'a str,
    protocol: &'a str,
    app_protocol: Option<&'a str>,
    port: i32,
    target_port: i32,
    node_port: i32,
}

/// Errors of node ports where the type has none, and of ports or node ports that occur twice.
pub(super) fn validate_duplicates(spec: &ServiceSpec, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let ports = ports(spec);
    if type_of(spec) == CLUSTER_IP {
        for (i, _) in ports.iter().enumerate().filter(|(_, p)| node_port(p) != 0) {
            errors.push(forbidden(
                path.index(i).child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let number = node_port(port);
        if number != 0 && !seen.insert((protocol(port), number)) {
            errors.push(duplicate(path.index(i).child("nodePort"), number));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        if !seen.insert((protocol(port), port.port)) {
            let key = PortKey {
                name: "",
                protocol: protocol(port),
                app_protocol: None,
                port: port.port,
                target_port: 0,
                node_port: 0,
            };
            errors.push(duplicate(path.index(i), BadValue::json(&key)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_node_port_may_serve_two_protocols() {
        let spec: ServiceSpec = serde_json::from_value(json!({"type": "NodePort", "ports": [
            {"name": "t", "port": 53, "protocol": "TCP", "targetPort": 53, "nodePort": 30053},
            {"name": "u", "port": 53, "protocol": "UDP", "targetPort": 53, "nodePort": 30053},
        ]}))
        .unwrap();
        let path = Path::root("p");
        assert_eq!(validate_ports(&spec, &path), vec![]);
        assert_eq!(validate_duplicates(&spec, &path), vec![]);
    }

    #[test]
    fn all_faults_of_a_port_are_named() {
        let spec: ServiceSpec = serde_json::from_value(json!({"type": "NodePort", "ports": [
            {"port": 0, "protocol": "", "targetPort": "x_y"},
        ]}))
        .unwrap();
        let fields: Vec<_> = validate_ports(&spec, &Path::root("p")).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["p[0].port", "p[0].protocol", "p[0].targetPort"]);
    }
}
