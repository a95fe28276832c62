//! What an update may change of an object's metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::finalizers::validate_no_new_finalizers;
use super::managed_fields::validate_managed_fields;
use super::owners::validate_owner_references;
use super::{IMMUTABLE, text, validate_annotations, validate_labels};
use crate::errors::{BadValue, FieldErrors, Path, invalid};

/// Errors of what an update changes, with the rules of labels, annotations and owners once more.
pub(super) fn validate_change(new: &ObjectMeta, old: &ObjectMeta) -> FieldErrors {
    let path = Path::root("metadata");
    let mut errors = FieldErrors::new();
    if old.deletion_timestamp.is_some() {
        errors.extend(validate_no_new_finalizers(new, old, &path));
    }
    if text(new.resource_version.as_ref()).is_empty() {
        errors.push(invalid(path.child("resourceVersion"), "", "must be specified for an update"));
    }
    if new.generation.unwrap_or(0) < old.generation.unwrap_or(0) {
        errors.push(invalid(
            path.child("generation"),
            new.generation.unwrap_or(0),
            "must not be decremented",
        ));
    }
    errors.extend(validate_immutable_meta(new, old, &path));
    errors.extend(validate_labels(new.labels.as_ref(), &path.child("labels")));
    errors.extend(validate_annotations(new.annotations.as_ref(), &path.child("annotations")));
    errors.extend(validate_owner_references(new, &path));
    errors.extend(validate_managed_fields(new, &path));
    errors
}

fn validate_immutable_meta(new: &ObjectMeta, old: &ObjectMeta, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (field, new, old) in [
        ("name", &new.name, &old.name),
        ("namespace", &new.namespace, &old.namespace),
        ("uid", &new.uid, &old.uid),
    ] {
        if text(new.as_ref()) != text(old.as_ref()) {
            errors.push(invalid(path.child(field), text(new.as_ref()), IMMUTABLE));
        }
    }
    for (field, new, old) in [
        ("creationTimestamp", &new.creation_timestamp, &old.creation_timestamp),
        ("deletionTimestamp", &new.deletion_timestamp, &old.deletion_timestamp),
    ] {
        if new != old {
            let bad = new.as_ref().map_or(BadValue::Null, BadValue::json);
            errors.push(invalid(path.child(field), bad, IMMUTABLE));
        }
    }
    if new.deletion_grace_period_seconds != old.deletion_grace_period_seconds {
        errors.push(invalid(
            path.child("deletionGracePeriodSeconds"),
            new.deletion_grace_period_seconds,
            IMMUTABLE,
        ));
    }
    errors
}
