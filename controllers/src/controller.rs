//! The controllers there are, by all the names they go by, and the keys they look at.
//!
//! Owns that table; what a controller does is decided in its own module.

use std::fmt;

use crate::text::Text;

/// A controller of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    /// endpointslice-controller
    Slices,
    /// endpoints-controller
    Endpoints,
    /// endpointslice-mirroring-controller
    Mirrors,
    /// service-cidr-controller
    Cidrs,
    /// service-allocation-controller
    Allocation,
    /// ip-address-audit-controller
    Addresses,
    /// node-port-audit-controller
    NodePorts,
    /// node-port-range-controller
    PortRanges,
    /// service-pool-controller
    Pools,
}

/// The names of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// In `--controllers`, in the log and in metrics of the work queue.
    pub flag: &'static str,
    /// In front of its own metrics.
    pub metrics: &'static str,
    /// In its Events, as upstream's controller signs them.
    pub component: &'static str,
    /// The target of its lines in the log.
    pub target: &'static str,
}

impl Controller {
    /// Those that share one index.
    pub const ALL: [Self; 4] = [Self::Slices, Self::Endpoints, Self::Mirrors, Self::Cidrs];
    /// Those that share the ledger of addresses and ports.
    pub const OF_THE_LEDGER: [Self; 5] =
        [Self::Allocation, Self::Addresses, Self::NodePorts, Self::PortRanges, Self::Pools];

    /// How many there are in all.
    pub const COUNT: usize = Self::ALL.len() + Self::OF_THE_LEDGER.len();

    /// Its names.
    #[must_use]
    pub const fn names(self) -> Names {
        match self {
            Self::Slices => Names {
                flag: "endpointslice-controller",
                metrics: "endpoint_slice_controller",
                component: "endpoint-slice-controller",
                target: "service_controllers::endpointslice",
            },
            Self::Endpoints => Names {
                flag: "endpoints-controller",
                metrics: "endpoints_controller",
                component: "endpoint-controller",
                target: "service_controllers::endpoints",
            },
            Self::Mirrors => Names {
                flag: "endpointslice-mirroring-controller",
                metrics: "endpoint_slice_mirroring_controller",
                component: "endpoint-slice-mirroring-controller",
                target: "service_controllers::mirroring",
            },
            Self::Cidrs => Names {
                flag: "service-cidr-controller",
                metrics: "service_cidr_controller",
                component: "service-cidr-controller",
                target: "service_controllers::servicecidr",
            },
            Self::Allocation => Names {
                flag: "service-allocation-controller",
                metrics: "service_allocation_controller",
                component: "service-allocation-controller",
                target: "service_controllers::allocation::service",
            },
            Self::Addresses => Names {
                flag: "ip-address-audit-controller",
                metrics: "ip_address_audit_controller",
                component: "ipallocator-repair-controller",
                target: "service_controllers::allocation::addresses",
            },
            Self::NodePorts => Names {
                flag: "node-port-audit-controller",
                metrics: "node_port_audit_controller",
                component: "portallocator-repair-controller",
                target: "service_controllers::allocation::node_ports",
            },
            Self::PortRanges => Names {
                flag: "node-port-range-controller",
                metrics: "node_port_range_controller",
                component: "node-port-range-controller",
                target: "service_controllers::allocation::ranges",
            },
            Self::Pools => Names {
                flag: "service-pool-controller",
                metrics: "service_pool_controller",
                component: "service-pool-controller",
                target: "service_controllers::allocation::pools",
            },
        }
    }

    /// The name upstream knows it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names().flag
    }
}

/// What a controller is asked to look at: a Service, or what bears its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Who looks.
    pub controller: Controller,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn new(controller: Controller, namespace: &Text, name: &Text) -> Self {
        Self { controller, namespace: namespace.clone(), name: name.clone() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.controller.name(), self.namespace, self.name)
    }
}
