//! What is committed under `manifests/crds` is what the types say, and its CEL rules decide as the Rust rules do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use kube_cel::{ValidationErrors, Validator};
use kube_core::CustomResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use service_api::crds::{self, NodePort, NodePortRange, ServicePool, nodeport, nodeportrange, servicepool};

/// `UPDATE_MANIFESTS=1 cargo test -p service-api --test definitions` writes them anew.
#[test]
fn the_committed_definitions_are_current() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds");
    for definition in crds::definitions() {
        let file = directory.join(format!("{}.yaml", definition.spec.names.plural));
        let text = serde_saphyr::to_string(&serde_json::to_value(&definition).unwrap()).unwrap();
        if std::env::var_os("UPDATE_MANIFESTS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            committed,
            text,
            "{} is not current: UPDATE_MANIFESTS=1 cargo test -p service-api --test definitions",
            file.display()
        );
    }
}

/// The API server reads a rule that does not compile as a broken definition.
#[test]
fn the_api_server_would_take_them() {
    for definition in crds::definitions() {
        let name = definition.metadata.name.clone().unwrap();
        assert_eq!(name, format!("{}.{}", definition.spec.names.plural, crds::GROUP));
        assert_eq!(definition.spec.scope, "Cluster");
        let [version] = &definition.spec.versions[..] else { panic!("{name} has several versions") };
        assert_eq!((version.name.as_str(), version.served, version.storage), (crds::VERSION, true, true));
        let schema = serde_json::to_value(version.schema.as_ref().unwrap()).unwrap();
        structural(&schema["openAPIV3Schema"], &name);
    }
}

/// What a structural schema must be: a type at every place, no references, no more than one of them.
fn structural(schema: &Value, at: &str) {
    assert!(
        schema.get("type").is_some() || schema.get("x-kubernetes-int-or-string").is_some(),
        "{at}: no type"
    );
    assert!(schema.get("$ref").is_none() && schema.get("oneOf").is_none(), "{at}: {schema}");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        structural(property, &format!("{at}.{name}"));
    }
    if let Some(items) = schema.get("items") {
        structural(items, &format!("{at}[]"));
    }
}

/// What the API server's rules say of a new object.
fn judge<T: CustomResourceExt + Serialize>(object: &T) -> Result<(), ValidationErrors> {
    run_rules::<T>(&serde_json::to_value(object).unwrap(), None)
}

/// What they say of an update.
fn judge_update<T: CustomResourceExt + Serialize>(new: &T, old: &T) -> Result<(), ValidationErrors> {
    run_rules::<T>(&serde_json::to_value(new).unwrap(), Some(&serde_json::to_value(old).unwrap()))
}

fn run_rules<T: CustomResourceExt>(new: &Value, old: Option<&Value>) -> Result<(), ValidationErrors> {
    let definition = serde_json::to_value(T::crd()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Validator::new().validate(schema, new, old)
}

fn messages(verdict: Result<(), ValidationErrors>) -> Vec<String> {
    verdict.err().into_iter().flatten().map(|error| error.to_string()).collect()
}

fn nodeport_named(name: &str, parent: &str) -> NodePort {
    serde_json::from_value(json!({
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": parent}, "protocols": ["TCP"]},
    }))
    .unwrap()
}

#[test]
fn both_read_the_name_of_a_port_alike() {
    for name in [
        "30080",
        "1",
        "65535",
        "65536",
        "0",
        "030080",
        "30053-udp",
        "30053-icmp",
        "30053-",
        "web",
        "999999999",
    ] {
        let port = nodeport_named(name, "web");
        let ours = nodeport::validate_create(&port).is_empty();
        let verdict = judge(&port);
        assert_eq!(verdict.is_ok(), ours, "{name}: {:?}", messages(verdict));
    }
}

#[test]
fn both_keep_the_holder_of_a_port() {
    let (old, other) = (nodeport_named("30080", "web"), nodeport_named("30080", "api"));
    assert!(judge_update(&old, &old).is_ok());
    assert!(judge_update(&other, &old).is_err());
    assert!(!nodeport::validate_update(&other, &old).is_empty());
}

#[test]
fn both_judge_a_range_alike() {
    let range = |first: i32, last: i32, band: Option<i32>| -> NodePortRange {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "resourceVersion": "1"},
            "spec": {"firstPort": first, "lastPort": last, "lowerBand": band},
        }))
        .unwrap()
    };
    let old = range(30000, 32767, None);
    for (first, last, band) in
        [(30000, 32767, None), (30000, 30000, Some(1)), (30001, 30000, None), (30000, 30009, Some(11))]
    {
        let new = range(first, last, band);
        let verdict = judge(&new);
        assert_eq!(
            verdict.is_ok(),
            nodeportrange::validate_create(&new).is_empty(),
            "{:?}",
            messages(verdict)
        );
        let verdict = judge_update(&new, &old);
        let ours = nodeportrange::validate_update(&new, &old).is_empty();
        assert_eq!(verdict.is_ok(), ours, "{:?}", messages(verdict));
    }
}

#[test]
fn both_judge_a_pool_alike() {
    let reserved = |value: Value| json!({"addresses": ["10.0.0.0/8"], "reservations": [value]});
    let specs = [
        json!({"addresses": ["10.96.16.0/24", "fd00::/112"]}),
        json!({"nodePorts": [{"firstPort": 31000, "lastPort": 31099}]}),
        json!({"nodePorts": [{"firstPort": 31000, "lastPort": 30099}]}),
        json!({}),
        json!({"addresses": ["10.96.16.1/24"]}),
        json!({"addresses": ["10.96.16.1"]}),
        json!({"addresses": ["x"]}),
        reserved(json!({"address": "10.0.0.9", "namespace": "a", "name": "b"})),
        reserved(json!({"nodePort": 30009, "namespace": "a", "name": "b"})),
        reserved(json!({"namespace": "a", "name": "b"})),
        reserved(json!({"address": "10.0.0.9", "nodePort": 30009, "namespace": "a", "name": "b"})),
    ];
    for spec in specs {
        let pool: ServicePool =
            serde_json::from_value(json!({"metadata": {"name": "gold"}, "spec": spec})).unwrap();
        let verdict = judge(&pool);
        let ours = servicepool::validate_create(&pool).is_empty();
        assert_eq!(verdict.is_ok(), ours, "{spec}: {:?}", messages(verdict));
    }
}
