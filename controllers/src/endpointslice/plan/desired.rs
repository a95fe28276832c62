//! The endpoints a Service should have, grouped by the ports they are reached at.

use std::sync::Arc;

use foldhash::HashMap;

use super::super::inputs::{Inputs, Scope};
use super::group_of;
use crate::cache::{
    AddressType, Endpoint, Hinting, Hints, NamedPort, Node, Pod, Ports, Service, Target, Traffic,
};
use crate::target_ports;
use crate::text::Text;
use crate::verdict::{self, Conditions, LeftOut};

/// Endpoints that share their ports and so may share a slice.
#[derive(Debug)]
pub(crate) struct Group {
    /// The ports.
    pub ports: Ports,
    wanted: Vec<Option<Endpoint>>,
    by_pod: HashMap<Text, usize>,
}

impl Group {
    /// A group without endpoints.
    #[must_use]
    pub(crate) fn new(ports: Ports) -> Self {
        Self { ports, wanted: Vec::new(), by_pod: HashMap::default() }
    }

    fn want(&mut self, pod: &Text, endpoint: Endpoint) {
        self.by_pod.insert(Arc::clone(pod), self.wanted.len());
        self.wanted.push(Some(endpoint));
    }

    /// Takes the wanted endpoint that stands for the same thing as `found`; each is given once.
    pub(crate) fn take(&mut self, found: &Endpoint) -> Option<Endpoint> {
        let slot = self.by_pod.get(found.pod()?)?;
        let wanted = &mut self.wanted[*slot];
        if wanted.as_ref().is_some_and(|w| w.is_same(found)) { wanted.take() } else { None }
    }

    /// The wanted endpoints that no slice had.
    pub(crate) fn rest(&mut self) -> std::collections::VecDeque<Endpoint> {
        self.wanted.drain(..).flatten().collect()
    }
}

/// The groups of a Service in one family.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The groups.
    pub groups: Vec<Group>,
    /// Pods left out because their node is not known.
    pub without_node: Vec<Text>,
}

/// The endpoints that the pods in `scope` should be.
#[must_use]
pub(crate) fn groups(inputs: &Inputs<'_>, scope: &Scope<'_>, family: AddressType) -> Wanted {
    let mut wanted = Wanted::default();
    let mut resolver = Resolver::default();
    match scope {
        Scope::All(pods) => {
            for pod in pods {
                want(inputs, family, pod, &mut resolver, &mut wanted);
            }
        }
        Scope::Pods { changed, .. } => {
            for pod in changed.iter().filter_map(|(_, pod)| *pod) {
                want(inputs, family, pod, &mut resolver, &mut wanted);
            }
        }
    }
    wanted
}

/// Remembers the group of pods that name their ports alike.
#[derive(Default)]
struct Resolver {
    known: Vec<(NamedPorts, usize)>,
}

/// Named ports of pods; none where all pods count alike.
type NamedPorts = Option<Arc<[NamedPort]>>;

impl Resolver {
    fn group(&mut self, service: &Service, pod: &Pod, groups: &mut Vec<Group>) -> usize {
        let known = self.known.iter().find(|(named, _)| match named {
            None => true,
            Some(named) => Arc::ptr_eq(named, &pod.named_ports),
        });
        if let Some((_, group)) = known {
            return *group;
        }
        let named = (!target_ports::all_by_number(service)).then(|| Arc::clone(&pod.named_ports));
        let group = group_of(groups, &target_ports::resolve(service, pod));
        self.known.push((named, group));
        group
    }
}

fn want(inputs: &Inputs<'_>, family: AddressType, pod: &Pod, resolver: &mut Resolver, wanted: &mut Wanted) {
    let node = pod.node.as_ref().and_then(|name| inputs.nodes.get(name));
    let verdict = verdict::in_slices(inputs.service, pod, node.is_some(), family);
    if matches!(verdict, Err(LeftOut::TerminalPhase | LeftOut::NoAddress)) {
        return;
    }
    let group = resolver.group(inputs.service, pod, &mut wanted.groups);
    match verdict {
        Ok(conditions) => {
            let endpoint = endpoint(pod, node, inputs.service, family, conditions);
            wanted.groups[group].want(&pod.name, endpoint);
        }
        Err(LeftOut::NoNode | LeftOut::NodeUnknown) => wanted.without_node.push(Arc::clone(&pod.name)),
        Err(_) => {}
    }
}

/// The endpoint that a pod with these conditions is in one family.
fn endpoint(
    pod: &Pod,
    node: Option<&Node>,
    service: &Service,
    family: AddressType,
    conditions: Conditions,
) -> Endpoint {
    let hints = match service.hinting() {
        Hinting::Field(Traffic::Close | Traffic::SameZone) if conditions.ready => {
            node.and_then(|n| n.zone_hints.clone())
        }
        Hinting::Field(Traffic::SameNode) if conditions.ready => match (node, &pod.node) {
            (Some(node), _) => Some(Arc::clone(&node.node_hints)),
            (None, Some(name)) => Some(Arc::new(Hints::for_node(name))),
            (None, None) => None,
        },
        Hinting::Field(_) | Hinting::TopologyMode | Hinting::Off => None,
    };
    Endpoint {
        addresses: pod.ips.iter().filter(|ip| family.holds(ip)).cloned().collect(),
        ready: Some(conditions.ready),
        serving: Some(conditions.serving),
        terminating: Some(conditions.terminating),
        hostname: pod.hostname.clone().filter(|_| pod.subdomain.as_ref() == Some(&service.name)),
        target: Some(Target::Pod { name: Arc::clone(&pod.name), uid: pod.uid.clone() }),
        node: pod.node.clone(),
        zone: node.and_then(|n| n.zone.clone()),
        hints,
    }
}
