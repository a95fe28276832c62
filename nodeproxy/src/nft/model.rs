//! A table of nftables as data: chains of rules, sets and maps with their elements. Pure; nothing here knows the kernel.
//!
//! Only what the proxy's table needs can be said: a rule is a row of statements, each of which either goes on or decides.

use std::net::IpAddr;

use ipnet::IpNet;
use service_api::address::Family;

use crate::{
    endpoint::{Place, Protocol},
    names::Name,
};

/// One end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl Side {
    /// `saddr` or `daddr`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "saddr",
            Self::Destination => "daddr",
        }
    }
}

/// A part of a rule. The first group lets a packet on to the next part or ends the rule for it, the second does something and goes
/// on, the third decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Statement {
    /// The first packet of a connection.
    ConnectionIsNew,
    /// The destination of the connection was rewritten.
    ConnectionIsRewritten,
    /// The packet is of this protocol.
    ProtocolIs(Protocol),
    /// An address is in one of the networks, or in none of them.
    AddressIn {
        /// Whose address.
        side: Side,
        /// Whether it must be in none.
        negated: bool,
        /// The networks; at least one.
        nets: Vec<IpNet>,
    },
    /// An address is an element of a set.
    AddressInSet {
        /// Whose address.
        side: Side,
        /// The set.
        set: Name,
    },
    /// An address is one of this machine's.
    AddressIsLocal(Side),
    /// The packet came in by an interface.
    Interface {
        /// Whether it must not have.
        negated: bool,
        /// Its name.
        name: String,
        /// Whether that is only how the name begins.
        prefix: bool,
    },
    /// The packet has one of the bits of a mark.
    Marked(u32),
    /// Source, destination, protocol and port are an element of a set.
    ConnectionInSet(Name),

    /// Sets bits of the mark.
    Mark(u32),
    /// Flips bits of the mark.
    FlipMark(u32),
    /// Puts the source address into a set, or renews it there.
    Remember(Name),

    /// Decides as a map says of destination, protocol and port; goes on when it says nothing.
    ByAddress(Name),
    /// Decides as a map says of protocol and port; goes on when it says nothing.
    ByPort(Name),
    /// Rewrites the destination to one of these, chosen at random.
    SendToOneOf(Vec<Place>),
    /// Goes to one of these chains, chosen at random.
    GotoOneOf(Vec<Name>),
    /// Rewrites the destination.
    SendTo(Place),
    /// Rewrites the source to the address of the outgoing interface, with a random port.
    Masquerade,
    /// Refuses with an answer.
    Reject,
    /// Refuses without an answer.
    Drop,
    /// Asks another chain, and comes back if it does not decide.
    Jump(Name),
    /// Leaves it to another chain.
    Goto(Name),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Its parts, in order.
    pub statements: Vec<Statement>,
    /// What it is for.
    pub comment: Option<&'static str>,
}

impl Rule {
    /// A rule of these parts.
    pub fn new(statements: impl Into<Vec<Statement>>) -> Self {
        Self { statements: statements.into(), comment: None }
    }

    /// The same with a comment.
    #[must_use]
    pub const fn because(mut self, comment: &'static str) -> Self {
        self.comment = Some(comment);
        self
    }
}

/// Where in the kernel a chain begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Base {
    /// What it may do.
    pub kind: BaseKind,
    /// When packets come by.
    pub hook: Hook,
    /// Before which others; smaller is earlier.
    pub priority: i32,
}

/// What a base chain may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseKind {
    /// Let packets through or not.
    Filter,
    /// Rewrite addresses of a connection's first packet.
    Nat,
}

/// When packets come by a base chain; the numbers are the kernel's (`enum nf_inet_hooks`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// All that arrive.
    Prerouting = 0,
    /// Those for this machine.
    Input = 1,
    /// Those for others.
    Forward = 2,
    /// Those that this machine sends.
    Output = 3,
    /// All that leave.
    Postrouting = 4,
}

/// The priority of destination rewriting (`NF_IP_PRI_NAT_DST`).
pub const PRIORITY_DSTNAT: i32 = -100;
/// The priority of filters (`NF_IP_PRI_FILTER`).
pub const PRIORITY_FILTER: i32 = 0;
/// The priority of source rewriting (`NF_IP_PRI_NAT_SRC`).
pub const PRIORITY_SRCNAT: i32 = 100;

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub comment: Option<&'static str>,
    /// Where it begins, unless only other chains lead here.
    pub base: Option<Base>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// A chain that others lead to.
    pub fn new(name: impl Into<Name>, rules: impl Into<Vec<Rule>>) -> Self {
        Self { name: name.into(), comment: None, base: None, rules: rules.into() }
    }
}

/// The containers with a fixed name; they exist always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Container {
    /// Active cluster IPs.
    ClusterIps,
    /// Addresses of the node that take node port traffic.
    NodePortIps,
    /// Connections of endpoints of this node to themselves.
    HairpinConnections,
    /// Traffic to addresses of Services.
    ServiceIps,
    /// Traffic to node ports.
    ServiceNodePorts,
    /// Addresses and ports of Services without endpoints.
    NoEndpointServices,
    /// Node ports of Services without endpoints.
    NoEndpointNodePorts,
    /// Addresses and ports that not everybody may reach.
    FirewallIps,
}

/// What the key of a container is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyShape {
    /// An address.
    Address,
    /// An address, a protocol and a port.
    AddressAndPort,
    /// A protocol and a port.
    Port,
    /// Two addresses, a protocol and a port.
    Connection,
}

impl Container {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 8] = [
        Self::HairpinConnections,
        Self::ClusterIps,
        Self::NodePortIps,
        Self::NoEndpointServices,
        Self::NoEndpointNodePorts,
        Self::FirewallIps,
        Self::ServiceIps,
        Self::ServiceNodePorts,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterIps => "cluster-ips",
            Self::NodePortIps => "nodeport-ips",
            Self::HairpinConnections => "hairpin-connections",
            Self::ServiceIps => "service-ips",
            Self::ServiceNodePorts => "service-nodeports",
            Self::NoEndpointServices => "no-endpoint-services",
            Self::NoEndpointNodePorts => "no-endpoint-nodeports",
            Self::FirewallIps => "firewall-ips",
        }
    }

    /// The container of a name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|container| container.name() == name)
    }

    /// Its comment.
    pub const fn comment(self) -> &'static str {
        match self {
            Self::ClusterIps => "Active ClusterIPs",
            Self::NodePortIps => "IPs that accept NodePort traffic",
            Self::HairpinConnections => "service hairpin connections",
            Self::ServiceIps => "ClusterIP, ExternalIP and LoadBalancer IP traffic",
            Self::ServiceNodePorts => "NodePort traffic",
            Self::NoEndpointServices => "vmap to drop or reject packets to services with no endpoints",
            Self::NoEndpointNodePorts => {
                "vmap to drop or reject packets to service nodeports with no endpoints"
            }
            Self::FirewallIps => "destinations that are subject to LoadBalancerSourceRanges",
        }
    }

    /// What its keys are made of.
    pub const fn shape(self) -> KeyShape {
        match self {
            Self::ClusterIps | Self::NodePortIps => KeyShape::Address,
            Self::HairpinConnections => KeyShape::Connection,
            Self::ServiceIps | Self::NoEndpointServices | Self::FirewallIps => KeyShape::AddressAndPort,
            Self::ServiceNodePorts | Self::NoEndpointNodePorts => KeyShape::Port,
        }
    }

    /// Whether its elements lead somewhere.
    pub const fn is_map(self) -> bool {
        matches!(
            self,
            Self::ServiceIps
                | Self::ServiceNodePorts
                | Self::NoEndpointServices
                | Self::NoEndpointNodePorts
                | Self::FirewallIps
        )
    }
}

/// The key of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// An address.
    Address(IpAddr),
    /// An address, a protocol and a port.
    AddressAndPort(IpAddr, Protocol, u16),
    /// A protocol and a port.
    Port(Protocol, u16),
    /// An address as source and destination, a protocol and a port.
    Connection(IpAddr, Protocol, u16),
}

/// Where an element of a map leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Refuses without an answer.
    Drop,
    /// Leaves it to a chain.
    Goto(Name),
}

/// An element of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Of which container.
    pub container: Container,
    /// Its key.
    pub key: Key,
    /// Where it leads, in a map.
    pub verdict: Option<Verdict>,
    /// What it is for.
    pub comment: Option<Name>,
}

/// A set that remembers the clients of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffinitySet {
    /// Its name.
    pub name: Name,
    /// How many seconds it remembers.
    pub timeout: u32,
}

/// A part of a table that is made by one Service, or by what is the same for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Chains.
    pub chains: Vec<Chain>,
    /// Sets of clients.
    pub affinity: Vec<AffinitySet>,
    /// Elements of the containers.
    pub elements: Vec<Element>,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Makes the table unless it is there.
    AddTable,
    /// Removes the table with all that is in it.
    DeleteTable,
    /// Makes a container unless it is there.
    AddContainer(Container),
    /// Makes a set of clients.
    AddAffinitySet(AffinitySet),
    /// Removes a set of clients.
    DeleteSet(Name),
    /// Makes a chain unless it is there, with its comment and its place, without rules.
    AddChain(Chain),
    /// Removes all rules of a chain.
    FlushChain(Name),
    /// Removes a chain without rules that nothing leads to.
    DeleteChain(Name),
    /// Adds a rule at the end of a chain.
    AddRule {
        /// The chain.
        chain: Name,
        /// The rule.
        rule: Rule,
    },
    /// Adds an element.
    AddElement(Element),
    /// Removes an element; only its container and key count.
    DeleteElement(Element),
}

/// What the text of a family is called in rules: `ip` or `ip6`.
pub const fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}
