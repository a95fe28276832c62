//! Deployment: defaults and update rules; who acts on it is `workloads`.

use serde_json::{Value, json};
use service_api::errors::{self, BadValue, FieldErrors, Path};

use super::fields::{bump_generation, default_fields, default_texts, keep, set_generation, text};
use super::workload;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of Deployment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deployment;

/// The numbers of a status.
const STATUS: [&str; 7] = [
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "collisionCount",
];

/// Those of them that count some of the replicas.
const COUNTS: [&str; 3] = ["updatedReplicas", "readyReplicas", "availableReplicas"];

impl Strategy for Deployment {
    fn default(&self, obj: &mut Value) {
        workload::default_common(obj);
        let Some(spec) = obj.get_mut("spec") else { return };
        default_fields(
            spec,
            [
                ("strategy", json!({})),
                ("revisionHistoryLimit", json!(10)),
                ("progressDeadlineSeconds", json!(600)),
            ],
        );
        let Some(strategy) = spec.get_mut("strategy") else { return };
        default_texts(strategy, [("type", "RollingUpdate")]);
        if text(strategy, "/type") == "RollingUpdate" {
            default_fields(strategy, [("rollingUpdate", json!({}))]);
            if let Some(rolling) = strategy.get_mut("rollingUpdate") {
                default_fields(rolling, [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
            }
        }
    }

    fn prepare_create(&self, obj: &mut Value) {
        obj["status"] = json!({});
        set_generation(obj, 1);
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = workload::create_faults(obj);
        faults.extend(strategy_faults(obj));
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, sub: Subresource) -> Vec<String> {
        workload::warnings(new, sub)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, sub: Subresource) {
        if sub == Subresource::Status {
            keep(new, old, "spec");
            super::fields::keep_metadata(new, old, "labels");
            super::fields::keep_metadata(new, old, "generation");
            return;
        }
        keep(new, old, "status");
        let annotations = |obj: &Value| obj.pointer("/metadata/annotations").cloned();
        let changed = new.get("spec") != old.get("spec") || annotations(new) != annotations(old);
        bump_generation(new, old, changed);
    }

    fn validate_update(&self, new: &Value, old: &Value, sub: Subresource) -> FieldErrors {
        let mut faults = workload::update_faults(new, old, sub, &STATUS, &COUNTS);
        if sub != Subresource::Status && new.get("spec") != old.get("spec") {
            faults.extend(strategy_faults(new));
        }
        faults
    }
}

/// How pods are replaced, and within which times.
fn strategy_faults(obj: &Value) -> FieldErrors {
    let path = Path::root("spec").child("strategy");
    let mut faults = FieldErrors::new();
    let strategy = obj.pointer("/spec/strategy").unwrap_or(&Value::Null);
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match (text(strategy, "/type"), rolling) {
        ("Recreate", Some(_)) => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            faults.push(errors::forbidden(path.child("rollingUpdate"), why));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", rolling) => {
            rolling_faults(rolling.unwrap_or(&Value::Null), &path.child("rollingUpdate"), &mut faults);
        }
        _ => {
            faults.push(errors::not_supported(
                path,
                BadValue::json(strategy),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
    let number = |field: &str| obj.pointer(&format!("/spec/{field}")).and_then(Value::as_i64);
    for field in ["revisionHistoryLimit", "progressDeadlineSeconds"] {
        if let Some(negative) = number(field).filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            faults.push(errors::invalid(Path::root("spec").child(field), negative, why));
        }
    }
    let ready = number("minReadySeconds").unwrap_or_default();
    if let Some(deadline) = number("progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        let why = "must be greater than minReadySeconds";
        faults.push(errors::invalid("spec.progressDeadlineSeconds", deadline, why));
    }
    faults
}

fn rolling_faults(rolling: &Value, path: &Path, faults: &mut FieldErrors) {
    for field in ["maxUnavailable", "maxSurge"] {
        let path = path.child(field);
        match rolling.get(field) {
            Some(Value::String(text)) if percent(text).is_none() => {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
                faults.push(errors::invalid(path, BadValue::named(text), why));
            }
            Some(value) => {
                if let Some(negative) = value.as_i64().filter(|number| *number < 0) {
                    faults.push(errors::invalid(path, negative, "must be greater than or equal to 0"));
                }
            }
            None => {}
        }
    }
    let shown = BadValue::json(&rolling["maxUnavailable"]);
    if is_nothing(&rolling["maxUnavailable"]) && is_nothing(&rolling["maxSurge"]) {
        let why = "may not be 0 when `maxSurge` is 0";
        faults.push(errors::invalid(path.child("maxUnavailable"), shown.clone(), why));
    }
    if rolling["maxUnavailable"].as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        faults.push(errors::invalid(path.child("maxUnavailable"), shown, "must not be greater than 100%"));
    }
}

/// The number of a text such as `25%`.
fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Neither a number but 0 nor a percentage but 0%; what is malformed counts as nothing.
fn is_nothing(value: &Value) -> bool {
    value.as_i64().unwrap_or_default() == 0 && value.as_str().and_then(percent).unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}), &[])]
    #[case(json!({"type": "Recreate"}), &[])]
    #[case(json!({"type": "Recreate", "rollingUpdate": {}}),
        &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"])]
    #[case(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "2Gi"}}),
        &["spec.strategy.rollingUpdate.maxSurge: Invalid value: \"2Gi\": a valid percent string must be a numeric string \
           followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"])]
    #[case(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}),
        &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"])]
    #[case(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "101%", "maxSurge": -1}}),
        &["spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0",
          "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"])]
    #[case(json!({"type": "X"}),
        &["spec.strategy: Unsupported value: {\"type\":\"X\"}: supported values: \"Recreate\", \"RollingUpdate\""])]
    fn strategies(#[case] strategy: Value, #[case] expected: &[&str]) {
        let faults = strategy_faults(&json!({"spec": {"strategy": strategy}}));
        let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    fn sample() -> Value {
        json!({
            "metadata": {"name": "d", "namespace": "n"},
            "spec": {
                "selector": {"matchLabels": {"a": "1"}},
                "template": {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
            }
        })
    }

    #[test]
    fn a_rolling_update_is_the_default() {
        let mut object = sample();
        Deployment.default(&mut object);
        assert_eq!(
            object["spec"]["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        assert_eq!(object["spec"]["replicas"], json!(1));
        assert_eq!(object["spec"]["template"]["spec"]["restartPolicy"], json!("Always"));
    }

    #[test]
    fn only_a_changed_spec_is_a_new_generation() {
        let mut old = sample();
        Deployment.prepare_create(&mut old);
        let mut same = old.clone();
        Deployment.prepare_update(&mut same, &old, Subresource::None);
        assert_eq!(same["metadata"]["generation"], json!(1));
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(5);
        Deployment.prepare_update(&mut new, &old, Subresource::Scale);
        assert_eq!(new["metadata"]["generation"], json!(2));
    }

    #[test]
    fn the_selector_must_fit_and_stay() {
        let mut old = sample();
        Deployment.default(&mut old);
        old["metadata"]["resourceVersion"] = json!("1");
        let mut new = old.clone();
        new["spec"]["selector"] = json!({"matchLabels": {"a": "2"}});
        assert_eq!(Deployment.validate_create(&old), []);
        let faults = |sub| Deployment.validate_update(&new, &old, sub);
        let fields: Vec<String> = faults(Subresource::None).into_iter().map(|fault| fault.field).collect();
        assert_eq!(fields, ["spec.template.metadata.labels", "spec.selector"]);
        assert_eq!(faults(Subresource::Status), []);
    }
}
