//! Finalizers: their names, and which may be added when.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::bad_value::go_quote;
use crate::errors::{FieldError, FieldErrors, Path, forbidden, invalid};
use crate::names;

/// The finalizer that keeps dependents alive.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer that waits for dependents to go first.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
const FINALIZER_KUBERNETES: &str = "kubernetes";

pub(super) fn validate_finalizers(meta: &ObjectMeta, path: &Path) -> FieldErrors {
    let path = path.child("finalizers");
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let mut errors = FieldErrors::new();
    for finalizer in finalizers {
        // Upstream names the list here, and the item only where the rules of a kind look again.
        for fault in names::qualified_name(finalizer) {
            errors.push(invalid(&path, finalizer, fault));
        }
    }
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        errors.push(invalid(
            &path,
            finalizers,
            format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"),
        ));
    }
    errors
}

pub(super) fn validate_finalizer_names(meta: &ObjectMeta, path: &Path) -> FieldErrors {
    let path = path.child("finalizers");
    let names = meta.finalizers.iter().flatten().enumerate();
    names.filter_map(|(i, name)| nonstandard(name, path.index(i))).collect()
}

fn nonstandard(name: &str, path: Path) -> Option<FieldError> {
    let standard = [FINALIZER_KUBERNETES, FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
    let fits = name.contains('/') || standard.contains(&name);
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    (!fits).then(|| invalid(path, name, why))
}

/// Faults of one name in a list of finalizers of a kind's own, as a namespace's `spec.finalizers`; `path` is named in them.
pub fn validate_finalizer_name(name: &str, path: &Path) -> FieldErrors {
    let mut errors: FieldErrors =
        names::qualified_name(name).into_iter().map(|fault| invalid(path, name, fault)).collect();
    errors.extend(nonstandard(name, path.clone()));
    errors
}

pub(super) fn validate_no_new_finalizers(new: &ObjectMeta, old: &ObjectMeta, path: &Path) -> FieldErrors {
    let set = |meta: &ObjectMeta| -> BTreeSet<String> { meta.finalizers.iter().flatten().cloned().collect() };
    let old = set(old);
    let new = set(new);
    let added: Vec<String> = new.difference(&old).map(|f| go_quote(f)).collect();
    if added.is_empty() {
        return FieldErrors::new();
    }
    vec![forbidden(
        path.child("finalizers"),
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    )].into()
}
