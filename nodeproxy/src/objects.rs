//! What the proxy reads of each kind, decoded straight from the wire.
//!
//! Everything else, `managedFields` first of all, is skipped by the parser and never allocated. These types live for one event;
//! [`crate::track`] keeps smaller ones. They decide nothing.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

/// A list that the API may leave out or give as `null`.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// The part of the metadata that counts here, as the type that kube's watches ask for.
fn meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Wire {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
    }
    let wire = Option::<Wire>::deserialize(deserializer)?.unwrap_or_default();
    Ok(ObjectMeta {
        name: wire.name,
        namespace: wire.namespace,
        uid: wire.uid,
        resource_version: wire.resource_version,
        creation_timestamp: wire.creation_timestamp,
        deletion_timestamp: wire.deletion_timestamp,
        labels: wire.labels,
        annotations: wire.annotations,
        ..ObjectMeta::default()
    })
}

/// Declares what kube has to know of a kind to watch it.
macro_rules! kind {
    ($type:ident, $scope:ty, $kind:literal, $group:literal, $version:literal, $plural:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;
            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// A `Service`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceWire {
    /// Metadata.
    #[serde(deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: ServiceSpecWire,
    /// Where its load balancer is.
    pub status: ServiceStatusWire,
}
kind!(ServiceWire, kube::core::NamespaceResourceScope, "Service", "", "v1", "services");

/// A Service's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpecWire {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The first cluster IP, for objects that are older than `clusterIPs`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// The cluster IPs, one of each family.
    #[serde(rename = "clusterIPs", deserialize_with = "list")]
    pub cluster_ips: Vec<String>,
    /// Addresses that somebody else leads to the nodes.
    #[serde(rename = "externalIPs", deserialize_with = "list")]
    pub external_ips: Vec<String>,
    /// Who may reach the load balancer.
    #[serde(deserialize_with = "list")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ServicePortWire>,
    /// `None` or `ClientIP`.
    pub session_affinity: Option<String>,
    /// How long a client stays.
    pub session_affinity_config: Option<AffinityWire>,
    /// `Cluster` or `Local`, for traffic from outside.
    pub external_traffic_policy: Option<String>,
    /// `Cluster` or `Local`, for traffic from inside.
    pub internal_traffic_policy: Option<String>,
    /// Where load balancers ask each node.
    pub health_check_node_port: Option<i32>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePortWire {
    /// Name.
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// Number.
    pub port: i32,
    /// Number on the nodes.
    pub node_port: Option<i32>,
}

/// How long a client stays with an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityWire {
    /// By its address.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpWire>,
}

/// How long, in seconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpWire {
    /// Seconds.
    pub timeout_seconds: Option<u32>,
}

/// A Service's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatusWire {
    /// The load balancer.
    pub load_balancer: LoadBalancerWire,
}

/// A load balancer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancerWire {
    /// Its addresses.
    #[serde(deserialize_with = "list")]
    pub ingress: Vec<IngressWire>,
}

/// An address of a load balancer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressWire {
    /// The address.
    pub ip: Option<String>,
    /// `VIP` or `Proxy`; absent means `VIP`.
    pub ip_mode: Option<String>,
}

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceWire {
    /// Metadata.
    #[serde(deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints.
    #[serde(deserialize_with = "list")]
    pub endpoints: Vec<EndpointWire>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<SlicePortWire>,
}
kind!(
    SliceWire,
    kube::core::NamespaceResourceScope,
    "EndpointSlice",
    "discovery.k8s.io",
    "v1",
    "endpointslices"
);

/// A port of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlicePortWire {
    /// Name.
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// Number.
    pub port: Option<i32>,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointWire {
    /// Addresses; only the first counts.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<String>,
    /// Conditions.
    pub conditions: ConditionsWire,
    /// Its node.
    pub node_name: Option<String>,
    /// Whom it should serve.
    pub hints: Option<HintsWire>,
}

/// An endpoint's conditions; what is absent has the default that the API names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConditionsWire {
    /// Absent means yes.
    pub ready: Option<bool>,
    /// Absent means yes.
    pub serving: Option<bool>,
    /// Absent means no.
    pub terminating: Option<bool>,
}

/// Hints of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HintsWire {
    /// Zones to serve.
    #[serde(deserialize_with = "list")]
    pub for_zones: Vec<NamedWire>,
    /// Nodes to serve.
    #[serde(deserialize_with = "list")]
    pub for_nodes: Vec<NamedWire>,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedWire {
    /// The name.
    pub name: String,
}

/// A `Node`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeWire {
    /// Metadata.
    #[serde(deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: NodeSpecWire,
    /// Observed state.
    pub status: NodeStatusWire,
}
kind!(NodeWire, kube::core::ClusterResourceScope, "Node", "", "v1", "nodes");

/// A Node's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpecWire {
    /// The pod networks of this node.
    #[serde(rename = "podCIDRs", deserialize_with = "list")]
    pub pod_cidrs: Vec<String>,
    /// Taints.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<TaintWire>,
}

/// A taint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TaintWire {
    /// Its key.
    pub key: String,
}

/// A Node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusWire {
    /// Addresses.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<NodeAddressWire>,
}

/// An address of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddressWire {
    /// `InternalIP`, `ExternalIP`, `Hostname`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// A `ServiceCIDR`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrWire {
    /// Metadata.
    #[serde(deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: CidrSpecWire,
}
kind!(
    ServiceCidrWire,
    kube::core::ClusterResourceScope,
    "ServiceCIDR",
    "networking.k8s.io",
    "v1",
    "servicecidrs"
);

/// A ServiceCIDR's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CidrSpecWire {
    /// The ranges.
    #[serde(deserialize_with = "list")]
    pub cidrs: Vec<String>,
}
