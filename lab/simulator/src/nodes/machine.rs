//! The Node objects of simulated nodes, and which addresses their pods get.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

/// Most nodes that a lab can have: each needs a /24 of `10.244.0.0/16`.
const MAX_NODES: u8 = 250;
/// The address of the first node.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 10, 20);
/// What marks a Node as one of ours.
pub const SIMULATED: &str = "lab.service-controller-manager.io/simulated";

/// How many nodes, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `--nodes`.
    pub count: usize,
    /// `--zones`; nodes are spread over them in turn. Empty: nodes without a zone.
    pub zones: Vec<String>,
    /// Pods get an address of each family, IPv4 first.
    pub dual_stack: bool,
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
pub struct Machine {
    /// `k8s-node-1` and so on.
    pub name: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Where its pods' IPv4 addresses come from.
    pub pods_v4: Ipv4Net,
    /// Where its pods' IPv6 addresses come from, in a dual-stack lab.
    pub pods_v6: Option<Ipv6Net>,
}

/// The nodes that the settings ask for.
///
/// # Errors
/// When there are too many or a zone's name is none.
pub fn machines(settings: &Settings) -> Result<Vec<Machine>, SettingsError> {
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
        .map(|number| Machine {
            name: format!("k8s-node-{number}"),
            zone: zone(number),
            address: Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + u32::from(number) - 1),
            pods_v4: Ipv4Net::new_assert(Ipv4Addr::new(10, 244, number, 0), 24),
            pods_v6: settings.dual_stack.then(|| {
                Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x244, u16::from(number), 0, 0, 0, 0), 64)
            }),
        })
        .collect())
}

impl Machine {
    /// The Node object.
    pub fn object(&self, now: Timestamp) -> Value {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
        });
        if let Some(zone) = &self.zone {
            labels["topology.kubernetes.io/zone"] = json!(zone);
        }
        let ranges: Vec<String> = std::iter::once(self.pods_v4.to_string())
            .chain(self.pods_v6.map(|range| range.to_string()))
            .collect();
        json!({
            "metadata": {
                "name": self.name, "labels": labels,
                "annotations": {SIMULATED: "true", "node.alpha.kubernetes.io/ttl": "0"},
            },
            "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
            "status": self.status(now),
        })
    }

    fn status(&self, now: Timestamp) -> Value {
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
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.2", "kubeProxyVersion": "", "osImage": "simulated", "kernelVersion": "none",
                "containerRuntimeVersion": "simulated://0", "operatingSystem": "linux", "architecture": "amd64",
                "machineID": "", "systemUUID": "", "bootID": "",
            },
        })
    }

    /// Addresses for one more pod: the first of each range that is not in `used`, from `after` on. `None` when the range
    /// is full.
    pub fn pod_addresses(&self, used: &BTreeSet<IpAddr>, after: u32) -> Option<Vec<IpAddr>> {
        let first = self.pods_v4.network().to_bits();
        // The network's and the broadcast address are no pod's, nor is the gateway's, the first one.
        let (low, count) = (2_u32, 253_u32);
        let offset = (0..count)
            .map(|step| low + (after + step) % count)
            .find(|offset| !used.contains(&IpAddr::V4(Ipv4Addr::from_bits(first + offset))))?;
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::from_bits(first + offset))];
        if let Some(range) = self.pods_v6 {
            addresses.push(IpAddr::V6(Ipv6Addr::from_bits(range.network().to_bits() + u128::from(offset))));
        }
        Some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<Machine> {
        let zones = vec!["a".to_owned(), "b".to_owned()];
        machines(&Settings { count: 3, zones, dual_stack: true }).unwrap()
    }

    #[test]
    fn nodes_are_spread_over_zones() {
        let zones: Vec<_> =
            three().into_iter().map(|machine| (machine.name, machine.zone.unwrap())).collect();
        let expected = [("k8s-node-1", "a"), ("k8s-node-2", "b"), ("k8s-node-3", "a")];
        assert_eq!(zones, expected.map(|(name, zone)| (name.to_owned(), zone.to_owned())));
    }

    #[test]
    fn addresses_come_from_the_nodes_own_ranges_and_run_out() {
        let machine = &three()[1];
        let mut used = BTreeSet::new();
        for _ in 0..253 {
            let addresses = machine.pod_addresses(&used, 7).unwrap();
            assert!(machine.pods_v4.contains(&match addresses[0] {
                IpAddr::V4(v4) => v4,
                IpAddr::V6(_) => unreachable!(),
            }));
            assert!(used.insert(addresses[0]));
        }
        assert_eq!(machine.pod_addresses(&used, 0), None);
    }

    #[test]
    fn too_many_nodes_are_refused() {
        let settings = Settings { count: 251, ..Settings::default() };
        assert_eq!(machines(&settings), Err(SettingsError::TooMany(251)));
        let settings = Settings { count: 1, zones: vec!["a b".into()], dual_stack: false };
        assert!(matches!(machines(&settings), Err(SettingsError::BadZone(..))));
        let all = machines(&Settings { count: 250, ..Settings::default() }).unwrap();
        let addresses: BTreeSet<_> = all.iter().map(|machine| machine.address).collect();
        assert_eq!(addresses.len(), 250);
    }
}
