//! A Service reduced to what decisions about its values are made on.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use service_allocators::pools::Seconds;
use service_allocators::port::Protocols;
use service_allocators::{Claim, ServiceKey};
use service_api::crds::nodeport::{self, NodePortSpec};
use service_api::service::{
    cluster_ips, families, is_headless, needs_cluster_ip, needs_health_check, needs_node_port, ports,
    spec_of, type_of,
};
use smallvec::SmallVec;

use super::entry::version_of;
use crate::text::Uid;

/// What is known of a Service. There is one for each, so that it is small for what most of them are: one address, no port.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Its uid.
    pub uid: Uid,
    /// Its version.
    pub version: u64,
    /// When it was made.
    pub created: Seconds,
    /// Whether its deletion was asked for.
    pub going: bool,
    service: ServiceKey,
    addresses: SmallVec<[IpAddr; 1]>,
    more: Option<Box<More>>,
}

/// What few Services have.
#[derive(Debug, Clone, Default, PartialEq)]
struct More {
    invalid: Vec<String>,
    ports: Vec<(u16, Protocols)>,
    lacking: Option<Box<Service>>,
    held: Option<Box<Service>>,
}

impl Facts {
    /// The facts of the Service of this key and uid.
    pub fn of(key: &ServiceKey, uid: Uid, service: &Service) -> Self {
        let meta = &service.metadata;
        let going = meta.deletion_timestamp.is_some();
        let Claim { service: key, addresses, invalid, ports } = Claim::with_key(key.clone(), service);
        let more = More {
            invalid,
            ports,
            lacking: (!going && lacks(spec_of(service))).then(|| Box::new(service.clone())),
            held: ports_of(service).map(Box::new),
        };
        Self {
            uid,
            version: version_of(meta),
            created: meta.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
            going,
            service: key,
            addresses: addresses.into(),
            more: (more != More::default()).then(|| Box::new(more)),
        }
    }

    /// What it says it has.
    pub fn claim(&self) -> Claim {
        Claim {
            service: self.service.clone(),
            addresses: self.addresses.to_vec(),
            invalid: self.invalid().to_vec(),
            ports: self.ports().to_vec(),
        }
    }

    /// Its cluster IPs.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// What stands among its cluster IPs and is no address.
    pub fn invalid(&self) -> &[String] {
        self.more.as_ref().map_or(&[], |more| &more.invalid)
    }

    /// Its node ports, its health check node port among them, each once.
    pub fn ports(&self) -> &[(u16, Protocols)] {
        self.more.as_ref().map_or(&[], |more| &more.ports)
    }

    /// The whole of it, as long as it lacks a value.
    pub fn lacking(&self) -> Option<&Service> {
        self.more.as_ref()?.lacking.as_deref()
    }

    /// What of it holds ports, if anything does.
    pub(super) fn held(&self) -> Option<&Service> {
        self.more.as_ref()?.held.as_deref()
    }

    /// The NodePorts that it should have, by name.
    pub fn node_ports(&self, per_protocol: bool) -> BTreeMap<String, NodePortSpec> {
        self.held().map(|held| nodeport::of_service(held, per_protocol)).unwrap_or_default()
    }
}

/// Whether a Service has to get a value: an address of some family, a node port, a health check node port.
fn lacks(spec: &ServiceSpec) -> bool {
    let addresses = needs_cluster_ip(spec) && !is_headless(spec) && {
        let ips = cluster_ips(spec);
        let wants = families(spec).len().max(1);
        // A second family may be to be had.
        let prefers = spec.ip_family_policy.as_deref().is_some_and(|policy| policy != "SingleStack");
        ips.len() < wants || ips.iter().any(String::is_empty) || (prefers && ips.len() < 2)
    };
    let automatic = match type_of(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports.unwrap_or(true),
        _ => false,
    };
    let open = |number: Option<i32>| number.is_none_or(|number| number == 0);
    addresses
        || (automatic && needs_node_port(spec) && ports(spec).iter().any(|port| open(port.node_port)))
        || (needs_health_check(spec) && open(spec.health_check_node_port))
}

/// A Service reduced to what holds ports; `None` when nothing does.
fn ports_of(service: &Service) -> Option<Service> {
    let spec = spec_of(service);
    let port = |port: &ServicePort| ServicePort {
        name: port.name.clone(),
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
