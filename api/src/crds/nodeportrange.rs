//! What a NodePortRange means: ports that there are, and for what kind of choice.
//!
//! Owns its type and its rules. Where ranges overlap, `Excluded` counts more than `StaticOnly`, and that more than
//! `Dynamic`. The ports of a range stay as they are; another range is another object, as with ServiceCIDRs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BandFill, nodeport::is_port};
use crate::errors::{FieldErrors, Path, invalid};
use crate::meta::{self, Naming};
use crate::object::Normalize as _;

/// The finalizer that keeps a range while ports depend on it.
pub const FINALIZER: &str = "service-control-plane.io/node-port-range-protection";

/// What the ports of a range are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// Chosen automatically, and given to who asks for one.
    #[default]
    Dynamic,
    /// Given to who asks for one, never chosen automatically.
    StaticOnly,
    /// Given to nobody.
    Excluded,
}

/// Ports that there are, and for what kind of choice.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "service-control-plane.io",
    version = "v1alpha1",
    kind = "NodePortRange",
    plural = "nodeportranges",
    shortname = "npr",
    doc = "A range of node ports and what they are for.",
    status = "NodePortRangeStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    printcolumn(name = "First", type_ = "integer", json_path = ".spec.firstPort"),
    printcolumn(name = "Last", type_ = "integer", json_path = ".spec.lastPort"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = ("self.firstPort <= self.lastPort", "the last port comes before the first"),
    validation = (
        "!has(self.lowerBand) || self.lowerBand <= self.lastPort - self.firstPort + 1",
        "the lower band is larger than the range"
    )
)]
pub struct NodePortRangeSpec {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = ("self == oldSelf", "field is immutable"))]
    pub first_port: i32,
    /// The last port.
    #[schemars(range(min = 1, max = 65535))]
    #[x_kube(validation = ("self == oldSelf", "field is immutable"))]
    pub last_port: i32,
    /// What the ports are for: Dynamic, StaticOnly or Excluded.
    #[serde(default)]
    pub role: Role,
    /// How many ports from the first on automatic choice leaves alone as long as it can; without it what Kubernetes does
    /// (KEP-3668): a 32nd of the range, at least 16 and at most 128, and none in a range of 16 ports or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub lower_band: Option<i32>,
}

/// What a controller has seen of a range.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePortRangeStatus {
    /// Ready: the range is in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How full it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<BandFill>,
}

/// Drops empty values.
pub fn default(range: &mut NodePortRange) {
    range.metadata.normalize();
}

/// Prepares a defaulted range for a create: the status goes.
pub fn prepare_create(range: &mut NodePortRange) {
    meta::prepare_create(&mut range.metadata);
    range.status = None;
}

/// Prepares an update of the main resource: the status stays.
pub fn prepare_update(new: &mut NodePortRange, old: &NodePortRange) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    new.status.clone_from(&old.status);
}

/// Prepares an update of the status subresource: everything else stays.
pub fn prepare_status_update(new: &mut NodePortRange, old: &NodePortRange) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
    meta::reset_for_status(&mut new.metadata, &old.metadata);
    new.spec.clone_from(&old.spec);
}

/// Errors of a range that shall be created.
pub fn validate_create(range: &NodePortRange) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&range.metadata, Naming::CLUSTER_SUBDOMAIN);
    errors.extend(validate_spec(&range.spec));
    errors
}

fn validate_spec(spec: &NodePortRangeSpec) -> FieldErrors {
    let path = Path::root("spec");
    let mut errors = validate_span(&path, spec.first_port, spec.last_port);
    if let Some(band) = spec.lower_band {
        if band < 0 {
            errors.push(invalid(path.child("lowerBand"), band, "must be greater than or equal to 0"));
        } else if errors.is_empty() && band > spec.last_port - spec.first_port + 1 {
            errors.push(invalid(path.child("lowerBand"), band, "the lower band is larger than the range"));
        }
    }
    errors
}

/// Errors of the two ends of a range below `path`.
pub(super) fn validate_span(path: &Path, first: i32, last: i32) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (field, port) in [("firstPort", first), ("lastPort", last)] {
        if !is_port(port) {
            errors.push(invalid(path.child(field), port, "must be between 1 and 65535, inclusive"));
        }
    }
    if errors.is_empty() && last < first {
        errors.push(invalid(path.child("lastPort"), last, "the last port comes before the first"));
    }
    errors
}

/// Errors of an update: the ports stay; role and band may change.
pub fn validate_update(new: &NodePortRange, old: &NodePortRange) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update(&new.metadata, &old.metadata);
    let path = Path::root("spec");
    let ends = [
        ("firstPort", new.spec.first_port, old.spec.first_port),
        ("lastPort", new.spec.last_port, old.spec.last_port),
    ];
    for (field, now, _) in ends.into_iter().filter(|(_, now, before)| now != before) {
        errors.push(invalid(path.child(field), now, meta::IMMUTABLE));
    }
    errors.extend(validate_spec(&new.spec));
    errors
}

/// Errors of an update of the status subresource.
pub fn validate_status_update(new: &NodePortRange, old: &NodePortRange) -> FieldErrors {
    meta::validate_object_meta_update(&new.metadata, &old.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn range(first: i32, last: i32, band: Option<i32>) -> NodePortRange {
        let spec =
            NodePortRangeSpec { first_port: first, last_port: last, lower_band: band, ..Default::default() };
        let mut range = NodePortRange::new("a", spec);
        range.metadata.resource_version = Some("1".into());
        range
    }

    #[rstest]
    #[case(30000, 32767, None, &[])]
    #[case(30000, 30000, Some(1), &[])]
    #[case(1, 65535, Some(0), &[])]
    #[case(0, 65536, None, &["firstPort", "lastPort"])]
    #[case(-1, 10, Some(-1), &["firstPort", "lowerBand"])]
    #[case(30001, 30000, None, &["lastPort"])]
    #[case(30000, 30009, Some(11), &["lowerBand"])]
    fn creates(#[case] first: i32, #[case] last: i32, #[case] band: Option<i32>, #[case] fields: &[&str]) {
        let errors = validate_create(&range(first, last, band));
        let found: Vec<_> = errors.iter().map(|e| e.field.trim_start_matches("spec.")).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn the_ports_stay() {
        let old = range(30000, 32767, None);
        assert_eq!(validate_update(&range(30000, 32767, Some(4)), &old), []);
        let errors = validate_update(&range(30001, 32766, None), &old);
        assert_eq!(errors.len(), 2);
    }
}
