//! One Service to its chains, sets and elements.

use std::net::IpAddr;

use super::{
    View,
    base::REJECT,
    endpoints::{Choice, choose, from_outside, of_port},
};
use crate::{
    endpoint::{Place, ServiceKey},
    names::{self, Name},
    nft::model::{AffinitySet, Chain, Container, Element, Fragment, Key, Rule, Side, Statement, Verdict},
    track::{PortInfo, ServiceInfo, Slices},
};

/// The rules of a Service in one family; none if it has no cluster IP there.
pub fn plan_service(
    key: &ServiceKey,
    service: &ServiceInfo,
    slices: Option<&Slices>,
    view: View<'_>,
) -> Fragment {
    let mut fragment = Fragment::default();
    let Some(cluster_ip) = service.cluster_ip(view.family) else { return fragment };
    for port in &service.ports {
        let endpoints = of_port(slices, port, view.family);
        let choice = choose(&endpoints, service, port, &view.node.info);
        PortPlan { key, service, port, cluster_ip, view, choice, names: PortNames::new(key, port) }
            .write(&mut fragment);
    }
    fragment
}

/// The names that one port uses.
struct PortNames {
    cluster: Name,
    local: Name,
    external: Name,
    firewall: Name,
    comment: Name,
}

impl PortNames {
    fn new(key: &ServiceKey, port: &PortInfo) -> Self {
        let base = names::port_base(key, port.protocol, &port.name);
        let comment = if port.name.is_empty() { key.to_string() } else { format!("{key}:{}", port.name) };
        Self {
            cluster: format!("service-{base}").into(),
            local: format!("local-{base}").into(),
            external: format!("external-{base}").into(),
            firewall: format!("firewall-{base}").into(),
            comment: comment.into(),
        }
    }
}

struct PortPlan<'a> {
    key: &'a ServiceKey,
    service: &'a ServiceInfo,
    port: &'a PortInfo,
    cluster_ip: IpAddr,
    view: View<'a>,
    choice: Choice,
    names: PortNames,
}

impl PortPlan<'_> {
    fn write(self, fragment: &mut Fragment) {
        self.endpoint_chains(fragment);
        self.policy_chains(fragment);
        self.external_chain(fragment);
        self.firewall(fragment);
        self.inside(fragment);
        self.outside(fragment);
        self.hairpins(fragment);
    }

    fn outside_ips(&self) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let of = |ips: &[IpAddr]| -> Vec<IpAddr> {
            let family = self.view.family;
            ips.iter().copied().filter(|ip| service_api::address::Family::of(*ip) == family).collect()
        };
        (of(&self.service.external_ips), of(&self.service.vips))
    }

    /// Where traffic from inside goes; none if nothing takes it.
    fn inside_chain(&self) -> Option<&Name> {
        match (self.service.internal_local, self.choice.local.is_empty()) {
            (true, true) => None,
            (true, false) => Some(&self.names.local),
            (false, _) => self.choice.any.then_some(&self.names.cluster),
        }
    }

    /// Where traffic from outside ends up; none if nothing takes it.
    fn outside_chain(&self) -> Option<&Name> {
        match (self.service.external_local, self.choice.local.is_empty()) {
            (true, true) => None,
            (true, false) => Some(&self.names.local),
            (false, _) => self.choice.any.then_some(&self.names.cluster),
        }
    }

    /// What comes of traffic that nothing takes: an answer if there is no endpoint anywhere, silence if there is one on another
    /// node, which somebody outside should ask instead.
    fn refusal(&self) -> Verdict {
        if self.choice.any { Verdict::Drop } else { Verdict::Goto(REJECT.into()) }
    }

    /// With affinity each endpoint has a set of its clients and a chain that adds to it.
    fn endpoint_chains(&self, fragment: &mut Fragment) {
        let Some(timeout) = self.service.affinity else { return };
        let mut places: Vec<Place> = self.choice.cluster.iter().chain(&self.choice.local).copied().collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            let (chain, set) = self.endpoint_names(place);
            fragment.chains.push(Chain::new(
                chain,
                [
                    Rule::new([Statement::Remember(set.clone())]),
                    Rule::new([Statement::ProtocolIs(self.port.protocol), Statement::SendTo(place)]),
                ],
            ));
            fragment.affinity.push(AffinitySet { name: set, timeout });
        }
    }

    fn endpoint_names(&self, place: Place) -> (Name, Name) {
        let base = names::endpoint_base(self.key, self.port.protocol, &self.port.name, place);
        (format!("endpoint-{base}").into(), format!("affinity-{base}").into())
    }

    fn policy_chains(&self, fragment: &mut Fragment) {
        for (name, places) in
            [(&self.names.cluster, &self.choice.cluster), (&self.names.local, &self.choice.local)]
        {
            if !places.is_empty() {
                fragment.chains.push(Chain::new(name.clone(), self.spread(places)));
            }
        }
    }

    /// Rules that choose one of the places, the one where the client was before if that is remembered.
    fn spread(&self, places: &[Place]) -> Vec<Rule> {
        if self.service.affinity.is_none() {
            let protocol = Statement::ProtocolIs(self.port.protocol);
            return vec![Rule::new([protocol, Statement::SendToOneOf(places.to_vec())])];
        }
        let (mut rules, mut chains) = (Vec::new(), Vec::new());
        for place in places {
            let (chain, set) = self.endpoint_names(*place);
            let before = Statement::AddressInSet { side: Side::Source, set };
            rules.push(Rule::new([before, Statement::Goto(chain.clone())]));
            chains.push(chain);
        }
        rules.push(Rule::new([Statement::GotoOneOf(chains)]));
        rules
    }

    /// The way in from outside. Under the policy `Local` traffic of this node's pods and of the node itself is led past the policy:
    /// it would come back from a load balancer as traffic to any node.
    fn external_chain(&self, fragment: &mut Fragment) {
        if !self.choice.any || !from_outside(self.service, self.port) {
            return;
        }
        let mark = Statement::Mark(self.view.settings.mark);
        let mut rules = Vec::new();
        if self.service.external_local {
            if !self.choice.cluster.is_empty() {
                let to_all = Statement::Goto(self.names.cluster.clone());
                if let Some(from_pods) = self.view.pod_traffic(false) {
                    rules.push(Rule::new([from_pods, to_all.clone()]).because("short-circuit pod traffic"));
                }
                let from_node = Statement::AddressIsLocal(Side::Source);
                rules.push(Rule::new([from_node.clone(), mark]).because("masquerade local traffic"));
                rules.push(Rule::new([from_node, to_all]).because("short-circuit local traffic"));
            }
        } else {
            rules.push(Rule::new([mark]).because("masquerade"));
        }
        if let Some(chain) = self.outside_chain() {
            rules.push(Rule::new([Statement::Goto(chain.clone())]));
        }
        fragment.chains.push(Chain::new(self.names.external.clone(), rules));
    }

    /// Who may reach the load balancer's addresses. One that this node's traffic may reach loops back with that address as source.
    fn firewall(&self, fragment: &mut Fragment) {
        let (_, vips) = self.outside_ips();
        let family = self.view.family;
        let of_family = |net: &&ipnet::IpNet| service_api::address::Family::of(net.addr()) == family;
        let mut nets: Vec<_> = self.service.source_ranges.iter().filter(of_family).copied().collect();
        if vips.is_empty() || nets.is_empty() || nets.iter().any(|net| net.prefix_len() == 0) {
            return;
        }
        let node = self.view.node.info.primary(family);
        if node.is_some_and(|ip| nets.iter().any(|net| net.contains(&ip))) {
            nets.extend(vips.iter().map(|ip| ipnet::IpNet::from(*ip)));
        }
        nets.sort_unstable();
        nets.dedup();
        let others = Statement::AddressIn { side: Side::Source, negated: true, nets };
        let name = &self.names.firewall;
        fragment.chains.push(Chain::new(name.clone(), [Rule::new([others, Statement::Drop])]));
        for ip in vips {
            self.element(fragment, Container::FirewallIps, Some(ip), Verdict::Goto(name.clone()));
        }
    }

    /// An element for an address and the Service's port, or for its node port.
    fn element(&self, fragment: &mut Fragment, container: Container, ip: Option<IpAddr>, verdict: Verdict) {
        let protocol = self.port.protocol;
        let key = match (ip, self.port.node_port) {
            (Some(ip), _) => Key::AddressAndPort(ip, protocol, self.port.port),
            (None, Some(port)) => Key::Port(protocol, port),
            (None, None) => return,
        };
        let refuses = matches!(container, Container::NoEndpointServices | Container::NoEndpointNodePorts);
        let comment = refuses.then(|| self.names.comment.clone());
        fragment.elements.push(Element { container, key, verdict: Some(verdict), comment });
    }

    fn inside(&self, fragment: &mut Fragment) {
        let key = Key::Address(self.cluster_ip);
        let active = Element { container: Container::ClusterIps, key, verdict: None, comment: None };
        // All ports of a Service share its address.
        if !fragment.elements.contains(&active) {
            fragment.elements.push(active);
        }
        let ip = Some(self.cluster_ip);
        match self.inside_chain() {
            Some(chain) => {
                self.element(fragment, Container::ServiceIps, ip, Verdict::Goto(chain.clone()));
            }
            None => self.element(fragment, Container::NoEndpointServices, ip, self.refusal()),
        }
    }

    fn outside(&self, fragment: &mut Fragment) {
        let (mut ips, vips) = self.outside_ips();
        ips.extend(vips);
        ips.sort_unstable();
        ips.dedup();
        let node_port = self.port.node_port.map(|_| None);
        for ip in ips.into_iter().map(Some).chain(node_port) {
            let (found, missing) = if ip.is_some() {
                (Container::ServiceIps, Container::NoEndpointServices)
            } else {
                (Container::ServiceNodePorts, Container::NoEndpointNodePorts)
            };
            if self.choice.any {
                let chain = Verdict::Goto(self.names.external.clone());
                self.element(fragment, found, ip, chain);
            }
            if self.outside_chain().is_none() {
                self.element(fragment, missing, ip, self.refusal());
            }
        }
    }

    /// An endpoint of this node that is sent to itself must be answered by way of the node.
    fn hairpins(&self, fragment: &mut Fragment) {
        for place in &self.choice.here {
            let key = Key::Connection(place.ip, self.port.protocol, place.port);
            let element =
                Element { container: Container::HairpinConnections, key, verdict: None, comment: None };
            if !fragment.elements.contains(&element) {
                fragment.elements.push(element);
            }
        }
    }
}
