//! What an IPAddress means (`networking.k8s.io/v1`, KEP-1880).
//!
//! The generated type can not tell a missing `parentRef` from an empty one, and the answers
//! differ; so this module has a type of its own, with the same JSON.

use k8s_openapi::api::networking::v1::ParentReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::address::{canonical_ip_faults, to_errors};
use crate::errors::{BadValue, FieldErrors, Path, invalid, required};
use crate::meta::{self, Naming};
use crate::names;
use crate::object::Normalize;

/// An IPAddress whose `parentRef` may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// Metadata; the name is the address in canonical form.
    pub metadata: ObjectMeta,
    /// What the address belongs to.
    pub spec: AddressSpec,
}

/// The spec of an [`Address`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressSpec {
    /// The object that holds the address; missing is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_ref: Option<ParentReference>,
}

impl From<k8s_openapi::api::networking::v1::IPAddress> for Address {
    fn from(ip: k8s_openapi::api::networking::v1::IPAddress) -> Self {
        Self { metadata: ip.metadata, spec: AddressSpec { parent_ref: Some(ip.spec.parent_ref) } }
    }
}

const NAMING: Naming =
    Naming { rule: canonical_ip_faults, prefix_may_end_with_dash: false, namespaced: false };

/// Names are addresses, so `generateName` alone becomes the name unchanged.
pub fn generated_name(base: &str) -> String {
    base.to_owned()
}

/// Drops empty values.
pub fn default(address: &mut Address) {
    address.metadata.normalize();
    if let Some(parent) = &mut address.spec.parent_ref {
        for field in [&mut parent.group, &mut parent.namespace] {
            if field.as_ref().is_some_and(String::is_empty) {
                *field = None;
            }
        }
    }
}

/// Prepares a defaulted address for a create.
pub fn prepare_create(address: &mut Address) {
    meta::prepare_create(&mut address.metadata);
}

/// Prepares a defaulted address for an update.
pub fn prepare_update(new: &mut Address, old: &Address) {
    meta::prepare_update(&mut new.metadata, &old.metadata);
}

/// Errors of an address that shall be created.
pub fn validate_create(address: &Address) -> FieldErrors {
    let mut errors = meta::validate_object_meta(&address.metadata, NAMING);
    errors.extend(validate_parent(address));
    errors
}

fn validate_parent(address: &Address) -> FieldErrors {
    let path = Path::root("spec").child("parentRef");
    let Some(parent) = &address.spec.parent_ref else {
        return vec![required(&path, "")].into();
    };
    let mut errors = FieldErrors::new();
    let group = parent.group.as_deref().unwrap_or_default();
    if !group.is_empty() {
        let faults = names::dns_subdomain(group);
        errors.extend(to_errors(&path.child("group"), group, faults));
    }
    for (field, value) in [("resource", &parent.resource), ("name", &parent.name)] {
        let field = path.child(field);
        if value.is_empty() {
            errors.push(required(&field, ""));
        } else {
            errors.extend(to_errors(&field, value, names::path_segment(value)));
        }
    }
    let namespace = parent.namespace.as_deref().unwrap_or_default();
    if !namespace.is_empty() {
        let faults = names::path_segment(namespace);
        errors.extend(to_errors(&path.child("namespace"), namespace, faults));
    }
    errors
}

/// How upstream prints a parent reference.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PrintedParent<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// Errors of an update: the parent stays.
pub fn validate_update(new: &Address, old: &Address) -> FieldErrors {
    let mut errors = meta::validate_object_meta_update_common(&new.metadata, &old.metadata);
    errors.extend(validate_create(new));
    errors.extend(meta::validate_object_meta_update_of_kind(&new.metadata, &old.metadata));
    let path = Path::root("spec").child("parentRef");
    if new.spec.parent_ref != old.spec.parent_ref {
        let bad = new.spec.parent_ref.as_ref().map_or(BadValue::Null, |p| {
            BadValue::json(&PrintedParent {
                group: p.group.as_deref().unwrap_or_default(),
                resource: &p.resource,
                namespace: p.namespace.as_deref().unwrap_or_default(),
                name: &p.name,
            })
        });
        errors.push(invalid(&path, bad, meta::IMMUTABLE));
    }
    errors
}

/// Warnings of a create or an update: there are none.
pub fn warnings(_new: &Address, _old: Option<&Address>) -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// An update is judged as a create too, and first.
    #[test]
    fn a_parent_stays_and_must_be_one() {
        let address = |resource: &str| -> Address {
            serde_json::from_value(json!({
                "metadata": {"name": "192.0.2.1", "resourceVersion": "1"},
                "spec": {"parentRef": {"resource": resource, "name": "a", "namespace": "default"}},
            }))
            .unwrap()
        };
        let found: Vec<String> =
            validate_update(&address(""), &address("services")).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "spec.parentRef.resource: Required value",
                "spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"\",\"Namespace\":\"default\",\"Name\":\
                 \"a\"}: field is immutable",
            ]
        );
        assert_eq!(validate_update(&address("services"), &address("services")), vec![]);
    }

    #[rstest]
    #[case(json!({"resource": "services", "name": "a"}), &[])]
    #[case(json!({"resource": "a/b", "name": "..", "group": "A", "namespace": "x%"}), &["group", "resource", "name", "namespace"])]
    fn parents(#[case] parent: Value, #[case] fields: &[&str]) {
        let address: Address = serde_json::from_value(json!({
            "metadata": {"name": "192.0.2.1"}, "spec": {"parentRef": parent},
        }))
        .unwrap();
        let found: Vec<_> =
            validate_create(&address).into_iter().map(|e| e.field.replace("spec.parentRef.", "")).collect();
        assert_eq!(found, fields);
    }
}
