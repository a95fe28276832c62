//! Which numbers a Service's ports have on a pod.

use crate::cache::{NamedPort, Pod, Port, Ports, Service, ServicePort, TargetPort};

/// The number of a Service's port on a pod with these named ports: a target by number is itself, one
/// by name is the first container port of that name and protocol.
#[must_use]
pub(crate) fn number(port: &ServicePort, named: &[NamedPort]) -> Option<i32> {
    match &port.target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => {
            named.iter().find(|n| n.name == *name && n.protocol == port.protocol).map(|n| n.number)
        }
    }
}

/// The ports at which a pod serves; those it does not have are left out.
#[must_use]
pub(crate) fn resolve(service: &Service, pod: &Pod) -> Ports {
    service
        .ports
        .iter()
        .filter_map(|port| {
            number(port, &pod.named_ports).map(|number| Port {
                name: port.name.clone(),
                protocol: port.protocol,
                port: Some(number),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

/// Whether all pods serve at the same numbers.
#[must_use]
pub(crate) fn all_by_number(service: &Service) -> bool {
    service.ports.iter().all(|port| matches!(port.target, TargetPort::Number(_)))
}
