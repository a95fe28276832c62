//! What a server has stored about addresses and ports, and what of it contradicts what.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use service_allocators::Claim;
use service_api::crds::NodePort;

/// Everything that is stored about values.
pub(crate) struct Stored {
    pub(crate) services: Vec<Service>,
    pub(crate) addresses: Vec<IPAddress>,
    pub(crate) ports: Vec<NodePort>,
}

impl Stored {
    pub(crate) async fn read(client: &Client) -> Self {
        let all = ListParams::default();
        let services = Api::<Service>::all(client.clone()).list(&all).await.unwrap().items;
        let addresses = Api::<IPAddress>::all(client.clone()).list(&all).await.unwrap().items;
        let ports = Api::<NodePort>::all(client.clone()).list(&all).await.unwrap().items;
        Self { services, addresses, ports }
    }

    /// Values that two Services have.
    pub(crate) fn twice(&self) -> Vec<String> {
        let mut holders: BTreeMap<String, usize> = BTreeMap::new();
        for service in &self.services {
            let claim = Claim::of(service);
            let addresses = claim.addresses.iter().map(ToString::to_string);
            for value in addresses.chain(claim.ports.iter().map(|(port, _)| port.to_string())) {
                *holders.entry(value).or_default() += 1;
            }
        }
        holders.into_iter().filter(|(_, count)| *count > 1).map(|(value, _)| value).collect()
    }

    /// What contradicts what, once nothing is under way.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.twice().into_iter().map(|v| format!("{v} twice")).collect();
        let mut wanted: BTreeMap<String, String> = BTreeMap::new();
        for service in &self.services {
            let (name, spec) = (service.name_any(), service.spec.as_ref().unwrap());
            let claim = Claim::of(service);
            let external = spec.type_.as_deref() == Some("ExternalName");
            if claim.addresses.is_empty() && !external && spec.cluster_ip.as_deref() != Some("None") {
                complaints.push(format!("{name} has no address"));
            }
            let nodes = matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"))
                && spec.allocate_load_balancer_node_ports != Some(false);
            if nodes && spec.ports.iter().flatten().any(|port| port.node_port.is_none()) {
                complaints.push(format!("{name} has no port"));
            }
            let addresses = claim.addresses.iter().map(ToString::to_string);
            for value in addresses.chain(claim.ports.iter().map(|(port, _)| port.to_string())) {
                wanted.insert(value, name.clone());
            }
        }
        let addresses = self.addresses.iter().map(|a| (a.name_any(), a.spec.parent_ref.name.clone()));
        let ports = self.ports.iter().map(|p| (p.name_any(), p.spec.parent_ref.name.clone()));
        let entries: BTreeMap<String, String> = addresses.chain(ports).collect();
        for (value, name) in wanted.iter().filter(|(value, name)| entries.get(*value) != Some(name)) {
            complaints.push(format!("{value} of {name} is in no entry"));
        }
        for (value, name) in entries.iter().filter(|(value, name)| wanted.get(*value) != Some(name)) {
            complaints.push(format!("the entry {value} of {name} leaked"));
        }
        complaints
    }
}

/// Waits until nothing contradicts anything.
pub(crate) async fn settled(client: &Client) -> Stored {
    let mut last = Vec::new();
    for _ in 0..2000 {
        let stored = Stored::read(client).await;
        last = stored.complaints();
        if last.is_empty() {
            return stored;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not settle: {last:#?}");
}
