//! What the store derives from its objects: who holds which address and port, and who owns what.
//!
//! The ledger follows the stored objects and nothing else: an address is taken while an IPAddress of that name exists,
//! whoever made it, or a stored Service has it; a port is taken while a stored Service names it; a range gives addresses
//! while its ServiceCIDR says so. It therefore can not disagree with the store, and is right as soon as the store is
//! loaded.

use std::collections::HashMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::Deserialize;
use serde_json::Value;
use service_allocators::{ClusterFamilies, Ledger, PortLedger, RangeUsage, ServiceKey};
use smallvec::SmallVec;

use super::Registry;
use super::kinds::servicecidr::CONSISTENT;
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

/// What takes an address.
#[derive(Clone, Debug, Default)]
struct Hold {
    /// There is an IPAddress of that name.
    object: bool,
    /// The Services that have it: one, but for objects that older servers wrote.
    services: SmallVec<[ServiceKey; 1]>,
}

/// The allocators' ledger as an index of Services, IPAddresses and ServiceCIDRs.
pub struct ServiceIndex {
    /// What is taken.
    pub ledger: Ledger,
    holds: HashMap<IpAddr, Hold>,
    /// What is said of ranges that are not those of this start, if they are not.
    difference: Option<String>,
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
            holds: HashMap::new(),
            difference: None,
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

    /// The Services that have the address.
    pub fn services_with(&self, address: IpAddr) -> &[ServiceKey] {
        self.holds.get(&address).map_or(&[], |hold| hold.services.as_slice())
    }

    /// In what the stored ranges differ from those of this start, if they do.
    pub fn difference(&self) -> Option<&str> {
        self.difference.as_deref()
    }

    /// Changes what takes an address, and lets the ledger follow.
    fn hold(&mut self, address: IpAddr, change: impl FnOnce(&mut Hold)) {
        let hold = self.holds.entry(address).or_default();
        change(hold);
        if hold.object || !hold.services.is_empty() {
            self.ledger.addresses.insert(address);
        } else {
            self.holds.remove(&address);
            self.ledger.addresses.remove(address);
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
        let named = match (change.old, change.new) {
            (None, Some(new)) => {
                (new.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(), true)
            }
            (Some(old), None) => (&*old.name, false),
            _ => return,
        };
        if let Ok(address) = named.0.parse() {
            self.hold(address, |hold| hold.object = named.1);
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
        for address in before.iter().filter(|address| !after.contains(address)) {
            self.hold(*address, |hold| hold.services.retain(|service| *service != key));
        }
        for address in after.iter().filter(|address| !before.contains(address)) {
            self.hold(*address, |hold| hold.services.push(key.clone()));
        }
    }

    fn follow_service(&mut self, change: &ObjectChange<'_>) {
        self.follow_addresses(change);
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
        let name = |object: &Value| object["metadata"]["name"] == DEFAULT_RANGE;
        if change.old.is_some_and(|old| &*old.name == DEFAULT_RANGE) || change.new.is_some_and(name) {
            self.difference = change.new.and_then(difference);
        }
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
