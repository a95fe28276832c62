//! Pods and nodes on the wire.

use serde::Deserialize;

use super::{MetaWire, PodMetaWire, list};

/// A condition of a pod or node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionWire {
    /// Its type, such as `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status last changed, RFC 3339.
    pub last_transition_time: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    /// Metadata.
    pub metadata: PodMetaWire,
    /// Spec.
    pub spec: PodSpecWire,
    /// Status.
    pub status: PodStatusWire,
}

/// A pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecWire {
    /// Node the pod is bound to.
    pub node_name: String,
    /// Host name asked for.
    pub hostname: String,
    /// Subdomain asked for.
    pub subdomain: String,
    /// Containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<ContainerWire>,
    /// Init containers; those with restart policy Always are sidecars.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<ContainerWire>,
}

/// A container, as far as its ports.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerWire {
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
    /// Ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ContainerPortWire>,
}

/// A container's port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPortWire {
    /// Name, may be empty.
    pub name: String,
    /// Number.
    pub container_port: i32,
    /// Protocol, TCP if missing.
    pub protocol: Option<String>,
}

/// A pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusWire {
    /// Phase.
    pub phase: String,
    /// First address.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs", deserialize_with = "list")]
    pub pod_ips: Vec<IpWire>,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<ConditionWire>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct IpWire {
    /// The address.
    pub ip: String,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeWire {
    /// Metadata.
    pub metadata: MetaWire,
    /// Status.
    pub status: NodeStatusWire,
}

/// A node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusWire {
    /// What pods may use.
    pub allocatable: AllocatableWire,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<ConditionWire>,
}

/// A node's allocatable resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatableWire {
    /// CPU as a quantity.
    pub cpu: Option<String>,
}
