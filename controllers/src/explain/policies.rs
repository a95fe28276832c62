//! Policies by which a node without an endpoint of its own drops what comes to a Service.
//!
//! Pure. Owns which nodes those are (KEP-2086, KEP-1669); it programs no proxy.

use std::collections::BTreeSet;

use service_api::service::{externally_accessible, spec_of};

use super::planned::Planned;
use super::report::{Many, PolicyFacts};
use super::snapshot::Snapshot;
use crate::cache::{Endpoint, Service};
use crate::text::Text;

/// So many nodes are named.
const NAMED: usize = 5;

/// The policies of a Service that are Local, with the nodes that drop.
pub(super) fn facts(
    snapshot: &Snapshot,
    service: &Service,
    planned: &Planned,
    written: bool,
) -> Vec<PolicyFacts> {
    let key = (service.namespace.to_string(), service.name.to_string());
    let Some(object) = snapshot.services.get(&key).filter(|_| !service.external_name) else {
        return Vec::new();
    };
    let spec = spec_of(object);
    let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    let external = is_local(&spec.external_traffic_policy) && externally_accessible(spec);
    let policies = [
        ("internalTrafficPolicy", is_local(&spec.internal_traffic_policy), "from pods to its cluster IP"),
        ("externalTrafficPolicy", external, "from outside of the cluster"),
    ];
    let used = used_nodes(planned, written);
    let all: BTreeSet<&Text> = snapshot.index.nodes.keys().collect();
    policies
        .into_iter()
        .filter(|(_, local, _)| *local)
        .map(|(policy, _, traffic)| {
            let dropping: Vec<String> = all.difference(&used).map(ToString::to_string).collect();
            let count = dropping.len();
            let message = if count == 0 {
                format!("{policy} is Local, and every node has an endpoint")
            } else {
                format!(
                    "{policy} is Local: what comes {traffic} is dropped on {count} of {} nodes",
                    all.len()
                )
            };
            PolicyFacts {
                policy,
                nodes_with_endpoints: used.len(),
                nodes_that_drop: Many { count, first: dropping.into_iter().take(NAMED).collect() },
                message,
            }
        })
        .collect()
}

/// The nodes with an endpoint that a proxy there uses: a ready one, or else one that terminates and still serves.
fn used_nodes(planned: &Planned, written: bool) -> BTreeSet<&Text> {
    let slices = planned.pairs.iter().filter_map(|pair| if written { &pair.old } else { &pair.new }.as_ref());
    let serves = |endpoint: &&Endpoint| {
        endpoint.is_ready() || (endpoint.serving == Some(true) && endpoint.terminating == Some(true))
    };
    let endpoints = slices.flat_map(|slice| slice.endpoints.iter()).filter(serves);
    endpoints.filter_map(|endpoint| endpoint.node.as_ref()).collect()
}
