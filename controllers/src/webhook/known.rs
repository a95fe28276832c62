//! What the webhook knows of the cluster.
//!
//! Owns the live ledger and the labels of namespaces. It watches nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use service_allocators::pools::Seconds;
use service_allocators::{ClusterFamilies, Family, LiveLedger, NodePortRange, PortLedger, PortSharing};
use service_api::service::spec_of;

/// The ServiceCIDR that says which families the cluster has, as upstream.
const DEFAULT_CIDR: &str = "kubernetes";

#[derive(Debug)]
pub(super) struct Known {
    pub(super) live: LiveLedger,
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// What the ledger needs of each Service that has ports, to see what changes.
    services: HashMap<(String, String), Service>,
    /// Kinds whose first list is not complete yet.
    missing: BTreeSet<&'static str>,
    none: BTreeMap<String, String>,
}

impl Known {
    pub(super) fn new(node_ports: NodePortRange) -> Self {
        let ports = PortLedger::new(node_ports, PortSharing::WithinService);
        Self {
            live: LiveLedger::new(ClusterFamilies::single(Family::V4), ports),
            namespaces: HashMap::new(),
            services: HashMap::new(),
            missing: BTreeSet::new(),
            none: BTreeMap::new(),
        }
    }

    /// Whether every kind was listed once.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    pub(super) fn awaits(&mut self, kind: &'static str) {
        self.missing.insert(kind);
    }

    pub(super) fn has(&mut self, kind: &'static str) {
        self.missing.remove(kind);
    }

    pub(super) fn labels(&self, namespace: &str) -> &BTreeMap<String, String> {
        self.namespaces.get(namespace).unwrap_or(&self.none)
    }

    pub(super) fn set_namespace(&mut self, name: String, labels: BTreeMap<String, String>) {
        self.namespaces.insert(name, labels);
    }

    pub(super) fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    pub(super) fn set_service(&mut self, service: &Service, now: Seconds) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let key = (text(&service.metadata.namespace), text(&service.metadata.name));
        let new = ports_of(service);
        let old = match &new {
            Some(new) => self.services.insert(key, new.clone()),
            None => self.services.remove(&key),
        };
        self.live.set_service(old.as_ref(), new.as_ref(), now);
    }

    pub(super) fn remove_service(&mut self, namespace: &str, name: &str, now: Seconds) {
        if let Some(old) = self.services.remove(&(namespace.to_owned(), name.to_owned())) {
            self.live.set_service(Some(&old), None, now);
        }
    }

    pub(super) fn set_cidr(&mut self, cidr: &ServiceCIDR) {
        let name = cidr.metadata.name.as_deref().unwrap_or_default();
        if let Err(error) = self.live.set_cidr(cidr) {
            tracing::warn!(servicecidr = name, %error, "a range can not give addresses");
        }
        let nets = cidr.spec.as_ref().and_then(|s| s.cidrs.as_deref()).unwrap_or_default();
        let family = |text: &String| text.parse::<ipnet::IpNet>().ok().map(|net| Family::of(net.addr()));
        if name == DEFAULT_CIDR
            && let Some(primary) = nets.first().and_then(family)
        {
            self.live.ledger.families = if nets.len() > 1 {
                ClusterFamilies::dual(primary)
            } else {
                ClusterFamilies::single(primary)
            };
        }
    }
}

/// A Service reduced to what holds ports; `None` when nothing does.
fn ports_of(service: &Service) -> Option<Service> {
    let spec = spec_of(service);
    let port = |port: &ServicePort| ServicePort {
        node_port: port.node_port,
        protocol: port.protocol.clone(),
        port: port.port,
        ..ServicePort::default()
    };
    let has_port =
        spec.health_check_node_port.is_some() || spec.ports.iter().flatten().any(|p| p.node_port.is_some());
    has_port.then(|| Service {
        metadata: ObjectMeta {
            namespace: service.metadata.namespace.clone(),
            name: service.metadata.name.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: spec.type_.clone(),
            cluster_ip: spec.cluster_ip.clone(),
            external_traffic_policy: spec.external_traffic_policy.clone(),
            health_check_node_port: spec.health_check_node_port,
            ports: spec.ports.as_ref().map(|ports| ports.iter().map(port).collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}
