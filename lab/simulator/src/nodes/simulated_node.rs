//! The Node objects of simulated nodes, and which addresses their pods get.
//!
//! Addresses are of the cluster's families, in their order: the first family of the Service ranges comes first in a node's
//! addresses, in its pod ranges and in its pods' addresses. Nothing is written here.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::Timestamp;
use serde_json::{Value, json};
use service_api::address::Family;
use thiserror::Error;

/// Most nodes that a lab can have: each needs a /24 of `10.244.0.0/16`.
const MAX_NODES: u8 = 250;
/// The address of the first node, of each family.
const FIRST_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 20);
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x192, 0x168, 0x10, 0, 0, 0, 0x20);
/// What marks a Node as one of ours.
pub const SIMULATED: &str = "lab.service-controller-manager.io/simulated";
/// The zone that `--zones` gave the node, so that a change of the flag can be told from one by hand.
pub const GIVEN_ZONE: &str = "lab.service-controller-manager.io/zone";
/// The label with a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Where a node's pods begin in each of its ranges, and how many there can be: the network's and the broadcast address
/// are no pod's, nor is the gateway's, the first one.
const PODS: (u32, u32) = (2, 253);

/// How many nodes, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--nodes`.
    pub count: usize,
    /// `--zones`; nodes are spread over them in turn. Empty: nodes without a zone.
    pub zones: Vec<String>,
}

/// Nodes that can not be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// More than there are pod ranges.
    #[error("--nodes {0}: at most {MAX_NODES} nodes can be simulated")]
    TooMany(usize),
    /// A zone that can not be a label's value.
    #[error("--zones {0:?}: {1}")]
    BadZone(String, String),
}

/// One simulated node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedNode {
    /// `k8s-node-1` and so on.
    pub name: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Its own addresses: one of each family of the cluster, the first family first.
    pub addresses: Vec<IpAddr>,
    /// Where its pods' addresses come from, in the same order.
    pub pod_ranges: Vec<IpNet>,
}

/// The nodes that the settings ask for, in a cluster of these families, in the order of its Service ranges.
///
/// # Errors
/// When there are too many or a zone's name is none.
pub fn simulated_nodes(
    settings: &Settings,
    families: &[Family],
) -> Result<Vec<SimulatedNode>, SettingsError> {
    let count = u8::try_from(settings.count)
        .ok()
        .filter(|count| *count <= MAX_NODES)
        .ok_or(SettingsError::TooMany(settings.count))?;
    for zone in &settings.zones {
        if let Some(why) = service_api::names::label_value(zone).into_iter().next() {
            return Err(SettingsError::BadZone(zone.clone(), why));
        }
    }
    let zone = |number: u8| match settings.zones.len() {
        0 => None,
        zones => Some(settings.zones[usize::from(number - 1) % zones].clone()),
    };
    Ok((1..=count)
        .map(|number| SimulatedNode {
            name: format!("k8s-node-{number}"),
            zone: zone(number),
            addresses: families.iter().map(|family| address(*family, number)).collect(),
            pod_ranges: families.iter().map(|family| pod_range(*family, number)).collect(),
        })
        .collect())
}

fn address(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(FIRST_V4.to_bits() + u32::from(number) - 1).into(),
        Family::V6 => Ipv6Addr::from_bits(FIRST_V6.to_bits() + u128::from(number) - 1).into(),
    }
}

fn pod_range(family: Family, number: u8) -> IpNet {
    match family {
        Family::V4 => Ipv4Net::new_assert(Ipv4Addr::new(10, 244, number, 0), 24).into(),
        Family::V6 => {
            let network = Ipv6Addr::new(0xfd00, 0x10, 0x244, u16::from(number), 0, 0, 0, 0);
            Ipv6Net::new_assert(network, 64).into()
        }
    }
}

/// The network that holds the pod ranges of all nodes.
pub fn pods_of_all_nodes(family: Family) -> IpNet {
    match family {
        Family::V4 => Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16).into(),
        Family::V6 => Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0), 48).into(),
    }
}

impl SimulatedNode {
    /// The Node object.
    pub fn object(&self, now: Timestamp) -> Value {
        let mut annotations = json!({SIMULATED: "true", "node.alpha.kubernetes.io/ttl": "0"});
        if let Some(zone) = &self.zone {
            annotations[GIVEN_ZONE] = json!(zone);
        }
        let ranges = self.shown_ranges();
        json!({
            "metadata": {"name": self.name, "labels": self.labels(), "annotations": annotations},
            "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
            "status": self.status(now),
        })
    }

    /// The labels that a kubelet gives its Node, and the zone.
    pub fn labels(&self) -> Value {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
        });
        if let Some(zone) = &self.zone {
            labels[ZONE] = json!(zone);
        }
        labels
    }

    /// The pod ranges that the Node's spec shows.
    pub fn shown_ranges(&self) -> Value {
        self.pod_ranges.iter().map(ToString::to_string).collect()
    }

    /// The addresses that the Node's status shows.
    pub fn shown_addresses(&self) -> Value {
        let own = self.addresses.iter().map(|address| json!({"type": "InternalIP", "address": address}));
        own.chain([json!({"type": "Hostname", "address": self.name})]).collect()
    }

    /// The status that a kubelet reports when it registers.
    pub fn status(&self, now: Timestamp) -> Value {
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": time, "lastTransitionTime": time,
            })
        };
        let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        json!({
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "simulated node has sufficient memory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "simulated node has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "simulated node has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "simulated node is posting ready status"),
            ],
            "addresses": self.shown_addresses(),
            "nodeInfo": {
                "kubeletVersion": "v1.36.2", "kubeProxyVersion": "", "osImage": "simulated", "kernelVersion": "none",
                "containerRuntimeVersion": "simulated://0", "operatingSystem": "linux", "architecture": "amd64",
                "machineID": "", "systemUUID": "", "bootID": "",
            },
        })
    }

    /// Addresses for one more pod, the same place in each range: the first from `after` on of which none is in `used`,
    /// and that place, for the next `after`. `None` when the ranges are full.
    pub fn pod_addresses(&self, used: &BTreeSet<IpAddr>, after: u32) -> Option<(Vec<IpAddr>, u32)> {
        let (low, count) = PODS;
        (0..count).map(|step| (after + step) % count).find_map(|place| {
            let addresses: Vec<IpAddr> =
                self.pod_ranges.iter().map(|range| nth(*range, low + place)).collect();
            addresses.iter().all(|address| !used.contains(address)).then_some((addresses, place + 1))
        })
    }
}

/// The address at an offset of a range.
fn nth(range: IpNet, offset: u32) -> IpAddr {
    match range.network() {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits().wrapping_add(offset)).into(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits().wrapping_add(offset.into())).into(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const V4: &str = "10.244.2.0/24";
    const V6: &str = "fd00:10:244:2::/64";

    fn three(families: &[Family]) -> Vec<SimulatedNode> {
        let zones = vec!["a".to_owned(), "b".to_owned()];
        simulated_nodes(&Settings { count: 3, zones }, families).unwrap()
    }

    #[test]
    fn nodes_are_spread_over_zones() {
        let zones: Vec<_> = three(&[Family::V4, Family::V6])
            .into_iter()
            .map(|simulated| (simulated.name, simulated.zone.unwrap()))
            .collect();
        let expected = [("k8s-node-1", "a"), ("k8s-node-2", "b"), ("k8s-node-3", "a")];
        assert_eq!(zones, expected.map(|(name, zone)| (name.to_owned(), zone.to_owned())));
    }

    #[rstest]
    #[case::only_ipv4(&[Family::V4], &[V4], &["192.168.10.21"], &["10.244.2.9"])]
    #[case::only_ipv6(&[Family::V6], &[V6], &["fd00:192:168:10::21"], &["fd00:10:244:2::9"])]
    #[case::ipv4_first(&[Family::V4, Family::V6], &[V4, V6], &["192.168.10.21", "fd00:192:168:10::21"],
        &["10.244.2.9", "fd00:10:244:2::9"])]
    #[case::ipv6_first(&[Family::V6, Family::V4], &[V6, V4], &["fd00:192:168:10::21", "192.168.10.21"],
        &["fd00:10:244:2::9", "10.244.2.9"])]
    fn addresses_are_of_the_clusters_families_in_their_order(
        #[case] families: &[Family],
        #[case] ranges: &[&str],
        #[case] own: &[&str],
        #[case] pods: &[&str],
    ) {
        let simulated = &three(families)[1];
        let node = simulated.object(Timestamp::UNIX_EPOCH);
        assert_eq!(node["spec"]["podCIDR"], json!(ranges[0]));
        assert_eq!(node["spec"]["podCIDRs"], json!(ranges));
        let shown = node["status"]["addresses"].as_array().unwrap();
        let internal: Vec<&str> = shown
            .iter()
            .filter(|address| address["type"] == "InternalIP")
            .map(|address| address["address"].as_str().unwrap())
            .collect();
        assert_eq!(internal, own);
        let (addresses, next) = simulated.pod_addresses(&BTreeSet::new(), 7).unwrap();
        assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), pods);
        assert_eq!(next, 8);
    }

    #[rstest]
    #[case(&[Family::V4, Family::V6])]
    #[case(&[Family::V6])]
    fn addresses_come_from_the_nodes_own_ranges_and_run_out(#[case] families: &[Family]) {
        let simulated = &three(families)[1];
        let mut used = BTreeSet::new();
        for _ in 0..253 {
            let (addresses, _) = simulated.pod_addresses(&used, 7).unwrap();
            assert_eq!(addresses.len(), simulated.pod_ranges.len());
            for (address, range) in addresses.iter().zip(&simulated.pod_ranges) {
                assert!(range.contains(address));
                assert!(used.insert(*address));
            }
        }
        assert_eq!(simulated.pod_addresses(&used, 0), None);
    }

    #[test]
    fn too_many_nodes_are_refused() {
        let both: &[Family] = &[Family::V4, Family::V6];
        let settings = Settings { count: 251, ..Settings::default() };
        assert_eq!(simulated_nodes(&settings, both), Err(SettingsError::TooMany(251)));
        let settings = Settings { count: 1, zones: vec!["a b".into()] };
        assert!(matches!(simulated_nodes(&settings, both), Err(SettingsError::BadZone(..))));
        let all = simulated_nodes(&Settings { count: 250, ..Settings::default() }, both).unwrap();
        let addresses: BTreeSet<_> = all.iter().flat_map(|simulated| simulated.addresses.clone()).collect();
        assert_eq!(addresses.len(), 500);
    }
}
