//! What must hold of all Services and IPAddresses together, whatever happened before: nothing is given twice, nothing leaks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::case::field;

/// The owner of an address or a port: `namespace/name` of a Service.
type Owner = String;

/// What is wrong with a listing of all Services and all IPAddresses; empty if nothing.
pub fn complaints(services: &[Value], addresses: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<String, Owner> = BTreeMap::new();
    let mut ports: BTreeMap<u64, Owner> = BTreeMap::new();
    for service in services {
        let owner = owner_of(service);
        for address in cluster_ips(service) {
            if let Some(other) = owners.insert(address.clone(), owner.clone()) {
                found.push(format!("{address} belongs to {other} and {owner}"));
            }
        }
        let mut own = BTreeSet::new();
        for (protocol, port) in node_ports(service) {
            // A Service may use one number for several protocols; another Service may not use it at all.
            let other = ports.insert(port, owner.clone()).filter(|other| *other != owner);
            if let Some(other) = other {
                found.push(format!("node port {port} belongs to {other} and {owner}"));
            } else if !own.insert((protocol.clone(), port)) {
                found.push(format!("{owner} has node port {protocol}/{port} twice"));
            }
        }
    }
    let mut recorded = BTreeSet::new();
    for address in addresses {
        let name = text(address, "metadata.name");
        let parent =
            format!("{}/{}", text(address, "spec.parentRef.namespace"), text(address, "spec.parentRef.name"));
        match owners.get(&name) {
            Some(owner) if *owner == parent => {}
            Some(owner) => found.push(format!("{name} belongs to {owner}, its IPAddress says {parent}")),
            None => {
                found.push(format!("{name} has leaked: its IPAddress says {parent}, which does not have it"));
            }
        }
        recorded.insert(name);
    }
    for (address, owner) in owners.iter().filter(|(address, _)| !recorded.contains(*address)) {
        found.push(format!("{address} of {owner} has no IPAddress"));
    }
    found
}

/// `namespace/name`.
pub fn owner_of(service: &Value) -> String {
    format!("{}/{}", text(service, "metadata.namespace"), text(service, "metadata.name"))
}

/// The cluster IPs that a Service holds.
pub fn cluster_ips(service: &Value) -> Vec<String> {
    let list = field(service, "spec.clusterIPs").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|ip| *ip != "None")
        .map(ToOwned::to_owned)
        .collect()
}

/// The node ports that a Service holds, each with its protocol; a health check has its port for itself.
pub fn node_ports(service: &Value) -> Vec<(String, u64)> {
    let number =
        |value: &Value, name: &str| field(value, name).and_then(Value::as_u64).filter(|number| *number > 0);
    let mut ports = Vec::new();
    for port in field(service, "spec.ports").and_then(Value::as_array).into_iter().flatten() {
        if let Some(number) = number(port, "nodePort") {
            ports.push((text(port, "protocol"), number));
        }
    }
    if let Some(number) = number(service, "spec.healthCheckNodePort") {
        ports.extend(["TCP", "UDP", "SCTP"].map(|protocol| (protocol.to_owned(), number)));
    }
    ports
}

/// A field as text, empty if it is none.
pub fn text(value: &Value, dotted: &str) -> String {
    field(value, dotted).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, ip: &str, ports: &Value) -> Value {
        json!({"metadata": {"namespace": "d", "name": name}, "spec": {"clusterIPs": [ip], "ports": ports}})
    }

    fn address(ip: &str, name: &str) -> Value {
        json!({"metadata": {"name": ip}, "spec": {"parentRef": {"namespace": "d", "name": name}}})
    }

    #[test]
    fn a_proper_state_has_no_complaints() {
        let services = [
            service(
                "a",
                "10.0.0.1",
                &json!([{"protocol": "TCP", "nodePort": 30000}, {"protocol": "UDP", "nodePort": 30000}]),
            ),
            service("b", "None", &json!([])),
        ];
        assert_eq!(complaints(&services, &[address("10.0.0.1", "a")]), Vec::<String>::new());
    }

    #[test]
    fn doubles_leaks_and_losses_are_found() {
        let one = json!([{"protocol": "TCP", "nodePort": 30000}]);
        let services = [
            service("a", "10.0.0.1", &one),
            service("b", "10.0.0.1", &one),
            service("c", "10.0.0.3", &json!([])),
        ];
        let found = complaints(&services, &[address("10.0.0.1", "a"), address("10.0.0.2", "x")]);
        assert_eq!(
            found,
            [
                "10.0.0.1 belongs to d/a and d/b",
                "node port 30000 belongs to d/a and d/b",
                "10.0.0.1 belongs to d/b, its IPAddress says d/a",
                "10.0.0.2 has leaked: its IPAddress says d/x, which does not have it",
                "10.0.0.3 of d/c has no IPAddress"
            ]
        );
    }

    #[test]
    fn a_health_check_port_is_not_shared() {
        let mut a = service("a", "None", &json!([{"protocol": "UDP", "nodePort": 30000}]));
        a["spec"]["healthCheckNodePort"] = json!(30000);
        assert_eq!(complaints(&[a], &[]), ["d/a has node port UDP/30000 twice"]);
    }
}
