//! A node as it is kept.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Hints, Interners};
use crate::keys;
use crate::objects::NodeWire;
use crate::text::Text;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Zone, if it has one.
    pub zone: Option<Text>,
    /// Allocatable CPU in thousandths; 0 if not given.
    pub cpu: i64,
    /// Whether the Ready condition is True.
    pub ready: bool,
    /// Whether it belongs to the control plane and is left out of the topology account.
    pub control_plane: bool,
    /// Hints of an endpoint here that should serve its zone; none without a zone.
    pub zone_hints: Option<Arc<Hints>>,
    /// Hints of an endpoint here that should serve its node, and its zone if there is one.
    pub node_hints: Arc<Hints>,
}

impl Node {
    /// Reads a node.
    pub fn read(wire: &NodeWire, shared: &mut Interners) -> Self {
        let label =
            |key: &str| wire.metadata.labels.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let zone = label(keys::ZONE).and_then(|zone| shared.optional(zone));
        let zones: SmallVec<[Text; 1]> = zone.iter().cloned().collect();
        let name = shared.texts.text(&wire.metadata.name);
        let node_hints = Hints { zones: zones.clone(), nodes: [name].into_iter().collect() };
        Self {
            zone_hints: zone.as_ref().map(|_| shared.hints(Hints { zones, ..Hints::default() })),
            node_hints: shared.hints(node_hints),
            zone,
            cpu: wire.status.allocatable.cpu.as_deref().map_or(0, milli),
            ready: wire.status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"),
            control_plane: keys::CONTROL_PLANE_ROLES.iter().any(|role| label(role).is_some()),
        }
    }
}

/// A quantity in thousandths, rounded up; 0 for what is none. (API reference, "Quantity".)
#[must_use]
pub fn milli(quantity: &str) -> i64 {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| quantity.strip_suffix(suffix).map(|number| (number, *factor)))
        .unwrap_or((quantity, 1.0));
    let value = number.parse::<f64>().unwrap_or(0.0) * factor * 1000.0;
    #[allow(clippy::cast_possible_truncation)] // saturates, which is what a quantity should do
    {
        (value - 1e-6).ceil().max(0.0) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("4", 4000)]
    #[case("3900m", 3900)]
    #[case("0.5", 500)]
    #[case("1500u", 2)]
    #[case("2k", 2_000_000)]
    #[case("0", 0)]
    #[case("junk", 0)]
    #[case("1e1", 10_000)]
    fn quantities_count_thousandths(#[case] quantity: &str, #[case] thousandths: i64) {
        assert_eq!(milli(quantity), thousandths);
    }
}
