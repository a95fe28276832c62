//! Rules of `metadata`, common to all kinds: names, labels, annotations, owners, finalizers,
//! managed fields, and which of it an update may change.
//!
//! Reference: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/>.

mod change;
mod finalizers;
mod managed_fields;
mod owners;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::change::validate_change;
use self::finalizers::{validate_finalizer_names, validate_finalizers};
use self::managed_fields::validate_managed_fields;
use self::owners::validate_owner_references;
use crate::errors::{FieldErrors, Path, forbidden, invalid, required, too_long};
use crate::names::{self, NameRule};

pub use self::finalizers::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, validate_finalizer_name};
pub use self::managed_fields::{FIELD_MANAGER_LENGTH, validate_field_manager};

/// The words for a field that no update may change.
pub const IMMUTABLE: &str = "field is immutable";
/// Most bytes that all annotations of an object may have together.
pub const TOTAL_ANNOTATION_SIZE: usize = 256 * 1024;
const MAX_NAME_LENGTH: usize = 63;
const GENERATED_LENGTH: usize = 5;

/// How the objects of a kind are named.
#[derive(Debug, Clone, Copy)]
pub struct Naming {
    /// The rule of `metadata.name`.
    pub rule: NameRule,
    /// Whether `generateName` may end with a dash that the rule alone would refuse.
    pub prefix_may_end_with_dash: bool,
    /// Whether the kind lives in namespaces.
    pub namespaced: bool,
}

impl Naming {
    /// A kind in namespaces whose names are DNS subdomains.
    pub const SUBDOMAIN: Self =
        Self { rule: names::dns_subdomain, prefix_may_end_with_dash: true, namespaced: true };
    /// A kind in namespaces whose names are DNS labels.
    pub const LABEL: Self = Self { rule: names::dns_label, prefix_may_end_with_dash: true, namespaced: true };
    /// A kind outside namespaces whose names are DNS subdomains.
    pub const CLUSTER_SUBDOMAIN: Self =
        Self { rule: names::dns_subdomain, prefix_may_end_with_dash: true, namespaced: false };
    /// A kind outside namespaces whose names are DNS labels.
    pub const CLUSTER_LABEL: Self =
        Self { rule: names::dns_label, prefix_may_end_with_dash: true, namespaced: false };
}

fn text(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

/// The name for an object with `generateName`: `base`, cut to fit, then `suffix`.
/// `suffix` should be five random characters of `bcdfghjklmnpqrstvwxz2456789`.
pub fn generated_name(base: &str, suffix: &str) -> String {
    let room = MAX_NAME_LENGTH - GENERATED_LENGTH;
    let mut end = base.len().min(room);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// Clears what only the server may set, for a create.
pub fn prepare_create(meta: &mut ObjectMeta) {
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.self_link = None;
}

/// Carries over what a client may leave out of an update or may not change.
pub fn prepare_update(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.generation = old.generation;
    new.self_link = None;
    if text(new.uid.as_ref()).is_empty() {
        new.uid.clone_from(&old.uid);
    }
    if text(new.resource_version.as_ref()).is_empty() {
        new.resource_version.clone_from(&old.resource_version);
    }
    if old.creation_timestamp.is_some() {
        new.creation_timestamp.clone_from(&old.creation_timestamp);
    }
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if old.deletion_grace_period_seconds.is_some() && new.deletion_grace_period_seconds.is_none() {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
}

/// Keeps the metadata that an update of a status subresource may not change, for the kinds that
/// protect it (Service, Pod and Node do not).
pub fn reset_for_status(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.generation = old.generation;
    new.labels.clone_from(&old.labels);
    new.annotations.clone_from(&old.annotations);
    new.finalizers.clone_from(&old.finalizers);
    new.owner_references.clone_from(&old.owner_references);
}

/// Errors of the metadata of an object of a built-in kind.
pub fn validate_object_meta(meta: &ObjectMeta, naming: Naming) -> FieldErrors {
    let mut errors = validate_any_object_meta(meta, naming);
    errors.extend(validate_finalizer_names(meta, &Path::root("metadata")));
    errors
}

/// Errors of the metadata of an object of any kind, custom ones included.
fn validate_any_object_meta(meta: &ObjectMeta, naming: Naming) -> FieldErrors {
    let path = Path::root("metadata");
    let mut errors = validate_naming(meta, naming, &path);
    if meta.generation.is_some_and(|g| g < 0) {
        errors.push(invalid(path.child("generation"), meta.generation, "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(meta.labels.as_ref(), &path.child("labels")));
    errors.extend(validate_annotations(meta.annotations.as_ref(), &path.child("annotations")));
    errors.extend(validate_owner_references(meta, &path));
    errors.extend(validate_finalizers(meta, &path));
    errors.extend(validate_managed_fields(meta, &path));
    errors
}

fn validate_naming(meta: &ObjectMeta, naming: Naming, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let generate_name = text(meta.generate_name.as_ref());
    if !generate_name.is_empty() {
        let checked = if naming.prefix_may_end_with_dash {
            names::without_trailing_dash(generate_name)
        } else {
            generate_name.to_owned()
        };
        let field = path.child("generateName");
        for fault in (naming.rule)(&checked) {
            errors.push(invalid(&field, generate_name, fault));
        }
    }
    let name = text(meta.name.as_ref());
    let field = path.child("name");
    if name.is_empty() {
        errors.push(required(&field, "name or generateName is required"));
    } else {
        for fault in (naming.rule)(name) {
            errors.push(invalid(&field, name, fault));
        }
    }
    let namespace = text(meta.namespace.as_ref());
    let field = path.child("namespace");
    match (naming.namespaced, namespace.is_empty()) {
        (true, true) => errors.push(required(&field, "")),
        (true, false) => {
            for fault in names::dns_label(namespace) {
                errors.push(invalid(&field, namespace, fault));
            }
        }
        (false, true) => {}
        (false, false) => errors.push(forbidden(&field, "not allowed on this type")),
    }
    errors
}

/// Errors of labels, or of a selector that has the shape of labels.
pub fn validate_labels(labels: Option<&BTreeMap<String, String>>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, value) in labels.into_iter().flatten() {
        for fault in names::qualified_name(key) {
            errors.push(invalid(path, key, fault));
        }
        for fault in names::label_value(value) {
            errors.push(invalid(path, value, fault));
        }
    }
    errors
}

/// Errors of annotations: the keys' shape, regardless of case, and the total size.
pub fn validate_annotations(annotations: Option<&BTreeMap<String, String>>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        for fault in names::qualified_name(&key.to_lowercase()) {
            errors.push(invalid(path, key, fault));
        }
        size += key.len() + value.len();
    }
    if size > TOTAL_ANNOTATION_SIZE {
        errors.push(too_long(path, TOTAL_ANNOTATION_SIZE));
    }
    errors
}

/// Errors of an update of any object's metadata; what the server itself sets must have been
/// carried over by [`prepare_update`].
pub fn validate_object_meta_update_common(new: &ObjectMeta, old: &ObjectMeta) -> FieldErrors {
    let naming = Naming {
        rule: names::path_segment,
        prefix_may_end_with_dash: false,
        namespaced: old.namespace.is_some(),
    };
    let mut errors = validate_any_object_meta(new, naming);
    errors.extend(validate_change(new, old));
    errors
}

/// Errors of an update of the metadata of a built-in kind.
///
/// Upstream checks the common rules for every kind and once more inside each kind, so that one
/// fault has several equal causes in the answer (the message names it once).
pub fn validate_object_meta_update(new: &ObjectMeta, old: &ObjectMeta) -> FieldErrors {
    let mut errors = validate_object_meta_update_common(new, old);
    errors.extend(validate_object_meta_update_of_kind(new, old));
    errors
}

/// The second half of [`validate_object_meta_update`]: what a kind's own rules check once more.
pub fn validate_object_meta_update_of_kind(new: &ObjectMeta, old: &ObjectMeta) -> FieldErrors {
    let mut errors = validate_change(new, old);
    errors.extend(validate_finalizer_names(new, &Path::root("metadata")));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use rstest::rstest;

    fn named(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            resource_version: Some("1".to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn messages(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_object_has_no_errors() {
        assert_eq!(validate_object_meta(&named("a"), Naming::SUBDOMAIN), vec![]);
    }

    #[test]
    fn a_dash_at_the_end_is_allowed_in_a_prefix_only() {
        let mut meta = named("web-");
        meta.generate_name = Some("web-".to_owned());
        let errors = validate_object_meta(&meta, Naming::SUBDOMAIN);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, "metadata.name");
    }

    #[test]
    fn cluster_scoped_kinds_have_no_namespace() {
        let errors = validate_object_meta(&named("a"), Naming::CLUSTER_SUBDOMAIN);
        assert_eq!(messages(&errors), ["metadata.namespace: Forbidden: not allowed on this type"]);
    }

    #[test]
    fn two_controllers_are_one_too_many() {
        let owner = |name: &str| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let mut meta = named("a");
        meta.owner_references = Some(vec![owner("x"), owner("y")]);
        let errors = validate_object_meta(&meta, Naming::SUBDOMAIN);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].detail.ends_with("for Service/x and Service/y"));
        let printed = r#"[{"apiVersion":"v1","kind":"Service","name":"x","uid":"u","controller":true},"#;
        assert!(errors[0].to_string().contains(printed), "{}", errors[0]);
    }

    #[rstest]
    #[case("example.com/x", 0)]
    #[case("orphan", 0)]
    #[case("noslash", 1)]
    #[case("bad name", 2)]
    #[case("a/b/c", 1)]
    fn finalizers(#[case] name: &str, #[case] count: usize) {
        let mut meta = named("a");
        meta.finalizers = Some(vec![name.to_owned()]);
        let errors = validate_object_meta(&meta, Naming::SUBDOMAIN);
        assert_eq!(errors.len(), count, "{errors:?}");
    }

    #[test]
    fn no_finalizer_is_added_to_a_dying_object() {
        let mut old = named("a");
        old.deletion_timestamp = Some(serde_json::from_str("\"2024-01-01T00:00:00Z\"").unwrap());
        old.finalizers = Some(vec!["a/b".to_owned()]);
        let mut new = old.clone();
        new.finalizers = Some(vec!["c/d".to_owned()]);
        let errors = validate_object_meta_update_common(&new, &old);
        assert_eq!(
            messages(&errors),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
            ]
        );
    }

    #[test]
    fn an_update_may_leave_out_what_the_server_sets() {
        let mut old = named("a");
        old.uid = Some("u".to_owned());
        old.generation = Some(3);
        let mut new = named("a");
        new.resource_version = None;
        prepare_update(&mut new, &old);
        assert_eq!(validate_object_meta_update(&new, &old), vec![]);
        assert_eq!(new.generation, Some(3));
    }

    #[test]
    fn a_bad_label_of_an_update_has_a_cause_per_check() {
        let old = named("a");
        let mut new = named("a");
        new.labels = Some([("k".to_owned(), "-".to_owned())].into());
        let errors = validate_object_meta_update(&new, &old);
        assert_eq!(errors.len(), 3);
        assert!(errors.iter().all(|e| e == &errors[0]));
    }

    #[test]
    fn generated_names_stay_labels() {
        assert_eq!(generated_name("web-", "abcde"), "web-abcde");
        assert_eq!(generated_name(&"a".repeat(90), "abcde").len(), 63);
    }

    #[test]
    fn unprintable_field_managers_are_refused() {
        let path = Path::root("fieldManager");
        assert!(validate_field_manager("kubectl \"x\" \\", &path).is_empty());
        let errors = validate_field_manager("a\u{7}", &path);
        assert_eq!(
            messages(&errors),
            ["fieldManager: Invalid value: \"a\\a\": invalid character U+0007 (at position 1)"]
        );
    }
}
