//! What a ServicePool means: which part of the ranges the Services of a selector get.
//!
//! Owns its type and the rules that concern one pool alone. That pools do not overlap, and that their parts lie in a
//! range, concerns several objects; the allocators find it and the pool's conditions say it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nodeport::is_port;
use super::nodeportrange::validate_span;
use super::{BandFill, PortSpan};
use crate::address::{parse_lenient, validate_cidr, validate_ip};
use crate::errors::{BadValue, FieldErrors, Path, invalid, required};
use crate::meta::{self, Naming};
use crate::names;
use crate::object::Normalize as _;

/// The most parts of each kind that a pool may have.
pub const MAX_PARTS: usize = 16;
/// The most reservations of a pool.
pub const MAX_RESERVATIONS: usize = 512;
/// The most values that a pool's status says are cooling down.
pub const MAX_COOLING: usize = 512;
/// The longest cool-down, in seconds: a week.
pub const MAX_COOL_DOWN: i64 = 7 * 24 * 60 * 60;

/// What happens to a Service when its pool has nothing left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Fallback {
    /// It gets a value from outside of the pool, and may ask for one.
    #[default]
    Allowed,
    /// It is refused.
    Forbidden,
}

/// How many values of each part automatic choice leaves alone as long as it can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LowerBand {
    /// Addresses from the first of each CIDR on; without it what Kubernetes does for a range of that size (KEP-3070).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub addresses: Option<i64>,
    /// Ports from the first of each span on; without it what Kubernetes does for a range of that size (KEP-3668).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub node_ports: Option<i32>,
}

/// A value that is kept for one Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = ("has(self.address) != has(self.nodePort)", "must have either an address or a node port"))]
pub struct Reservation {
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub address: Option<String>,
    /// The node port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub node_port: Option<i32>,
    /// The namespace of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// When the reservation ends; without it never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Which part of the ranges the Services of a selector get.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "service-control-plane.io",
    version = "v1alpha1",
    kind = "ServicePool",
    plural = "servicepools",
    shortname = "spool",
    doc = "Which part of the ranges the Services of a selector get.",
    status = "ServicePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses[*]"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Fill",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Filling')].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(crates(kube_core = "::kube_core"), validation = (
    "(has(self.addresses) && size(self.addresses) > 0) || (has(self.nodePorts) && size(self.nodePorts) > 0)",
    "must have addresses or node ports"
))]
pub struct ServicePoolSpec {
    /// The namespaces whose Services the pool is for; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The Services that the pool is for; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
    /// Of several pools that are for a Service the one with the highest priority counts, then the one whose name comes first.
    #[serde(default)]
    pub priority: i32,
    /// Parts of ServiceCIDRs, as CIDRs. Unlike in a range, the first and last address of a part are given away, unless
    /// they are those of the range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    #[x_kube(validation = (
        "self.all(part, isCIDR(part) && cidr(part) == cidr(part).masked())",
        "must be CIDRs without bits beyond their prefix length"
    ))]
    pub addresses: Vec<String>,
    /// Parts of NodePortRanges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub node_ports: Vec<PortSpan>,
    /// Sizes of the lower bands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_band: Option<LowerBand>,
    /// Values that are kept for a Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub reservations: Vec<Reservation>,
    /// How long a value that was given back is kept from other Services; the same namespace and name may have it at once.
    #[serde(default)]
    #[schemars(range(min = 0, max = 604_800))]
    pub cool_down_seconds: i64,
    /// What happens when the pool has nothing left: Allowed (a value from elsewhere) or Forbidden.
    #[serde(default)]
    pub fallback: Fallback,
    /// Whether the Services that the pool is not for get none of its values.
    #[serde(default)]
    pub exclusive: bool,
}

/// One of the namespaces that hold most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// The namespace.
    pub namespace: String,
    /// How many values its Services hold.
    pub values: i64,
}

/// A value that was given back and is kept from other Services for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoolingValue {
    /// The address or the node port.
    pub value: String,
    /// The Service that gave it back, as namespace/name; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// When it was given back, in seconds since 1970.
    pub since: i64,
}

/// What a controller has seen of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePoolStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: the pool is in use. Filling: it is filled to 80, 90 or 100 per cent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How full its IPv4 addresses are.
    #[serde(default, rename = "ipv4", skip_serializing_if = "Option::is_none")]
    pub v4: Option<BandFill>,
    /// How full its IPv6 addresses are.
    #[serde(default, rename = "ipv6", skip_serializing_if = "Option::is_none")]
    pub v6: Option<BandFill>,
    /// How full its node ports are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ports: Option<BandFill>,
    /// The namespaces that hold most of it, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest_users: Vec<User>,
    /// The values that were given back last and are kept from others still, the latest first. Whoever begins reads them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub cooling_down: Vec<CoolingValue>,
}

/// Drops empty values.
pub fn default(pool: &mut ServicePool) {
    pool.metadata.normalize();
}

/// Prepares a defaulted pool for a create: the status goes.
pub fn prepare_create(pool: &mut ServicePool) {
    meta::prepare_create(&mut pool.metadata);
    pool.status = None;
}

/// Prepares an update of the main resource: the status stays.
pub fn prepare_update(new: &mut ServicePool, old: &ServicePool) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    new.status.clone_from(&old.status);
}

/// Prepares an update of the status subresource: everything else stays.
pub fn prepare_status_update(new: &mut ServicePool, old: &ServicePool) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    meta::reset_for_status(&mut new.metadata, &old.metadata);
    new.spec.clone_from(&old.spec);
}

/// Errors of a pool that shall be created.
pub fn validate_create(pool: &ServicePool) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&pool.metadata, Naming::CLUSTER_SUBDOMAIN);
    errors.extend(validate_spec(&pool.spec));
    errors
}

/// Errors of an update: everything but the name may change.
pub fn validate_update(new: &ServicePool, old: &ServicePool) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    errors.extend(validate_spec(&new.spec));
    errors
}

/// Errors of an update of the status subresource.
pub fn validate_status_update(new: &ServicePool, old: &ServicePool) -> FieldErrors {
    meta::validate_object_meta_update(&new.metadata, &old.metadata)
}

fn validate_spec(spec: &ServicePoolSpec) -> FieldErrors {
    let path = Path::root("spec");
    let mut errors = FieldErrors::new();
    if spec.addresses.is_empty() && spec.node_ports.is_empty() {
        errors.push(invalid(&path, BadValue::json(spec), "must have addresses or node ports"));
    }
    for (field, selector) in
        [("namespaceSelector", &spec.namespace_selector), ("serviceSelector", &spec.service_selector)]
    {
        errors.extend(validate_selector(&path.child(field), selector.as_ref()));
    }
    let lengths = [
        ("addresses", spec.addresses.len(), MAX_PARTS),
        ("nodePorts", spec.node_ports.len(), MAX_PARTS),
        ("reservations", spec.reservations.len(), MAX_RESERVATIONS),
    ];
    for (field, count, most) in lengths.into_iter().filter(|(_, count, most)| count > most) {
        errors.push(crate::errors::too_many(path.child(field), count, most));
    }
    for (i, text) in spec.addresses.iter().enumerate().take(MAX_PARTS) {
        errors.extend(validate_cidr(&path.child("addresses").index(i), text, true));
    }
    for (i, span) in spec.node_ports.iter().enumerate().take(MAX_PARTS) {
        errors.extend(validate_span(&path.child("nodePorts").index(i), span.first_port, span.last_port));
    }
    for (i, reservation) in spec.reservations.iter().enumerate().take(MAX_RESERVATIONS) {
        errors.extend(validate_reservation(&path.child("reservations").index(i), reservation));
    }
    if !(0..=MAX_COOL_DOWN).contains(&spec.cool_down_seconds) {
        let detail = format!("must be between 0 and {MAX_COOL_DOWN}, inclusive");
        errors.push(invalid(path.child("coolDownSeconds"), spec.cool_down_seconds, detail));
    }
    errors
}

fn validate_selector(path: &Path, selector: Option<&LabelSelector>) -> FieldErrors {
    match selector.map(crate::labels::Selector::from_label_selector) {
        Some(Err(fault)) => invalid(path, BadValue::json(&selector), fault.to_string()).into(),
        _ => FieldErrors::new(),
    }
}

fn validate_reservation(path: &Path, reservation: &Reservation) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match (&reservation.address, reservation.node_port) {
        (Some(text), None) => {
            errors.extend(validate_ip(&path.child("address"), text));
            if errors.is_empty() && parse_lenient(text).is_none() {
                errors.push(invalid(path.child("address"), text.as_str(), "must be a valid IP address"));
            }
        }
        (None, Some(port)) if !is_port(port) => {
            errors.push(invalid(path.child("nodePort"), port, "must be between 1 and 65535, inclusive"));
        }
        (None, Some(_)) => {}
        _ => {
            let detail = "must have either an address or a node port";
            errors.push(invalid(path, BadValue::json(reservation), detail));
        }
    }
    for (field, value) in [("namespace", &reservation.namespace), ("name", &reservation.name)] {
        if value.is_empty() {
            errors.push(required(path.child(field), ""));
        } else {
            errors.extend(
                names::dns_label(value).into_iter().map(|f| invalid(path.child(field), value.as_str(), f)),
            );
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn pool(spec: Value) -> ServicePool {
        let spec = serde_json::from_value(spec).unwrap();
        let mut pool = ServicePool::new("gold", spec);
        pool.metadata.resource_version = Some("1".into());
        pool
    }

    #[rstest]
    #[case(json!({"addresses": ["10.96.16.0/24"]}), &[])]
    #[case(json!({"nodePorts": [{"firstPort": 31000, "lastPort": 31099}]}), &[])]
    #[case(json!({}), &["spec"])]
    #[case(json!({"addresses": ["10.96.16.1/24", "x"]}), &["spec.addresses[0]", "spec.addresses[1]"])]
    #[case(json!({"nodePorts": [{"firstPort": 9, "lastPort": 8}]}), &["spec.nodePorts[0].lastPort"])]
    #[case(json!({"addresses": ["10.0.0.0/8"], "coolDownSeconds": -1}), &["spec.coolDownSeconds"])]
    #[case(json!({"addresses": ["10.0.0.0/8"], "reservations": [{"namespace": "a", "name": "b"}]}), &["spec.reservations[0]"])]
    #[case(json!({"addresses": ["10.0.0.0/8"], "reservations": [{"address": "10.0.0.300", "namespace": "a", "name": ""}]}), &["spec.reservations[0].address", "spec.reservations[0].name"])]
    #[case(json!({"addresses": ["10.0.0.0/8"], "serviceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}), &["spec.serviceSelector"])]
    fn rules(#[case] spec: Value, #[case] fields: &[&str]) {
        let new = pool(spec);
        let found: Vec<_> = validate_create(&new).into_iter().map(|e| e.field).collect();
        assert_eq!(found, fields);
        let old = pool(json!({"addresses": ["10.96.0.0/24"]}));
        assert_eq!(validate_update(&new, &old).len(), fields.len());
    }

    #[test]
    fn what_is_left_out_is_upstream_like() {
        let spec = pool(json!({"addresses": ["10.96.16.0/24"]})).spec;
        assert_eq!((spec.fallback, spec.exclusive, spec.cool_down_seconds), (Fallback::Allowed, false, 0));
    }
}
