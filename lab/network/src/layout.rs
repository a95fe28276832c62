//! Names, addresses and ways of the lab's network. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::error::NetworkError;

/// The machine itself, on the nodes' network.
const MACHINE_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 50);
const MACHINE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x192, 0x168, 0x10, 0, 0, 0, 0x50);
/// How much of an address the nodes share with the machine.
const NODES_V4: u8 = 24;
const NODES_V6: u8 = 64;
/// The addresses of more nodes would reach the machine's.
const MOST_NODES: usize = 30;
/// The longest name of a namespace: that of a file, with room for a number.
const LONGEST: usize = 200;

/// A node and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    /// Its name.
    pub name: String,
    /// Its own addresses, at most one of a family.
    pub addresses: Vec<IpAddr>,
    /// Where its pods' addresses come from.
    pub pod_ranges: Vec<IpNet>,
}

/// What all names of a lab's namespaces begin with.
pub(crate) fn prefix(id: &str) -> String {
    format!("scm-lab-{id}-")
}

/// The bridge of a lab. The kernel takes 15 letters.
pub(crate) fn bridge(id: &str) -> String {
    format!("scm{id}")
}

/// The link of a node that goes to the bridge, on the machine's side.
pub(crate) fn uplink(id: &str, node: usize) -> String {
    format!("scm{id}n{node}")
}

/// The namespace of a node.
pub(crate) fn node_namespace(id: &str, name: &str) -> String {
    cut(format!("{}{name}", prefix(id)))
}

/// The namespace of a pod; the number tells those of one name apart that follow each other.
pub(crate) fn pod_namespace(id: &str, number: u64, namespace: &str, name: &str) -> String {
    cut(format!("{}pod{number}-{namespace}-{name}", prefix(id)))
}

fn cut(mut name: String) -> String {
    name.truncate(LONGEST);
    name
}

/// The machine's address of the family of this one.
pub(crate) const fn machine(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => IpAddr::V4(MACHINE_V4),
        IpAddr::V6(_) => IpAddr::V6(MACHINE_V6),
    }
}

/// How many bits the addresses of nodes have in common.
pub(crate) const fn shared_bits(of: IpAddr) -> u8 {
    match of {
        IpAddr::V4(_) => NODES_V4,
        IpAddr::V6(_) => NODES_V6,
    }
}

/// A route for an address alone.
pub(crate) const fn host_bits(of: IpAddr) -> u8 {
    match of {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The networks that a lab with these nodes and Service ranges needs for itself.
pub(crate) fn needed(nodes: &[NodePlace], services: &[IpNet]) -> Vec<IpNet> {
    let own = nodes.first().into_iter().flat_map(|node| &node.addresses);
    let own = own.filter_map(|ip| IpNet::new(machine(*ip), shared_bits(*ip)).ok()).map(|net| net.trunc());
    let pods = nodes.iter().flat_map(|node| &node.pod_ranges);
    own.chain(pods.copied()).chain(services.iter().copied()).collect()
}

/// Whether the nodes fit.
pub(crate) fn check(nodes: &[NodePlace]) -> Result<(), NetworkError> {
    match nodes.len() {
        0 => Err(NetworkError::NoNodes),
        asked if asked > MOST_NODES => Err(NetworkError::TooManyNodes { asked, most: MOST_NODES }),
        _ => Ok(()),
    }
}

/// Whether a lab can have its networks beside the routes that are there; a default route is no hindrance.
pub(crate) fn free(needed: &[IpNet], there: &[IpNet]) -> Result<(), NetworkError> {
    for wanted in needed {
        let meets = |net: &&IpNet| {
            net.prefix_len() > 0 && (net.contains(&wanted.network()) || wanted.contains(&net.network()))
        };
        if let Some(there) = there.iter().find(meets) {
            let hint = if there.addr() == machine(there.addr()) || there.contains(&machine(there.addr())) {
                "another lab runs with --network, or the machine's network has these addresses"
            } else {
                "take another --service-cluster-ip-range, or leave --network out"
            };
            return Err(NetworkError::Taken { wanted: *wanted, there: *there, hint });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn node() -> NodePlace {
        NodePlace {
            name: "k8s-node-1".to_owned(),
            addresses: vec!["192.168.10.20".parse().unwrap()],
            pod_ranges: nets(&["10.244.1.0/24"]),
        }
    }

    #[rstest]
    #[case(&["0.0.0.0/0", "172.17.0.0/16", "192.168.1.0/24"], true)]
    #[case(&["192.168.0.0/16"], false)]
    #[case(&["10.244.1.7/32"], false)]
    #[case(&["10.100.0.0/16"], false)]
    fn networks_that_are_in_use_are_not_taken(#[case] there: &[&str], #[case] fits: bool) {
        let needed = needed(&[node()], &nets(&["10.96.0.0/12"]));
        assert_eq!(needed, nets(&["192.168.10.0/24", "10.244.1.0/24", "10.96.0.0/12"]));
        assert_eq!(free(&needed, &nets(there)).is_ok(), fits);
    }

    #[test]
    fn names_fit_the_kernel() {
        let id = "4194304";
        assert!(uplink(id, 30).len() <= 15, "{}", uplink(id, 30));
        assert!(pod_namespace(id, u64::MAX, &"n".repeat(63), &"p".repeat(253)).len() <= 255);
        assert!(node_namespace(id, "k8s-node-1").starts_with(&prefix(id)));
    }

    #[test]
    fn nodes_are_neither_none_nor_too_many() {
        assert!(matches!(check(&[]), Err(NetworkError::NoNodes)));
        assert!(check(&vec![node(); 30]).is_ok());
        assert!(matches!(check(&vec![node(); 31]), Err(NetworkError::TooManyNodes { .. })));
    }
}
