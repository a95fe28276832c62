//! Namespace: its phase, and that it stays until everything in it is gone.

use serde_json::{Value, json};
use service_api::errors::{self, BadValue, FieldError, FieldErrors, Path};
use service_api::meta::{Naming, validate_finalizer_name};
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
        if text(obj, "/status/phase").is_empty()
            && let Some(status) = object_at(obj, &["status"])
        {
            status.insert("phase".to_owned(), json!("Active"));
        }
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
        let mut faults = meta::faults(obj, Naming::CLUSTER_LABEL);
        // Upstream names the list here, and the item where the list is changed.
        faults.extend(finalizer_faults(obj, |path, _| path));
        faults
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

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        match sub {
            Subresource::Status => faults.extend(phase_fault(new)),
            Subresource::Finalize => faults.extend(finalizer_faults(new, |path, at| path.index(at))),
            _ => {}
        }
        faults
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

fn finalizer_faults(obj: &Value, named: impl Fn(Path, usize) -> Path) -> FieldErrors {
    let names = list(obj, "/spec/finalizers").iter().filter_map(Value::as_str).enumerate();
    let faults =
        names.flat_map(|(at, name)| validate_finalizer_name(name, &named(Path::root("spec.finalizers"), at)));
    faults.collect()
}

/// A namespace is Active until it is deleted, and Terminating from then on.
fn phase_fault(obj: &Value) -> Option<FieldError> {
    let phase = text(obj, "/status/phase");
    let (allowed, state) = match obj.pointer("/metadata/deletionTimestamp") {
        None | Some(Value::Null) => ("Active", "is empty"),
        Some(_) => ("Terminating", "is not empty"),
    };
    let why = format!("may only be '{allowed}' if `deletionTimestamp` {state}");
    (phase != allowed).then(|| errors::invalid("status.Phase", BadValue::named(phase), why))
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
    use rstest::rstest;

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

    /// As Kubernetes 1.36.2 answers.
    #[test]
    fn finalizers_have_qualified_names() {
        let with = |name: &str| json!({"metadata": {"name": "shop", "resourceVersion": "1"}, "spec": {"finalizers": [name]}});
        let told = |faults: FieldErrors| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let why =
            "Invalid value: \"foo\": name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(told(Namespace.validate_create(&with("foo"))), [format!("spec.finalizers: {why}")]);
        let (old, new) = (with("kubernetes"), with("foo"));
        let update = |sub| told(Namespace.validate_update(&new, &old, sub));
        assert_eq!(update(Subresource::Finalize), [format!("spec.finalizers[0]: {why}")]);
        assert!(update(Subresource::None).is_empty());
        assert!(Namespace.validate_create(&with("example.com/hold")).is_empty());
    }

    #[rstest]
    #[case(false, "Active", None)]
    #[case(
        false,
        "Terminating",
        Some("\"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
    )]
    #[case(true, "Terminating", None)]
    #[case(true, "Active", Some("\"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"))]
    fn the_phase_follows_the_deletion(
        #[case] deleted: bool,
        #[case] phase: &str,
        #[case] expected: Option<&str>,
    ) {
        let mut object = json!({"metadata": {"name": "shop"}, "status": {"phase": phase}});
        if deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let told = phase_fault(&object).map(|fault| fault.to_string());
        assert_eq!(told, expected.map(|text| format!("status.Phase: Invalid value: {text}")));
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
