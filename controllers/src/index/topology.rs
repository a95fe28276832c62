//! The zones' shares of the cluster's CPU.
//!
//! Pure: nodes in, shares or the reason why there are none out.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use crate::cache::Node;
use crate::text::Text;

/// The zones' shares of the allocatable CPU of the nodes that count.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// Shares by zone; they add up to 1.
    Shares(BTreeMap<Text, f64>),
    /// Not known.
    Unknown {
        /// Why, naming the node at fault.
        why: String,
    },
}

impl Default for Topology {
    fn default() -> Self {
        Self::Unknown { why: "there are no ready nodes".to_owned() }
    }
}

impl Topology {
    /// The account of these nodes. One ready node without zone or CPU leaves all shares unknown, and
    /// so does a cluster within one zone (KEP-2433).
    #[must_use]
    pub fn of(nodes: &HashMap<Text, Node>) -> Self {
        let mut cpu: BTreeMap<Text, i64> = BTreeMap::new();
        for (name, node) in nodes.iter().filter(|(_, n)| n.ready && !n.control_plane) {
            match &node.zone {
                None => {
                    return Self::Unknown {
                        why: format!("node {name} has no label topology.kubernetes.io/zone"),
                    };
                }
                Some(_) if node.cpu == 0 => {
                    return Self::Unknown { why: format!("node {name} has no allocatable CPU") };
                }
                Some(zone) => *cpu.entry(Arc::clone(zone)).or_default() += node.cpu,
            }
        }
        match cpu.len() {
            0 => Self::default(),
            1 => Self::Unknown {
                why: format!("all ready nodes are in zone {}", cpu.keys().next().map_or("", |zone| zone)),
            },
            _ => {
                #[allow(clippy::cast_precision_loss)] // far below 2^52 thousandths of a CPU
                let total = cpu.values().sum::<i64>() as f64;
                #[allow(clippy::cast_precision_loss)]
                Self::Shares(cpu.into_iter().map(|(zone, cpu)| (zone, cpu as f64 / total)).collect())
            }
        }
    }
}
