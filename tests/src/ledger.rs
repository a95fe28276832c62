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
    let mut ports: BTreeMap<String, Owner> = BTreeMap::new();
    for service in services {
        let owner = owner_of(service);
        for address in cluster_ips(service) {
            if let Some(other) = owners.insert(address.clone(), owner.clone()) {
                found.push(format!("{address} belongs to {other} and {owner}"));
            }
        }
        for port in node_ports(service) {
            if let Some(other) = ports.insert(port.clone(), owner.clone()) {
                found.push(format!("node port {port} belongs to {other} and {owner}"));
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

/// The node ports that a Service holds, as `PROTOCOL/PORT`; a health check has its port for itself.
pub fn node_ports(service: &Value) -> Vec<String> {
    let mut ports = Vec::new();
    for port in field(service, "spec.ports").and_then(Value::as_array).into_iter().flatten() {
        if let Some(number) = field(port, "nodePort").and_then(Value::as_u64).filter(|number| *number > 0) {
            ports.push(format!("{}/{number}", text(port, "protocol")));
        }
    }
    if let Some(number) =
        field(service, "spec.healthCheckNodePort").and_then(Value::as_u64).filter(|number| *number > 0)
    {
        ports.extend(["TCP", "UDP", "SCTP"].map(|protocol| format!("{protocol}/{number}")));
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
                "node port TCP/30000 belongs to d/a and d/b",
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
        assert_eq!(node_ports(&a).len(), 4);
    }
}
