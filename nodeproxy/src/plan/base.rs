//! What is the same for all Services: base chains, the way through them, checks, masquerading.

use ipnet::IpNet;

use super::View;
use crate::nft::model::{
    Base, BaseKind, Chain, Container, Element, Fragment, Hook, Key, PRIORITY_DSTNAT, PRIORITY_FILTER,
    PRIORITY_SRCNAT, Rule, Side, Statement,
};

/// The chain that refuses with an answer.
pub(super) const REJECT: &str = "reject-chain";
/// Source ranges are checked this much before destinations are rewritten.
const BEFORE: i32 = 10;

/// The chains that every table has, with the ranges that cluster IPs come from.
pub fn plan_base(view: View<'_>, cidrs: &[IpNet]) -> Fragment {
    let node_port_ips = view.node.node_port_ips(view.settings, view.family);
    let mut chains = base_chains();
    chains.extend([
        services(view, node_port_ips.is_none()),
        masquerading(view),
        cluster_ips_check(cidrs),
        Chain::new(
            "nodeport-endpoints-check",
            [Rule::new(node_ports(node_port_ips.is_none(), false, view, Container::NoEndpointNodePorts))],
        ),
        Chain::new("service-endpoints-check", [by_address(Container::NoEndpointServices)]),
        Chain::new("firewall-check", [by_address(Container::FirewallIps)]),
        Chain {
            comment: Some("helper for @no-endpoint-services / @no-endpoint-nodeports"),
            ..Chain::new(REJECT, [Rule::new([Statement::Reject])])
        },
    ]);
    // Rules can only lead to chains that are there.
    chains.sort_by_key(|chain| chain.base.is_some());
    let elements = node_port_ips.unwrap_or_default().into_iter().map(|ip| Element {
        container: Container::NodePortIps,
        key: Key::Address(ip),
        verdict: None,
        comment: None,
    });
    Fragment { chains, affinity: Vec::new(), elements: elements.collect() }
}

fn by_address(container: Container) -> Rule {
    Rule::new([Statement::ByAddress(container.name().into())])
}

fn base_chains() -> Vec<Chain> {
    use BaseKind::{Filter, Nat};
    let chain = |name: &str, kind, hook, priority, jumps: &[(bool, &str)]| Chain {
        base: Some(Base { kind, hook, priority }),
        ..Chain::new(
            name,
            jumps
                .iter()
                .map(|(new, to)| {
                    let jump = Statement::Jump((*to).into());
                    Rule::new(if *new { vec![Statement::ConnectionIsNew, jump] } else { vec![jump] })
                })
                .collect::<Vec<_>>(),
        )
    };
    let early = PRIORITY_DSTNAT - BEFORE;
    vec![
        chain("filter-prerouting-pre-dnat", Filter, Hook::Prerouting, early, &[(true, "firewall-check")]),
        chain("filter-output-pre-dnat", Filter, Hook::Output, early, &[(true, "firewall-check")]),
        chain(
            "filter-input",
            Filter,
            Hook::Input,
            PRIORITY_FILTER,
            &[(true, "nodeport-endpoints-check"), (true, "service-endpoints-check")],
        ),
        chain(
            "filter-forward",
            Filter,
            Hook::Forward,
            PRIORITY_FILTER,
            &[(true, "service-endpoints-check"), (true, "cluster-ips-check")],
        ),
        chain(
            "filter-output",
            Filter,
            Hook::Output,
            PRIORITY_FILTER,
            &[(true, "service-endpoints-check"), (true, "cluster-ips-check")],
        ),
        chain("nat-prerouting", Nat, Hook::Prerouting, PRIORITY_DSTNAT, &[(false, "services")]),
        chain("nat-output", Nat, Hook::Output, PRIORITY_DSTNAT, &[(false, "services")]),
        chain("nat-postrouting", Nat, Hook::Postrouting, PRIORITY_SRCNAT, &[(false, "masquerading")]),
    ]
}

fn to_cluster_ips() -> Statement {
    Statement::AddressInSet { side: Side::Destination, set: Container::ClusterIps.name().into() }
}

/// From the first packet of a connection to the chain of its Service.
fn services(view: View<'_>, all_addresses: bool) -> Chain {
    let mark = Statement::Mark(view.settings.mark);
    let mut rules = Vec::new();
    if view.settings.masquerade_all {
        rules.push(Rule::new([to_cluster_ips(), mark]).because("masquerade all clusterIP traffic"));
    } else if let Some(outside) = view.pod_traffic(true) {
        rules.push(
            Rule::new([to_cluster_ips(), outside, mark])
                .because("masquerade clusterIP traffic from outside cluster"),
        );
    }
    rules.push(by_address(Container::ServiceIps));
    rules.push(Rule::new(node_ports(all_addresses, true, view, Container::ServiceNodePorts)));
    Chain::new("services", rules)
}

/// What goes to a node port of this node. Loopback takes none: a packet from there cannot leave for another machine.
fn node_ports(all_addresses: bool, ask_route: bool, view: View<'_>, map: Container) -> Vec<Statement> {
    let mut statements = Vec::new();
    if all_addresses {
        if ask_route {
            statements.push(Statement::AddressIsLocal(Side::Destination));
        }
        let loopback = match view.family {
            service_api::address::Family::V4 => IpNet::from(std::net::IpAddr::from([127, 0, 0, 0])).addr(),
            service_api::address::Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let length = if loopback.is_ipv4() { 8 } else { 128 };
        let nets = IpNet::new(loopback, length).into_iter().collect();
        statements.push(Statement::AddressIn { side: Side::Destination, negated: true, nets });
    } else {
        statements.push(Statement::AddressInSet {
            side: Side::Destination,
            set: Container::NodePortIps.name().into(),
        });
    }
    statements.push(Statement::ByPort(map.name().into()));
    statements
}

/// Rewrites the source of what was marked, and of what comes back to where it came from.
fn masquerading(view: View<'_>) -> Chain {
    let mark = view.settings.mark;
    Chain::new(
        "masquerading",
        [
            Rule::new([Statement::Marked(mark), Statement::FlipMark(mark), Statement::Masquerade]),
            Rule::new([
                Statement::ConnectionIsRewritten,
                Statement::ConnectionInSet(Container::HairpinConnections.name().into()),
                Statement::Masquerade,
            ]),
        ],
    )
}

/// What is still on its way to a cluster IP when destinations have been rewritten goes to a port or an address that nobody has.
fn cluster_ips_check(cidrs: &[IpNet]) -> Chain {
    let mut rules = vec![
        Rule::new([to_cluster_ips(), Statement::Reject])
            .because("Reject traffic to invalid ports of ClusterIPs"),
    ];
    if !cidrs.is_empty() {
        let to = Statement::AddressIn { side: Side::Destination, negated: false, nets: cidrs.to_vec() };
        rules.push(Rule::new([to, Statement::Drop]).because("Drop traffic to unallocated ClusterIPs"));
    }
    Chain::new("cluster-ips-check", rules)
}
