//! Namespace: its phase, and that it stays until everything in it is gone.

use serde_json::{Value, json};
use service_api::errors::FieldErrors;
use service_api::meta::Naming;
use service_api::status;

use super::fields::{default_fields, keep, list, object_at, text};
use super::meta;
use crate::registry::error::ApiError;
use crate::registry::strategy::{Strategy, Subresource};

/// The finalizer in `spec` that the namespace controller removes last.
pub const FINALIZER: &str = "kubernetes";
/// The label that carries a namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Namespaces that can not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The rules of Namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, obj: &mut Value) {
        default_fields(obj, [("spec", json!({})), ("status", json!({}))]);
        label_with_name(obj);
    }

    fn prepare_create(&self, obj: &mut Value) {
        label_with_name(obj);
        obj["status"] = json!({"phase": "Active"});
        let Some(spec) = object_at(obj, &["spec"]) else { return };
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        match finalizers.as_array_mut() {
            Some(finalizers) if finalizers.iter().any(|finalizer| finalizer == FINALIZER) => {}
            Some(finalizers) => finalizers.push(json!(FINALIZER)),
            None => *finalizers = json!([FINALIZER]),
        }
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        meta::faults(obj, Naming::CLUSTER_LABEL)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        match sub {
            Subresource::Status => keep(new, old, "spec"),
            Subresource::Finalize => keep(new, old, "status"),
            _ => {
                keep(new, old, "status");
                keep(new, old, "spec");
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        meta::update_faults(new, old)
    }

    fn refuse_delete(&self, obj: &Value) -> Option<ApiError> {
        let name = text(obj, "/metadata/name");
        IMMORTAL
            .contains(&name)
            .then(|| status::forbidden("", "namespaces", name, "this namespace may not be deleted").into())
    }

    fn holds_deletion(&self, obj: &Value) -> bool {
        !list(obj, "/spec/finalizers").is_empty()
    }

    fn mark_deleted(&self, obj: &mut Value) {
        if let Some(status) = object_at(obj, &["status"]) {
            status.insert("phase".to_owned(), json!("Terminating"));
        }
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

fn label_with_name(obj: &mut Value) {
    let name = text(obj, "/metadata/name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = object_at(obj, &["metadata", "labels"]) {
        labels.insert(NAME_LABEL.to_owned(), json!(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_held() {
        let mut object = json!({"metadata": {"name": "shop"}, "status": {"phase": "Terminating"}});
        Namespace.default(&mut object);
        Namespace.prepare_create(&mut object);
        assert_eq!(
            object,
            json!({"metadata": {"name": "shop", "labels": {NAME_LABEL: "shop"}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
        );
        assert!(Namespace.holds_deletion(&object));
        Namespace.mark_deleted(&mut object);
        assert_eq!(object["status"]["phase"], json!("Terminating"));
    }

    #[test]
    fn some_namespaces_stay() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        assert!(Namespace.refuse_delete(&named("shop")).is_none());
        let error = Namespace.refuse_delete(&named("default")).unwrap();
        assert_eq!(
            error.to_string(),
            "namespaces \"default\" is forbidden: this namespace may not be deleted"
        );
    }

    #[test]
    fn only_finalize_changes_the_finalizers() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        for (sub, left) in [(Subresource::None, json!(["kubernetes"])), (Subresource::Finalize, json!([]))] {
            let mut new = json!({"spec": {"finalizers": []}, "status": {"phase": "Terminating"}});
            Namespace.prepare_update(&mut new, &old, sub);
            assert_eq!(new["spec"]["finalizers"], left, "{sub:?}");
            assert_eq!(new["status"]["phase"], json!("Active"), "{sub:?}");
        }
    }
}
