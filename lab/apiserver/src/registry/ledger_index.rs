//! What the store derives from its objects: who holds which address and port, and who owns what.
//!
//! The ledger follows the stored objects and nothing else: an address is taken while an IPAddress of that name exists,
//! whoever made it, or a stored Service has it; a port is taken while a stored Service names it or a NodePort of that name
//! exists; a range gives values while its ServiceCIDR or NodePortRange says so. It therefore can not disagree with the
//! store, and is right as soon as the store is loaded.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_allocators::pools::Seconds;
use service_allocators::{ClusterFamilies, LiveLedger, PortLedger, RangeUsage, ServiceKey};
use service_api::crds;
use smallvec::SmallVec;

use super::Registry;
use super::attempts::Attempts;
use super::owner_index::OwnerIndex;
use crate::store::{Index, ObjectChange, ResourceId, Stored};

/// The condition of the default ServiceCIDR that is false while a server was started with other ranges.
pub(crate) const CONSISTENT: &str = "Consistent";

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

/// The allocators' ledger as an index of Services, IPAddresses, NodePorts, the ranges of both, and ServicePools.
pub struct ServiceIndex {
    /// What is taken, and what pools keep back.
    pub live: LiveLedger,
    /// What is said of ranges that are not those of this start, if they are not.
    difference: Option<String>,
    services: Option<ResourceId>,
    addresses: Option<ResourceId>,
    ranges: Option<ResourceId>,
    ports: Option<ResourceId>,
    port_ranges: Option<ResourceId>,
    pools: Option<ResourceId>,
    /// Who gives Services their values.
    pub allocation: Allocation,
    /// How often that was done, and refused.
    pub(crate) attempts: Attempts,
}

/// Who gives Services their addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// This server, in the transaction that stores the Service.
    #[default]
    Transaction,
    /// A controller, after the Service is stored; this server only refuses what is taken already.
    Reconcile,
}

impl ServiceIndex {
    /// An index in which nothing is taken; `ports` says which node ports there are and who may share one.
    pub fn new(registry: &Registry, families: ClusterFamilies, ports: PortLedger) -> Self {
        const NETWORKING: &str = "networking.k8s.io";
        Self {
            live: LiveLedger::new(families, ports),
            difference: None,
            services: registry.id("", "services"),
            addresses: registry.id(NETWORKING, "ipaddresses"),
            ranges: registry.id(NETWORKING, "servicecidrs"),
            ports: registry.id(crds::GROUP, "nodeports"),
            port_ranges: registry.id(crds::GROUP, "nodeportranges"),
            pools: registry.id(crds::GROUP, "servicepools"),
            allocation: Allocation::default(),
            attempts: Attempts::default(),
        }
    }

    /// The Services that have the address.
    pub fn services_with(&self, address: IpAddr) -> &[ServiceKey] {
        self.live.services_with(address)
    }

    /// In what the stored ranges differ from those of this start, if they do.
    pub fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// How full each range is, and the node ports: what the gauges of `/metrics` show. Costs no walk over objects.
    pub fn usage(&self) -> Usage {
        Usage {
            ranges: self.live.ledger.addresses.usage().collect(),
            allocated_ports: self.live.ledger.ports.allocated(),
            available_ports: self.live.ledger.ports.available(),
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
        } else if resource == self.ports {
            self.follow_port(change);
        } else if resource == self.port_ranges {
            self.follow_port_range(change);
        } else if resource == self.pools {
            self.follow_pool(change);
        }
    }

    fn follow_address(&mut self, change: &ObjectChange<'_>) {
        match (change.old, change.new) {
            (None, Some(new)) => {
                let name = new.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                self.live.set_address(name, now());
            }
            (Some(old), None) => self.live.remove_address(&old.name, || holder(old), now()),
            _ => {}
        }
    }

    /// Which addresses a Service has.
    fn follow_addresses(&mut self, change: &ObjectChange<'_>) {
        let before = change.old.map(|old| Addressed::read(&old.body)).unwrap_or_default();
        let after =
            change.new.and_then(|new| Addressed::deserialize(new).ok()).unwrap_or_default().addresses();
        let before = before.addresses();
        if before == after {
            return;
        }
        let key = match (change.old, change.new) {
            (Some(old), _) => ServiceKey::new(&*old.namespace, &*old.name),
            (None, Some(new)) => {
                let text = |field| new.pointer(field).and_then(Value::as_str).unwrap_or_default();
                ServiceKey::new(text("/metadata/namespace"), text("/metadata/name"))
            }
            (None, None) => return,
        };
        self.live.move_addresses(&key, &before, &after, now());
    }

    fn follow_service(&mut self, change: &ObjectChange<'_>) {
        self.follow_addresses(change);
        let old = change
            .old
            .filter(|old| may_hold_ports(&old.body))
            .and_then(|old| serde_json::from_slice::<Service>(&old.body).ok());
        let new = change.new.filter(|new| has_node_ports(new)).and_then(|new| Service::deserialize(new).ok());
        if old.is_some() || new.is_some() {
            self.live.set_service(old.as_ref(), new.as_ref(), now());
        }
    }

    fn follow_range(&mut self, change: &ObjectChange<'_>) {
        let name = |object: &Value| object["metadata"]["name"] == DEFAULT_RANGE;
        if change.old.is_some_and(|old| &*old.name == DEFAULT_RANGE) || change.new.is_some_and(name) {
            self.difference = change.new.and_then(difference);
        }
        match (read::<ServiceCIDR>(change), change.old) {
            (Some(range), _) => {
                if let Err(error) = self.live.set_cidr(&range) {
                    let name = range.metadata.name.as_deref().unwrap_or_default();
                    tracing::warn!(servicecidr = name, %error, "a stored range can not give addresses");
                }
            }
            (None, Some(old)) if change.new.is_none() => self.live.remove_cidr(&old.name),
            (None, _) => {}
        }
    }

    fn follow_port(&mut self, change: &ObjectChange<'_>) {
        match (read::<crds::NodePort>(change), change.old) {
            (Some(port), _) => self.live.set_port(&port, now()),
            (None, Some(old)) if change.new.is_none() => self.live.remove_port(&old.name, now()),
            (None, _) => {}
        }
    }

    fn follow_port_range(&mut self, change: &ObjectChange<'_>) {
        match (read::<crds::NodePortRange>(change), change.old) {
            (Some(range), _) => {
                if !self.live.set_port_range(&range) {
                    let name = range.metadata.name.as_deref().unwrap_or_default();
                    tracing::warn!(nodeportrange = name, "a stored range has no ports");
                }
            }
            (None, Some(old)) if change.new.is_none() => self.live.remove_port_range(&old.name),
            (None, _) => {}
        }
    }

    fn follow_pool(&mut self, change: &ObjectChange<'_>) {
        let faults = match (read::<crds::ServicePool>(change), change.old) {
            (Some(pool), _) => self.live.set_pool(&pool),
            (None, Some(old)) if change.new.is_none() => self.live.remove_pool(&old.name),
            (None, _) => &[],
        };
        for fault in faults {
            tracing::warn!(servicepool = fault.pool, "{}", fault.text);
        }
    }
}

/// What is stored from now on; `None` for a delete, and for what can not be read, which is told.
fn read<T: DeserializeOwned>(change: &ObjectChange<'_>) -> Option<T> {
    let read = T::deserialize(change.new?);
    read.inspect_err(|error| tracing::error!(%error, "a stored object can not be read")).ok()
}

/// The Service that an IPAddress belongs to.
fn holder(address: &Stored) -> Option<ServiceKey> {
    let object: Value = serde_json::from_slice(&address.body).ok()?;
    let of = |field: &str| object.pointer(&format!("/spec/parentRef/{field}")).and_then(Value::as_str);
    Some(ServiceKey::new(of("namespace")?, of("name")?))
}

/// The time as pools count it.
pub(crate) fn now() -> Seconds {
    Timestamp::now().as_second()
}

/// The ServiceCIDR of the server's own start.
const DEFAULT_RANGE: &str = "kubernetes";

fn difference(range: &Value) -> Option<String> {
    let conditions = range.pointer("/status/conditions")?.as_array()?;
    let told = conditions.iter().find(|told| told["type"] == CONSISTENT && told["status"] == "False")?;
    told["message"].as_str().map(str::to_owned)
}

/// As much of a Service as tells its addresses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Addressed {
    spec: AddressedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AddressedSpec {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
}

impl Addressed {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// None for headless Services and those of type ExternalName.
    fn addresses(&self) -> SmallVec<[IpAddr; 2]> {
        let AddressedSpec { kind, cluster_ip, cluster_ips } = &self.spec;
        if kind.as_deref() == Some("ExternalName") {
            return SmallVec::new();
        }
        let listed = cluster_ips.iter().flatten();
        let single = cluster_ip.iter().filter(|_| cluster_ips.as_ref().is_none_or(Vec::is_empty));
        listed.chain(single).filter_map(|text| text.parse().ok()).collect()
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
