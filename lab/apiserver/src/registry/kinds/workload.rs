//! What Deployment and ReplicaSet have in common: template, selector, replicas and the scale of both.

use serde_json::{Value, json};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::meta::Naming;

use super::fields::{default_fields, is_unset, list, object_at, text};
use super::meta;
use super::pod_spec::default_pod_spec;
use super::pod_validate::{self, SpecOf};
use super::pod_warnings::spec_warnings;
use crate::registry::strategy::Subresource;

/// Defaults of the fields that both kinds have.
pub(super) fn default_common(obj: &mut Value) {
    if let Some(spec) = obj.get_mut("spec") {
        default_fields(spec, [("replicas", json!(1))]);
    }
    if let Some(template) = obj.pointer_mut("/spec/template/spec") {
        default_pod_spec(template);
    }
    default_fields(obj, [("status", json!({}))]);
}

/// What is odd about the template.
pub(super) fn warnings(obj: &Value, sub: Subresource) -> Vec<String> {
    let path = Path::root("spec").child("template").child("spec");
    match obj.pointer("/spec/template/spec") {
        Some(spec) if sub == Subresource::None => spec_warnings(spec, &path),
        _ => Vec::new(),
    }
}

/// Faults of an object that shall be created.
pub(super) fn create_faults(obj: &Value) -> FieldErrors {
    let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
    faults.extend(spec_faults(obj));
    faults
}

/// Faults of an update.
pub(super) fn update_faults(new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
    let mut faults = meta::update_faults(new, old);
    if sub != Subresource::Status {
        if new.get("spec") != old.get("spec") {
            faults.extend(spec_faults(new));
        }
        faults.extend(selector_change(new, old));
    }
    faults
}

/// Faults of the spec that both kinds share, in upstream's order.
fn spec_faults(obj: &Value) -> FieldErrors {
    let path = Path::root("spec");
    let mut faults = FieldErrors::new();
    for field in ["replicas", "minReadySeconds"] {
        let number = obj.pointer(&format!("/spec/{field}")).and_then(Value::as_i64).unwrap_or_default();
        if number < 0 {
            faults.push(errors::invalid(path.child(field), number, "must be greater than or equal to 0"));
        }
    }
    let selector = obj.pointer("/spec/selector");
    let selects_all = ["matchLabels", "matchExpressions"]
        .iter()
        .all(|part| is_unset(selector.and_then(|selector| selector.get(*part))));
    if is_unset(selector) {
        faults.push(errors::required(path.child("selector"), ""));
    } else if selects_all {
        let shown = BadValue::json(selector.unwrap_or(&Value::Null));
        faults.push(errors::invalid(
            path.child("selector"),
            shown,
            "empty selector is invalid for deployment",
        ));
    } else if !matches(selector.unwrap_or(&Value::Null), obj.pointer("/spec/template/metadata/labels")) {
        let labels = obj.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
        faults.push(errors::invalid(
            path.child("template").child("metadata").child("labels"),
            BadValue::json(labels),
            "`selector` does not match template `labels`",
        ));
    }
    let template = path.child("template").child("spec");
    let spec = obj.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    faults.extend(pod_validate::spec_faults(spec, &template, SpecOf::Template));
    let restart = text(obj, "/spec/template/spec/restartPolicy");
    if !matches!(restart, "" | "Always") {
        let field = path.child("template").child("spec").child("restartPolicy");
        faults.push(errors::not_supported(field, restart, &["Always"]));
    }
    faults
}

/// The fault of a changed selector, if it changed.
fn selector_change(new: &Value, old: &Value) -> FieldErrors {
    let (now, before) = (new.pointer("/spec/selector"), old.pointer("/spec/selector"));
    if now == before {
        return FieldErrors::new();
    }
    vec![errors::invalid("spec.selector", BadValue::json(now.unwrap_or(&Value::Null)), "field is immutable")]
        .into()
}

/// Does a `LabelSelector` choose an object with these labels?
pub fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let equal = wanted.into_iter().flatten().all(|(key, value)| label(key) == value.as_str());
    equal
        && list(selector, "/matchExpressions").iter().all(|expression| {
            let value = label(text(expression, "/key"));
            let listed = || list(expression, "/values").iter().any(|wanted| wanted.as_str() == value);
            match text(expression, "/operator") {
                "In" => value.is_some() && listed(),
                "NotIn" => value.is_none() || !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// The `autoscaling/v1` Scale of a Deployment or ReplicaSet.
pub fn scale_of(obj: &Value) -> Value {
    let meta = |field: &str| obj.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
    let replicas =
        |part: &str| obj.pointer(&format!("/{part}/replicas")).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = meta(field);
    }
    let mut out = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": replicas("status")},
    });
    // Zero replicas are left out, as Go does with `omitempty`.
    if replicas("spec") != 0 {
        out["spec"]["replicas"] = json!(replicas("spec"));
    }
    let selector = crate::registry::table::selector(obj);
    if selector != "<none>" {
        out["status"]["selector"] = json!(selector);
    }
    out
}

/// Takes a Scale's replicas and resource version over into the object it scales.
pub fn apply_scale(obj: &mut Value, scale: &Value) {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if let Some(spec) = object_at(obj, &["spec"]) {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    let version = text(scale, "/metadata/resourceVersion");
    if !version.is_empty()
        && let Some(metadata) = object_at(obj, &["metadata"])
    {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"matchLabels": {"a": "1"}}), true)]
    #[case(json!({"matchLabels": {"a": "2"}}), false)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), true)]
    fn selectors(#[case] selector: Value, #[case] chosen: bool) {
        assert_eq!(matches(&selector, Some(&json!({"a": "1"}))), chosen);
    }

    #[test]
    fn a_scale_reads_and_writes_replicas() {
        let mut obj = json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "1"}}}, "status": {"replicas": 2}
        });
        let mut scale = scale_of(&obj);
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=1"}));
        scale["spec"] = json!({});
        apply_scale(&mut obj, &scale);
        assert_eq!(obj["spec"]["replicas"], json!(0));
    }
}
