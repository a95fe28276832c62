//! What an explanation consists of, as it is printed in JSON and YAML: the schema of `docs/explain.md`.
//!
//! Owns the shape and the names only. A name that stands here does not change its meaning within [`API_VERSION`]; fields
//! may be added.

pub mod others;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::reason::Reason;

/// The version of the schema.
pub const API_VERSION: &str = "explain.service-control-plane.io/v1";

/// The first few of many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Many<T> {
    /// How many there are.
    pub count: usize,
    /// The first of them, in the order of their names.
    pub first: Vec<T>,
}

/// Why the endpoints of a Service are what they are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `ServiceExplanation`.
    pub kind: &'static str,
    /// What the Service asks for.
    pub service: ServiceFacts,
    /// What is worth knowing first, the most urgent before the rest.
    pub findings: Vec<Finding>,
    /// Its addresses, and where each comes from.
    pub addresses: Vec<AddressFacts>,
    /// Its ports, and where the node ports come from.
    pub ports: Vec<PortFacts>,
    /// How many pods there are in each state.
    pub counts: PodCounts,
    /// Every pod that its selector matches, by name.
    pub pods: Vec<PodVerdict>,
    /// Pods that it nearly selects.
    pub near_misses: Vec<NearMiss>,
    /// Its slices as they are, and what the controllers would change.
    pub slices: Vec<SliceFacts>,
    /// Whether endpoints have hints, family by family.
    pub hints: Vec<HintFacts>,
    /// The `Endpoints` object of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointsFacts>,
    /// Policies by which nodes without an endpoint of their own drop traffic.
    pub traffic_policies: Vec<PolicyFacts>,
    /// Who changed what, the latest first, as far as the objects tell.
    pub changes: Vec<Change>,
    /// Events about it, the latest first.
    pub events: Vec<EventFacts>,
    /// What cannot be known, and what that means for the rest.
    pub unknown: Vec<Unknown>,
}

/// What a Service asks for, as far as endpoints depend on it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceFacts {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    pub r#type: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// Its selector; empty if it has none.
    pub selector: BTreeMap<String, String>,
    /// The families of its slices, the first one first.
    pub families: Vec<String>,
    /// Whether it has no cluster IP.
    pub headless: bool,
    /// Whether pods count as ready whatever they say.
    pub publish_not_ready_addresses: bool,
    /// What its hints come from: `Off`, `TopologyMode`, `PreferClose`, `PreferSameZone` or `PreferSameNode`.
    pub hinting: String,
    /// The name that an `ExternalName` Service stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<String>,
}

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Severity {
    /// Traffic is lost, or will be.
    Problem,
    /// Something is not as it was asked for.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// How urgent it is.
    pub severity: Severity,
    /// A stable word for it.
    pub reason: &'static str,
    /// What it is, in words.
    pub message: String,
}

/// How many pods there are in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Pods that the selector matches.
    pub selected: usize,
    /// Ready endpoints.
    pub ready: usize,
    /// Endpoints that are not ready.
    pub not_ready: usize,
    /// Pods that are no endpoints.
    pub left_out: usize,
    /// The same by reason.
    pub by_reason: BTreeMap<Reason, usize>,
}

/// What a pod is to a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum PodState {
    /// An endpoint that is sent to.
    Ready,
    /// An endpoint that is not sent to, unless there is no other.
    NotReady,
    /// No endpoint.
    LeftOut,
}

/// What a pod is to a Service that selects it, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodVerdict {
    /// Name.
    pub name: String,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// What it is in the family where it is most.
    pub state: PodState,
    /// The one reason for that.
    pub reason: Reason,
    /// The reason in words, with what decided it.
    pub message: String,
    /// What it is in each of the Service's families.
    pub families: Vec<FamilyVerdict>,
    /// Ports of the Service that it does not have, by name and protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_ports: Vec<String>,
    /// Why the `Endpoints` object does not have it, where that is made from pods and slices have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_endpoints: Option<Reason>,
    /// Since when its condition Ready is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<String>,
}

/// What a pod is in one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FamilyVerdict {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// What it is.
    pub state: PodState,
    /// Why.
    pub reason: Reason,
    /// The slice that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// The conditions that it has there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<EndpointConditions>,
    /// Whom it should serve, as it stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
    /// What the controllers would change of it; none if it is as it should be or slices are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}

/// The conditions of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EndpointConditions {
    /// Sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Ready by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// Whom an endpoint should serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EndpointHints {
    /// Zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// Pods with the same labels that a Service nearly selects.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NearMiss {
    /// `OneLabelOff` or `OtherNamespace`.
    pub reason: Reason,
    /// What is missing, in words.
    pub message: String,
    /// Their namespace.
    pub namespace: String,
    /// The label that differs, if that is it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelDifference>,
    /// The pods.
    pub pods: Many<String>,
}

/// A label that is not as the selector wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabelDifference {
    /// Its key.
    pub key: String,
    /// What the selector wants.
    pub wanted: String,
    /// What the pods have; none if they lack the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// A slice, and what the controllers would change of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceFacts {
    /// Its name; the beginning of it, if it does not exist yet.
    pub name: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub family: String,
    /// The value of its label `endpointslice.kubernetes.io/managed-by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Its ports, as `name:number/protocol`.
    pub ports: Vec<String>,
    /// How many endpoints are in it.
    pub endpoints: usize,
    /// How many of them are ready.
    pub ready: usize,
    /// How many are put into one slice at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<usize>,
    /// What the controllers would do with it.
    pub state: SliceState,
    /// What that is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// When the pod or Service changed that it was last written for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_time: Option<String>,
}

/// What the controllers would do with a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum SliceState {
    /// Nothing: it is right.
    Right,
    /// Write it anew.
    ToUpdate,
    /// Make it.
    ToCreate,
    /// Delete it.
    ToDelete,
    /// Nothing: it is somebody else's.
    NotOurs,
}

/// Whether the endpoints of a family have hints.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HintFacts {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Whether readers can go by them.
    pub given: bool,
    /// Why not, in a word.
    pub reason: &'static str,
    /// The same in words, with the numbers that decided.
    pub message: String,
    /// Each zone with the numbers behind that.
    pub zones: Vec<ZoneFacts>,
}

/// A zone, as far as hints depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneFacts {
    /// Its name; empty for endpoints in no zone.
    pub zone: String,
    /// Its share of the cluster's CPU, from 0 to 1, where the mode asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// The fewest endpoints that have to serve it, where the mode asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Ready endpoints in it.
    pub ready: usize,
    /// Ready endpoints that are hinted to serve it.
    pub hinted: usize,
}

/// The `Endpoints` object of a Service beside its slices.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsFacts {
    /// Whether there is one.
    pub exists: bool,
    /// What it is: `Right`, `ToUpdate`, `ToCreate`, `ToDelete`, `Mirrored`, `NotMirrored` or `None`.
    pub state: &'static str,
    /// The same in words.
    pub message: String,
    /// Ready addresses.
    pub ready: usize,
    /// Addresses that are not ready.
    pub not_ready: usize,
    /// Whether addresses are left out because there are more than the object may have.
    pub over_capacity: bool,
    /// Addresses that are in slices and not in it.
    pub only_in_slices: Many<String>,
    /// Addresses that are in it and not in slices.
    pub only_in_endpoints: Many<String>,
}

/// A policy by which a node without an endpoint of its own drops traffic.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFacts {
    /// `internalTrafficPolicy` or `externalTrafficPolicy`.
    pub policy: &'static str,
    /// Nodes that have an endpoint that is used.
    pub nodes_with_endpoints: usize,
    /// Nodes that have none: the proxy there drops what comes.
    pub nodes_that_drop: Many<String>,
    /// The same in words.
    pub message: String,
}

/// Where a value comes from and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The ServiceCIDR or NodePortRange that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// The part of it: a CIDR or ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
    /// `Lower` (only given when asked for, as long as the upper has any) or `Upper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<&'static str>,
    /// The ServicePool that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The object that holds it, an IPAddress or NodePort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerFacts>,
    /// All of that in words.
    pub message: String,
}

/// The object by which a value is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerFacts {
    /// `IPAddress` or `NodePort`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The object that it names as the holder, as `resource/namespace/name`.
    pub holder: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Whether that object has the value.
    pub agrees: bool,
}

/// An address of a Service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AddressFacts {
    /// The address.
    pub address: String,
    /// `ClusterIP`, `ExternalIP` or `LoadBalancer`.
    pub role: &'static str,
    /// Where it comes from.
    pub origin: Origin,
}

/// A port of a Service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortFacts {
    /// Its name; empty if it has none.
    pub name: String,
    /// The number at the cluster IP; for the health check the node port.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port of the pods, by number or name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<String>,
    /// The port of every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// Where that comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A change, as an object's managed fields tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// When.
    pub time: String,
    /// What: kind and name.
    pub object: String,
    /// By whom.
    pub manager: String,
    /// `Apply` or `Update`; with `/status` for that part; `Create` for the object's beginning.
    pub operation: String,
}

/// An Event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventFacts {
    /// When it was last seen.
    pub time: String,
    /// `Normal` or `Warning`.
    pub r#type: String,
    /// The reason.
    pub reason: String,
    /// What it says.
    pub message: String,
    /// How often it was seen.
    pub count: i64,
}

/// A kind of object that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unknown {
    /// The kind.
    pub kind: &'static str,
    /// Why.
    pub why: String,
    /// What that means for the rest.
    pub means: &'static str,
}
