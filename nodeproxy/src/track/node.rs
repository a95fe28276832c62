//! The Node as its own proxy keeps it.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use service_api::address::{Family, parse_lenient};

use super::net;
use crate::objects::NodeWire;

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The taint by which the cluster autoscaler says that a node is about to go.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its addresses, internal ones first.
    pub addresses: Vec<IpAddr>,
    /// Its pod networks.
    pub pod_cidrs: Vec<IpNet>,
    /// It is being deleted, or about to be: load balancers should leave it.
    pub leaving: bool,
}

impl NodeInfo {
    /// The Node of the wire.
    pub fn read(wire: &NodeWire) -> Self {
        let of = |kind: &'static str| {
            let all = wire.status.addresses.iter().filter(move |address| address.kind == kind);
            all.filter_map(|address| parse_lenient(&address.address))
        };
        let labels = wire.metadata.labels.as_ref();
        Self {
            zone: labels.and_then(|labels| labels.get(ZONE_LABEL)).map(|zone| zone.as_str().into()),
            addresses: of("InternalIP").chain(of("ExternalIP")).collect(),
            pod_cidrs: wire.spec.pod_cidrs.iter().filter_map(|text| net(text)).collect(),
            leaving: wire.metadata.deletion_timestamp.is_some()
                || wire.spec.taints.iter().any(|taint| taint.key == TO_BE_DELETED),
        }
    }

    /// Its primary address of a family.
    pub fn primary(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|ip| Family::of(*ip) == family)
    }
}
