//! Deployment: defaults and update rules; who acts on it is `workloads`.

use serde_json::{Value, json};
use service_api::errors::FieldErrors;

use super::fields::{bump_generation, default_fields, default_texts, keep, set_generation, text};
use super::workload;
use crate::registry::strategy::{Strategy, Subresource};

/// The rules of Deployment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deployment;

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
        workload::create_faults(obj)
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
        workload::update_faults(new, old, sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
