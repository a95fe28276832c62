//! What is fuzzed: a way to make an input, and what takes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rand::rngs::StdRng;
use serde_json::{Value, json};
use service_lab_machinery::decode::{FieldValidation, Media, decode};
use service_lab_machinery::patch::apply::{ApplyContext, apply};
use service_lab_machinery::patch::{PatchForm, patch};
use service_lab_machinery::schema::{self, KindSchema};

use crate::{bodies, queries, requests};

/// One decoder.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) input: fn(&mut StdRng) -> Vec<u8>,
    pub(crate) run: fn(&[u8]),
    /// Memory that a request of no size may take.
    pub(crate) base: usize,
    /// The size of the object that is changed.
    pub(crate) beside: usize,
}

pub(crate) fn targets() -> Vec<Target> {
    let beside = live().to_string().len();
    let target = |name, input, run| Target { name, input, run, base: 16 << 20, beside };
    vec![
        target("json", bodies::json_body, |body| decoded(body, Media::Json)),
        target("yaml", bodies::yaml_body, |body| decoded(body, Media::Yaml)),
        target("protobuf", bodies::protobuf_body, |body| decoded(body, Media::Protobuf)),
        Target {
            // Copies may add 3 MiB of JSON, as upstream, whatever the size of the patch.
            base: 96 << 20,
            ..target("json-patch", bodies::json_patch, |body| patched(body, PatchForm::Json))
        },
        target("merge-patch", bodies::json_body, |body| patched(body, PatchForm::Merge)),
        target("strategic-merge-patch", bodies::strategic_patch, |body| patched(body, PatchForm::Strategic)),
        target("apply", bodies::json_body, applied),
        target("apply-yaml", bodies::yaml_body, applied),
        target("label-selector", queries::label_selector, labels_selected),
        target("field-selector", queries::field_selector, fields_selected),
        target("continue-token", queries::continue_token, requests::list),
        target("query", queries::query, requests::list),
        target("accept", queries::accept, requests::accept),
        target("create", bodies::json_body, requests::create),
        target("create-yaml", bodies::yaml_body, requests::create_yaml),
        Target { base: 96 << 20, ..target("change", bodies::json_patch, requests::change) },
        target("review", bodies::json_body, requests::review),
        target("delete-options", bodies::json_body, requests::delete),
    ]
}

fn kinds() -> [&'static KindSchema; 4] {
    let kind = |group, version, kind| schema::find(group, version, kind).unwrap();
    [
        kind("", "v1", "Service"),
        kind("", "v1", "ConfigMap"),
        kind("", "v1", "Pod"),
        kind("discovery.k8s.io", "v1", "EndpointSlice"),
    ]
}

/// A Service with several ports, owners and managers.
pub(crate) fn live() -> Value {
    let entry = |manager: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
               "fieldsType": "FieldsV1",
               "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}})
    };
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "a", "namespace": "default", "labels": {"a": "b"}, "annotations": {"x": "y".repeat(200)},
            "finalizers": ["a/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
            "managedFields": [entry("one"), entry("two")],
        },
        "spec": {"ports": [{"name": "w", "port": 80, "protocol": "TCP"}, {"name": "u", "port": 80, "protocol": "UDP"}],
                 "selector": {"a": "b"}, "type": "ClusterIP"},
    })
}

fn decoded(body: &[u8], media: Media) {
    for kind in kinds() {
        for validation in [FieldValidation::Strict, FieldValidation::Warn] {
            answered(decode(kind, body, media, validation).err());
        }
    }
}

fn patched(body: &[u8], form: PatchForm) {
    answered(patch(kinds()[0], &live(), form, body, FieldValidation::Strict).err());
}

fn applied(body: &[u8]) {
    let context = ApplyContext {
        manager: "kubectl",
        subresource: None,
        force: false,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        validation: FieldValidation::Strict,
    };
    answered(apply(kinds()[0], Some(&live()), body, &context).err());
    answered(apply(kinds()[0], None, body, &ApplyContext { force: true, ..context }).err());
}

fn labels_selected(body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    match service_api::labels::Selector::parse(&text) {
        Ok(selector) => {
            selector.matches(&BTreeMap::from([("a0".to_owned(), "b".to_owned())]));
        }
        Err(error) => short(&error, body),
    }
}

fn fields_selected(body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    let parsed = service_api::fields::Selector::parse(&text).and_then(|mut selector| {
        selector.check("Pod")?;
        Ok(selector)
    });
    match parsed {
        Ok(selector) => {
            selector.matches(|field| Cow::Owned(field.to_owned()));
        }
        Err(error) => short(&error, body),
    }
}

/// What a selector is refused with is not longer than a few times the selector.
fn short(error: &dyn std::fmt::Display, selector: &[u8]) {
    let length = error.to_string().len();
    assert!(length < (64 << 10) + 8 * selector.len(), "an answer of {length} bytes");
}

/// An answer is no longer than a message may be, with its causes.
fn answered<S: serde::Serialize>(refused: Option<S>) {
    if let Some(status) = refused {
        let length = serde_json::to_vec(&status).unwrap().len();
        assert!(length < 1 << 20, "an answer of {length} bytes");
    }
}
