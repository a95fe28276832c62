//! From Services, slices and a node to the rules of its table. Pure: no I/O, no clock, no chance.
//!
//! One Service makes one [`Fragment`], what is the same for all makes another; no fragment depends on another one, so a change
//! costs as much as the Services that it touches.

mod base;
mod endpoints;
mod service;

use service_api::address::Family;

pub use base::plan_base;
pub use endpoints::{Choice, choose, from_outside, of_port};
pub use service::plan_service;

use crate::config::{LocalTraffic, NodeView, RuleSettings};
use crate::nft::model::{Side, Statement};

/// What all Services of a node and a family see the same.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The family of the table.
    pub family: Family,
    /// The node.
    pub node: &'a NodeView,
    /// The choices.
    pub settings: &'a RuleSettings,
}

impl View<'_> {
    /// A part of a rule that lets only the traffic of this node's pods on, or only other traffic; none if it is not known.
    fn pod_traffic(&self, negated: bool) -> Option<Statement> {
        match &self.settings.local_traffic {
            LocalTraffic::Unknown => None,
            LocalTraffic::Bridge(name) => {
                Some(Statement::Interface { negated, name: name.clone(), prefix: false })
            }
            LocalTraffic::InterfacePrefix(name) => {
                Some(Statement::Interface { negated, name: name.clone(), prefix: true })
            }
            LocalTraffic::ClusterCidrs(_) | LocalTraffic::NodeCidr => {
                let nets = self.node.pod_nets(self.settings, self.family);
                (!nets.is_empty()).then_some(Statement::AddressIn { side: Side::Source, negated, nets })
            }
        }
    }
}

#[cfg(test)]
mod tests;
