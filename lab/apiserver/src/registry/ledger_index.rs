//! What the store derives from its objects: who holds which address and port, and who owns what.
//!
//! The ledger follows the stored objects and nothing else: an address is taken while an IPAddress of that name exists,
//! whoever made it; a port is taken while a stored Service names it; a range gives addresses while its ServiceCIDR says
//! so. It therefore can not disagree with the store, and is right as soon as the store is loaded.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::Deserialize;
use serde_json::Value;
use service_allocators::{ClusterFamilies, Ledger, PortLedger, RangeUsage};

use super::Registry;
use super::owner_index::OwnerIndex;
use crate::store::{Index, ObjectChange, ResourceId};

/// Everything the lab keeps derived from its objects.
pub struct LabIndex {
    /// Addresses and ports in use, and by whom.
    pub services: ServiceIndex,
    /// Who owns what, for garbage collection.
    pub owners: OwnerIndex,
}

impl LabIndex {
    /// An index of nothing yet.
    pub fn new(registry: &Registry, families: ClusterFamilies, ports: PortLedger) -> Self {
        Self { services: ServiceIndex::new(registry, families, ports), owners: OwnerIndex::default() }
    }
}

impl Index for LabIndex {
    fn apply(&mut self, change: &ObjectChange<'_>) {
        self.services.apply(change);
        self.owners.apply(change);
    }
}

/// The allocators' ledger as an index of Services, IPAddresses and ServiceCIDRs.
pub struct ServiceIndex {
    /// What is taken.
    pub ledger: Ledger,
    services: Option<ResourceId>,
    addresses: Option<ResourceId>,
    ranges: Option<ResourceId>,
}

impl ServiceIndex {
    /// An index in which nothing is taken; `ports` says which node ports there are and who may share one.
    pub fn new(registry: &Registry, families: ClusterFamilies, ports: PortLedger) -> Self {
        const NETWORKING: &str = "networking.k8s.io";
        Self {
            ledger: Ledger::new(families, ports),
            services: registry.id("", "services"),
            addresses: registry.id(NETWORKING, "ipaddresses"),
            ranges: registry.id(NETWORKING, "servicecidrs"),
        }
    }

    /// How full each range is, and the node ports: what the gauges of `/metrics` show. Costs no walk over objects.
    pub fn usage(&self) -> Usage {
        Usage {
            ranges: self.ledger.addresses.usage().collect(),
            allocated_ports: self.ledger.ports.allocated(),
            available_ports: self.ledger.ports.available(),
        }
    }

    fn apply(&mut self, change: &ObjectChange<'_>) {
        let resource = Some(change.resource);
        if resource == self.addresses {
            self.follow_address(change);
        } else if resource == self.services {
            self.follow_service(change);
        } else if resource == self.ranges {
            self.follow_range(change);
        }
    }

    fn follow_address(&mut self, change: &ObjectChange<'_>) {
        let address = |name: &str| name.parse::<IpAddr>().ok();
        match (change.old, change.new) {
            (None, Some(new)) => {
                let name = new.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                address(name).map(|address| self.ledger.addresses.insert(address));
            }
            (Some(old), None) => {
                address(&old.name).map(|address| self.ledger.addresses.remove(address));
            }
            _ => {}
        }
    }

    fn follow_service(&mut self, change: &ObjectChange<'_>) {
        let old = change
            .old
            .filter(|old| may_hold_ports(&old.body))
            .and_then(|old| serde_json::from_slice::<Service>(&old.body).ok());
        let new = change.new.filter(|new| has_node_ports(new)).and_then(|new| Service::deserialize(new).ok());
        if old.is_some() || new.is_some() {
            self.ledger.follow_ports(old.as_ref(), new.as_ref());
        }
    }

    fn follow_range(&mut self, change: &ObjectChange<'_>) {
        match change.new {
            Some(new) => match ServiceCIDR::deserialize(new) {
                Ok(range) => {
                    if let Err(error) = self.ledger.addresses.set_service_cidr(&range) {
                        let name = range.metadata.name.as_deref().unwrap_or_default();
                        tracing::warn!(servicecidr = name, %error, "a stored range can not give addresses");
                    }
                }
                Err(error) => tracing::error!(%error, "a stored ServiceCIDR can not be read"),
            },
            None => {
                if let Some(old) = change.old {
                    self.ledger.addresses.remove_range(&old.name);
                }
            }
        }
    }
}

/// How full everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Every range of every ServiceCIDR.
    pub ranges: Vec<RangeUsage>,
    /// Node ports in use.
    pub allocated_ports: u64,
    /// Node ports that are free.
    pub available_ports: u64,
}

/// A cheap look at stored JSON; only a Service whose text names a node port can hold one.
fn may_hold_ports(body: &[u8]) -> bool {
    const NAMES: [&[u8]; 2] = [b"\"nodePort\"", b"\"healthCheckNodePort\""];
    NAMES.iter().any(|name| body.windows(name.len()).any(|window| window == *name))
}

fn has_node_ports(service: &Value) -> bool {
    let Some(spec) = service.get("spec") else { return false };
    let ports = spec.get("ports").and_then(Value::as_array);
    spec.get("healthCheckNodePort").is_some()
        || ports.into_iter().flatten().any(|port| port.get("nodePort").is_some())
}
