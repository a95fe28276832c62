//! What a person can choose about the rules of a node. Pure; where the choices come from is [`crate::config_file`] and the flags.

use std::net::IpAddr;

use ipnet::IpNet;
use service_api::address::Family;

use crate::track::NodeInfo;

/// How traffic of this node's pods is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LocalTraffic {
    /// It is not.
    #[default]
    Unknown,
    /// By its source: one of the cluster's pod networks.
    ClusterCidrs(Vec<IpNet>),
    /// By its source: the node's own pod network.
    NodeCidr,
    /// By the bridge it comes from.
    Bridge(String),
    /// By how the names of the interfaces begin that it comes from.
    InterfacePrefix(String),
}

/// Which addresses of the node take node port traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// The primary ones of the Node object.
    #[default]
    Primary,
    /// All of them but loopback.
    All,
    /// Those in these networks.
    In(Vec<IpNet>),
}

/// What a person can choose about the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSettings {
    /// Rewrites the source of all traffic to cluster IPs.
    pub masquerade_all: bool,
    /// The mark of packets whose source is to be rewritten: one bit.
    pub mark: u32,
    /// How traffic of this node's pods is known.
    pub local_traffic: LocalTraffic,
    /// Which addresses take node port traffic.
    pub node_port_addresses: NodePortAddresses,
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self {
            masquerade_all: false,
            mark: 1 << 14,
            local_traffic: LocalTraffic::default(),
            node_port_addresses: NodePortAddresses::default(),
        }
    }
}

/// The node as the planner sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    /// The Node object's side of it.
    pub info: NodeInfo,
    /// Addresses of the machine's interfaces; only needed where node ports are chosen by network.
    pub interfaces: Vec<IpAddr>,
}

impl NodeView {
    /// The addresses of a family that take node port traffic; none means that all local ones do.
    pub fn node_port_ips(&self, settings: &RuleSettings, family: Family) -> Option<Vec<IpAddr>> {
        match &settings.node_port_addresses {
            NodePortAddresses::All => None,
            NodePortAddresses::Primary => Some(self.info.primary(family).into_iter().collect()),
            NodePortAddresses::In(nets) => {
                let of_family: Vec<_> = nets.iter().filter(|net| Family::of(net.addr()) == family).collect();
                if of_family.iter().any(|net| net.prefix_len() == 0) {
                    return None;
                }
                let mut ips: Vec<IpAddr> = self
                    .interfaces
                    .iter()
                    .copied()
                    .filter(|ip| !ip.is_loopback() && of_family.iter().any(|net| net.contains(ip)))
                    .collect();
                ips.sort_unstable();
                ips.dedup();
                Some(ips)
            }
        }
    }

    /// The networks of this node's pods in a family, where they are known by their source.
    pub fn pod_nets(&self, settings: &RuleSettings, family: Family) -> Vec<IpNet> {
        let nets = match &settings.local_traffic {
            LocalTraffic::ClusterCidrs(nets) => nets,
            LocalTraffic::NodeCidr => &self.info.pod_cidrs,
            _ => return Vec::new(),
        };
        nets.iter().copied().filter(|net| Family::of(net.addr()) == family).collect()
    }
}
