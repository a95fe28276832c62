//! Owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;

use crate::cut::cut_owned;
use crate::errors::{BadValue, FieldErrors, Path, invalid};

/// A reference with its fields in the order that upstream prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl<'a> Printed<'a> {
    fn of(reference: &'a OwnerReference) -> Self {
        Self {
            api_version: &reference.api_version,
            kind: &reference.kind,
            name: &reference.name,
            uid: &reference.uid,
            controller: reference.controller,
            block_owner_deletion: reference.block_owner_deletion,
        }
    }
}

pub(super) fn validate_owner_references(meta: &ObjectMeta, path: &Path) -> FieldErrors {
    let path = path.child("ownerReferences");
    let references = meta.owner_references.as_deref().unwrap_or_default();
    let mut errors = FieldErrors::new();
    let mut first_controller: Option<String> = None;
    let mut all: Option<BadValue> = None;
    for reference in references {
        if errors.is_cut() {
            break;
        }
        errors.extend(validate_owner_reference(reference, &path));
        if reference.controller != Some(true) {
            continue;
        }
        let controller = cut_owned(format!("{}/{}", reference.kind, reference.name));
        match &first_controller {
            Some(first) => {
                let all = all.get_or_insert_with(|| {
                    BadValue::json(&references.iter().map(Printed::of).collect::<Vec<_>>())
                });
                errors.push(invalid(
                    &path,
                    all.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {controller}"
                    ),
                ));
            }
            None => first_controller = Some(controller),
        }
    }
    errors
}

/// Splits an `apiVersion` into group and version; both are empty when it is malformed.
fn group_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some((group, version)) => (group, version),
    }
}

fn validate_owner_reference(reference: &OwnerReference, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (group, version) = group_version(&reference.api_version);
    if version.is_empty() {
        errors.push(invalid(path.child("apiVersion"), &reference.api_version, "version must not be empty"));
    }
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name), ("uid", &reference.uid)] {
        if value.is_empty() {
            errors.push(invalid(path.child(field), value, "must not be empty"));
        }
    }
    if group.is_empty() && version == "v1" && reference.kind == "Event" {
        errors.push(invalid(
            path,
            BadValue::json(&Printed::of(reference)),
            "/v1, Kind=Event is disallowed from being an owner",
        ));
    }
    errors
}
