//! Why a Service's endpoints are what they are, pod by pod, in words.

use crate::cache::{NamedPort, Pod, Service, ServicePort, TargetPort};
use crate::index::Index;
use crate::target_ports;
use crate::verdict::{self, LeftOut};

/// What is worth knowing about the endpoints of a Service: pods left out, ports not found, names
/// that occur twice. Nothing if all is plain.
#[must_use]
pub fn explain(index: &Index, namespace: &str, name: &str) -> Vec<String> {
    let Some(space) = index.namespace(namespace) else { return Vec::new() };
    let Some(service) = space.services.get(name) else { return Vec::new() };
    let mut lines = Vec::new();
    for pod in space.pods.pods_of(name) {
        if let Some(why) = left_out(index, service, pod) {
            lines.push(format!("{} is left out: {why}", pod.name));
        } else {
            lines.extend(service.ports.iter().filter_map(|port| odd_port(port, pod)));
        }
    }
    lines
}

fn left_out(index: &Index, service: &Service, pod: &Pod) -> Option<String> {
    let known = pod.node.as_ref().is_some_and(|node| index.nodes.contains_key(node));
    let verdicts = service.families.iter().map(|family| verdict::in_slices(service, pod, known, *family));
    let why = verdicts.map(Result::err).collect::<Option<Vec<LeftOut>>>()?.first().copied()?;
    Some(match (why, &pod.node) {
        (LeftOut::TerminalPhase, _) => "it has finished".to_owned(),
        (LeftOut::NodeUnknown, Some(node)) => format!("its node {node} does not exist"),
        (LeftOut::NodeUnknown | LeftOut::NoNode, _) => "it is bound to no node".to_owned(),
        _ => "it has no address of the Service's families".to_owned(),
    })
}

fn odd_port(port: &ServicePort, pod: &Pod) -> Option<String> {
    let TargetPort::Name(name) = &port.target else { return None };
    let named = |p: &&NamedPort| p.name == *name && p.protocol == port.protocol;
    let others: Vec<String> =
        pod.named_ports.iter().filter(named).skip(1).map(|p| p.number.to_string()).collect();
    let protocol = format!("{:?}", port.protocol).to_uppercase();
    let pod_name = &pod.name;
    match target_ports::number(port, &pod.named_ports) {
        None => Some(format!("{pod_name} has no port {name}/{protocol}")),
        Some(taken) if !others.is_empty() => Some(format!(
            "{pod_name} has {name}/{protocol} more than once; {taken} is taken, {} is not",
            others.join(", ")
        )),
        Some(_) => None,
    }
}
