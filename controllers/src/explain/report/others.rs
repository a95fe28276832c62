//! What an explanation of anything but a Service consists of.
//!
//! Owns the shape and the names only, as its parent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Change, EndpointConditions, EndpointHints, EventFacts, Finding, LabelDifference, Many, Origin,
    PodVerdict, SliceFacts, Unknown,
};

/// Why a pod is an endpoint of Services, or is not.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `PodExplanation`.
    pub kind: &'static str,
    /// What the pod is.
    pub pod: PodFacts,
    /// What is worth knowing first.
    pub findings: Vec<Finding>,
    /// Every Service that selects it, and what it is there.
    pub services: Vec<PodInService>,
    /// Services that nearly select it.
    pub near_services: Vec<NearService>,
    /// Who changed it, the latest first.
    pub changes: Vec<Change>,
    /// Events about it, the latest first.
    pub events: Vec<EventFacts>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// What a pod is, as far as endpoints depend on it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Its ports with names, as `name:number/protocol`.
    pub named_ports: Vec<String>,
}

/// What a pod is to a Service that selects it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PodInService {
    /// The Service's name.
    pub service: String,
    /// What the pod is there.
    pub verdict: PodVerdict,
}

/// A Service that nearly selects a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NearService {
    /// The Service's name.
    pub service: String,
    /// What is missing, in words.
    pub message: String,
    /// The label that differs.
    pub label: LabelDifference,
}

/// What is in a slice, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `EndpointSliceExplanation`.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// The slice, and what the controllers would do with it.
    pub slice: SliceFacts,
    /// The Service that its label names.
    pub service: String,
    /// What is worth knowing first.
    pub findings: Vec<Finding>,
    /// Its endpoints; of a slice that is somebody else's none are shown.
    pub endpoints: Vec<SliceEndpoint>,
    /// Who changed it, the latest first.
    pub changes: Vec<Change>,
    /// Events about it, the latest first.
    pub events: Vec<EventFacts>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceEndpoint {
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The pod that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its conditions.
    pub conditions: EndpointConditions,
    /// Whom it should serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
    /// What the pod is to the Service; none if it is not selected, or no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<PodVerdict>,
}

/// Whether a value is taken, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Holding {
    /// A Service has it, and the object by which it is taken says so.
    Held,
    /// A Service has it, and no object says so.
    Unrecorded,
    /// An object says that it is taken, and the Service that it names does not have it.
    Orphaned,
    /// Several Services have it.
    Contested,
    /// It can be had.
    Free,
    /// Nobody can have it: it is in no range, or kept from all.
    Unavailable,
    /// It is the address of a pod.
    Pod,
}

/// Where an address comes from and who has it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `AddressExplanation`.
    pub kind: &'static str,
    /// The address.
    pub address: String,
    /// Whether it is taken.
    pub holding: Holding,
    /// The same in words.
    pub message: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The Services that have it, and as what.
    pub services: Vec<String>,
    /// The pods that have it.
    pub pods: Vec<String>,
    /// What would free it, or how it can be had.
    pub frees: String,
    /// What is known of its past, the latest first.
    pub changes: Vec<Change>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// Where a node port comes from and who has it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePortExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `NodePortExplanation`.
    pub kind: &'static str,
    /// The port.
    pub port: u16,
    /// Whether it is taken.
    pub holding: Holding,
    /// The same in words.
    pub message: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The Services that have it, and for what.
    pub services: Vec<String>,
    /// What else on a node may take it.
    pub clashes: Vec<String>,
    /// What would free it, or how it can be had.
    pub frees: String,
    /// What is known of its past, the latest first.
    pub changes: Vec<Change>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// How full a ServiceCIDR is, and what holds it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CidrExplanation {
    /// The version of the schema: `explain.service-control-plane.io/v1`.
    pub api_version: &'static str,
    /// `ServiceCIDRExplanation`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Whether addresses are given from it.
    pub usable: bool,
    /// The same in words.
    pub message: String,
    /// What its condition Ready says, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Since when it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<String>,
    /// Its parts.
    pub parts: Vec<CidrPart>,
    /// The Services whose addresses are in it and in no other range: it cannot go before them.
    pub blockers: Many<String>,
    /// What would free it.
    pub frees: String,
    /// Who changed it, the latest first.
    pub changes: Vec<Change>,
    /// Events about it, the latest first.
    pub events: Vec<EventFacts>,
    /// What cannot be known.
    pub unknown: Vec<Unknown>,
}

/// A CIDR of a ServiceCIDR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CidrPart {
    /// The CIDR.
    pub cidr: String,
    /// Taken addresses of the lower band, and all of that.
    pub lower: [u64; 2],
    /// Taken addresses of the upper band, and all of that.
    pub upper: [u64; 2],
    /// What it overlaps with.
    pub clashes: Vec<String>,
}
