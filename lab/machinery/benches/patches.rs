//! What one write costs before it reaches the store: decoding, ownership of fields, patches. Sizes are in the names.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use serde_json::{Value, json};
use service_lab_machinery::decode::{FieldValidation, Media, decode};
use service_lab_machinery::managed_fields::{UpdateContext, track_update};
use service_lab_machinery::patch::apply::{ApplyContext, apply};
use service_lab_machinery::patch::{PatchForm, patch};
use service_lab_machinery::schema::{self, KindSchema};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "type": "NodePort", "selector": {"app": "web"}, "sessionAffinity": "None",
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080},
                {"name": "https", "protocol": "TCP", "port": 443, "targetPort": "tls"}
            ],
            "internalTrafficPolicy": "Cluster"
        }
    })
}

fn pod() -> Value {
    let container = |n: u32| {
        json!({
            "name": format!("c{n}"), "image": "registry.test/web:1", "imagePullPolicy": "IfNotPresent",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}]
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "containers": [container(1), container(2)],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
            "nodeName": "node-1", "restartPolicy": "Always", "tolerations": [{"key": "a", "operator": "Exists"}]
        }
    })
}

fn created(kind: &'static KindSchema, body: &[u8]) -> Value {
    let mut object = decode(kind, body, Media::Json, FieldValidation::Warn).unwrap().value;
    track_update(kind, None, &mut object, &UpdateContext { manager: "bench", subresource: None, now: NOW });
    object
}

fn one_kind(c: &mut Criterion, name: &str, object: &Value, change: &Value) {
    let kind = schema::find("", "v1", object["kind"].as_str().unwrap()).unwrap();
    let body = object.to_string().into_bytes();
    let decoded = decode(kind, &body, Media::Json, FieldValidation::Warn).unwrap().value;
    let live = created(kind, &body);
    let size = body.len();
    let context = UpdateContext { manager: "bench", subresource: None, now: NOW };
    c.bench_function(&format!("decode/{name}/{size}B"), |b| {
        b.iter(|| decode(kind, black_box(&body), Media::Json, FieldValidation::Warn).unwrap());
    });
    c.bench_function(&format!("clone/{name}/{size}B"), |b| b.iter(|| black_box(&decoded).clone()));
    c.bench_function(&format!("track create, with a clone/{name}/{size}B"), |b| {
        b.iter(|| {
            let mut new = decoded.clone();
            track_update(kind, None, &mut new, &context);
            new
        });
    });
    c.bench_function(&format!("track no change, with a clone/{name}/{size}B"), |b| {
        b.iter(|| {
            let mut new = live.clone();
            track_update(kind, Some(&live), &mut new, &context);
            new
        });
    });
    let patch_body = change.to_string().into_bytes();
    c.bench_function(&format!("strategic merge and track/{name}/{size}B"), |b| {
        b.iter(|| {
            let patched =
                patch(kind, &live, PatchForm::Strategic, black_box(&patch_body), FieldValidation::Warn);
            let mut new = patched.unwrap().value;
            track_update(kind, Some(&live), &mut new, &context);
            new
        });
    });
    let apply_context = ApplyContext {
        manager: "bench",
        subresource: None,
        force: true,
        now: NOW,
        validation: FieldValidation::Warn,
    };
    c.bench_function(&format!("apply/{name}/{size}B"), |b| {
        b.iter(|| apply(kind, Some(&live), black_box(&body), &apply_context).unwrap());
    });
}

fn patches(c: &mut Criterion) {
    one_kind(c, "service", &service(), &json!({"spec": {"ports": [{"port": 80, "targetPort": 8081}]}}));
    one_kind(
        c,
        "pod",
        &pod(),
        &json!({"spec": {"containers": [{"name": "c1", "image": "registry.test/web:2"}]}}),
    );
}

criterion_group!(benches, patches);
criterion_main!(benches);
