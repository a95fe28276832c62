//! What Deployment and ReplicaSet have in common: template, selector, replicas and the scale of both.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service_api::errors::{self, BadValue, FieldErrors, Path};
use service_api::meta::{Naming, validate_annotations, validate_labels};
use service_api::names::{label_value, qualified_name};

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

/// Faults of an update; `numbers` are those of the status, and `counts` those of them that are parts of `replicas`.
pub(super) fn update_faults(
    new: &Value,
    old: &Value,
    sub: Subresource,
    numbers: &[&str],
    counts: &[&str],
) -> FieldErrors {
    let mut faults = meta::update_faults(new, old);
    if sub == Subresource::Status {
        if new.get("status") != old.get("status") {
            faults.extend(status_faults(new, numbers, counts));
        }
    } else {
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
    let selector = obj.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let malformed = selector_faults(selector, &path.child("selector"), &mut faults);
    if !malformed {
        template_faults(obj, selector, &path.child("template"), &mut faults);
    }
    faults
}

/// Faults of the selector itself. With one that cannot be read nothing else is looked at, which is what is returned.
fn selector_faults(selector: Option<&Value>, path: &Path, faults: &mut FieldErrors) -> bool {
    let Some(selector) = selector else {
        faults.push(errors::required(path, ""));
        return false;
    };
    let mut found = FieldErrors::new();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let labels = path.child("matchLabels");
        let value = value.as_str().unwrap_or_default();
        found.extend(qualified_name(key).into_iter().map(|why| errors::invalid(&labels, key.as_str(), why)));
        found.extend(label_value(value).into_iter().map(|why| errors::invalid(&labels, value, why)));
    }
    for (at, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        expression_faults(expression, &path.child("matchExpressions").index(at), &mut found);
    }
    let shown = || BadValue::json(selector);
    let selects_all = ["matchLabels", "matchExpressions"].iter().all(|part| is_unset(selector.get(*part)));
    let malformed = !found.is_empty();
    faults.extend(found);
    if selects_all {
        faults.push(errors::invalid(path, shown(), "empty selector is invalid for deployment"));
    }
    if malformed {
        faults.push(errors::invalid(path, shown(), "invalid label selector"));
    }
    malformed
}

/// Faults of one of a selector's `matchExpressions`.
fn expression_faults(expression: &Value, path: &Path, faults: &mut FieldErrors) {
    let values = list(expression, "/values");
    match text(expression, "/operator") {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            faults.push(errors::required(path.child("values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            faults.push(errors::forbidden(path.child("values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let path = path.child("operator");
            faults.push(errors::invalid(path, BadValue::named(other), "not a valid selector operator"));
        }
    }
    let key = text(expression, "/key");
    let key_path = path.child("key");
    faults.extend(qualified_name(key).into_iter().map(|why| errors::invalid(&key_path, key, why)));
    for (at, value) in values.iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("values").index(at);
        faults.extend(label_value(value).into_iter().map(|why| errors::invalid(&path, value, why)));
    }
}

/// Faults of the template, and of its labels if the selector does not choose them.
fn template_faults(obj: &Value, selector: Option<&Value>, path: &Path, faults: &mut FieldErrors) {
    let template = obj.pointer("/spec/template").unwrap_or(&Value::Null);
    let labels = template.pointer("/metadata/labels");
    if !selector.is_some_and(|selector| matches(selector, labels)) {
        faults.push(errors::invalid(
            path.child("metadata").child("labels"),
            BadValue::json(labels.unwrap_or(&Value::Null)),
            "`selector` does not match template `labels`",
        ));
    }
    let texts = |field: &str| -> Option<BTreeMap<String, String>> {
        let texts = template.pointer(&format!("/metadata/{field}"))?.as_object()?;
        Some(
            texts.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        )
    };
    faults.extend(validate_labels(texts("labels").as_ref(), &path.child("labels")));
    faults.extend(validate_annotations(texts("annotations").as_ref(), &path.child("annotations")));
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let path = path.child("spec");
    faults.extend(pod_validate::spec_faults(spec, &path, SpecOf::Template));
    if !list(spec, "/ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        faults.push(errors::forbidden(path.child("ephemeralContainers"), why));
    }
    let restart = text(spec, "/restartPolicy");
    if !matches!(restart, "" | "Always") {
        faults.push(errors::not_supported(path.child("restartPolicy"), restart, &["Always"]));
    }
    if !is_unset(spec.get("activeDeadlineSeconds")) {
        let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
        faults.push(errors::forbidden(path.child("activeDeadlineSeconds"), why));
    }
}

/// Faults of a status: counts that are negative, and those of `counts` that are larger than `replicas`.
fn status_faults(obj: &Value, numbers: &[&str], counts: &[&str]) -> FieldErrors {
    let path = Path::root("status");
    let number =
        |field: &str| obj.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default();
    let mut faults = FieldErrors::new();
    for field in numbers.iter().copied().filter(|field| number(field) < 0) {
        faults.push(errors::invalid(path.child(field), number(field), "must be greater than or equal to 0"));
    }
    for field in counts.iter().copied().filter(|field| number(field) > number("replicas")) {
        faults.push(errors::invalid(
            path.child(field),
            number(field),
            "cannot be greater than status.replicas",
        ));
    }
    if number("availableReplicas") > number("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        faults.push(errors::invalid(path.child("availableReplicas"), number("availableReplicas"), why));
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

    fn found(faults: &FieldErrors) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::none(json!(null), &["spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: {\"a\":\"1\"}: `selector` does not match template `labels`"])]
    #[case::everything(json!({}), &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"])]
    #[case::operator(json!({"matchExpressions": [{"key": "a", "operator": "X"}]}),
        &["spec.selector.matchExpressions[0].operator: Invalid value: \"X\": not a valid selector operator", "spec.selector: Invalid value"])]
    #[case::no_values(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        &["spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
          "spec.selector: Invalid value"])]
    #[case::values(json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]}),
        &["spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
          "spec.selector: Invalid value"])]
    #[case::key(json!({"matchLabels": {"a b": "1"}}), &["spec.selector.matchLabels: Invalid value: \"a b\"",
        "spec.selector: Invalid value: {\"matchLabels\":{\"a b\":\"1\"}}: invalid label selector"])]
    #[case::expression(json!({"matchExpressions": [{"key": "a b", "operator": "In", "values": ["-"]}]}),
        &["spec.selector.matchExpressions[0].key: Invalid value: \"a b\"", "spec.selector.matchExpressions[0].values[0]: Invalid value: \"-\"",
          "spec.selector: Invalid value"])]
    fn faults_of_selectors(#[case] selector: Value, #[case] expected: &[&str]) {
        let template = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let mut object = json!({"spec": {"selector": selector, "template": template}});
        default_common(&mut object);
        let found = found(&spec_faults(&object));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[rstest]
    #[case(json!({"metadata": {"labels": {"a": "1", "b c": "d"}, "annotations": {"e f": "g"}}}),
        &["spec.template.labels: Invalid value: \"b c\"", "spec.template.annotations: Invalid value: \"e f\""])]
    #[case(json!({"spec": {"activeDeadlineSeconds": 5, "restartPolicy": "Never"}}),
        &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
          "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"])]
    #[case(json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
        &["spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"])]
    fn faults_of_templates(#[case] change: Value, #[case] expected: &[&str]) {
        let mut template = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (part, fields) in change.as_object().unwrap() {
            for (field, value) in fields.as_object().unwrap() {
                template[part][field] = value.clone();
            }
        }
        let mut object = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "template": template}});
        default_common(&mut object);
        let found = found(&spec_faults(&object));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn a_status_counts_no_more_than_there_are() {
        let object = json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": -1}});
        let faults =
            status_faults(&object, &["replicas", "collisionCount"], &["readyReplicas", "availableReplicas"]);
        assert_eq!(
            found(&faults),
            [
                "status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ]
        );
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
