//! The OpenAPI documents (v3 per group, v2 as a whole) of the served kinds, built on first use.
//!
//! They say what `kubectl` asks of them: fields and descriptions (`explain`), merge keys (`apply`), and that writes
//! understand `fieldValidation` and `dryRun` (`create`). Clients that want v2 as protobuf (`kubectl` up to 1.28) read it
//! before anything else but look things up in v3; they get its head alone.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::registry::kinds;
use crate::registry::resource_info::ResourceInfo;

mod definitions;
mod operations;

/// A document with the hash that names its version.
#[derive(Clone, Debug)]
pub struct Document {
    /// The JSON text.
    pub body: Bytes,
    /// Hash of the text, for the `ETag` header and the `?hash=` of the index.
    pub hash: String,
    /// Its media type.
    pub media: &'static str,
}

/// What a client accepts that wants [`v2_protobuf`]; no valid media type, so the answer names another.
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

impl Document {
    fn of(value: &Value) -> Self {
        Self::new(Bytes::from(value.to_string()), "application/json")
    }

    fn new(body: Bytes, media: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        Document { hash: format!("{:016X}", hasher.finish()), body, media }
    }
}

/// The path of the document of a group's version.
fn document_path(info: &ResourceInfo) -> String {
    if info.group.is_empty() {
        format!("api/{}", info.version)
    } else {
        format!("apis/{}/{}", info.group, info.version)
    }
}

/// The version that `info` names; the one whose behaviour is served.
const VERSION: &str = "v1.36.2";

struct Documents {
    index: Document,
    v3: BTreeMap<String, Document>,
}

fn documents() -> &'static Documents {
    static DOCUMENTS: OnceLock<Documents> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let schemas = definitions::all(definitions::Dialect::V3);
        let entries = kinds::entries();
        let v3: BTreeMap<String, Document> = groups(&entries)
            .into_iter()
            .map(|(path, group)| (path, Document::of(&v3_document(group, &entries, &schemas))))
            .collect();
        let paths: serde_json::Map<String, Value> = v3
            .iter()
            .map(|(path, document)| {
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                (path.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        Documents { index: Document::of(&json!({"paths": paths})), v3 }
    })
}

/// The index at `/openapi/v3`.
pub fn v3_index() -> Document {
    documents().index.clone()
}

/// The document at `/openapi/v3/{path}`, where `path` is such as `api/v1` or `apis/apps/v1`.
pub fn v3(path: &str) -> Option<Document> {
    documents().v3.get(path).cloned()
}

/// The document at `/openapi/v2` as JSON.
pub fn v2() -> Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT
        .get_or_init(|| {
            let mut paths = serde_json::Map::new();
            let entries = kinds::entries();
            for group in groups(&entries).into_values() {
                paths.extend(operations::paths(group, &entries, definitions::Dialect::V2));
            }
            Document::of(&json!({
                "swagger": "2.0",
                "info": {"title": "Kubernetes", "version": VERSION},
                "paths": paths,
                "definitions": definitions::all(definitions::Dialect::V2),
            }))
        })
        .clone()
}

/// The groups by the paths of their documents.
fn groups(entries: &[ResourceInfo]) -> BTreeMap<String, &'static str> {
    entries.iter().map(|info| (document_path(info), info.group)).collect()
}

/// The head of the document at `/openapi/v2` as protobuf: its version and title, without paths and definitions.
pub fn v2_protobuf() -> Document {
    // Message `Document`: field 1 is `swagger`, 2 is `info`; of `Info`, 1 is `title` and 2 is `version`.
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap_or_default();
        [&[number << 3 | 2, length], content].concat()
    };
    let info = [field(1, b"Kubernetes"), field(2, VERSION.as_bytes())].concat();
    Document::new(
        [field(1, b"2.0"), field(2, &info)].concat().into(),
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    )
}

fn v3_document(group: &str, entries: &[ResourceInfo], schemas: &serde_json::Map<String, Value>) -> Value {
    let paths = operations::paths(group, entries, definitions::Dialect::V3);
    let schemas = definitions::reachable(&Value::Object(paths.clone()), schemas);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {
                    "description": "Bearer Token authentication", "in": "header", "name": "authorization",
                    "type": "apiKey"
                }
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parsed(document: &Document) -> Value {
        serde_json::from_slice(&document.body).unwrap()
    }

    #[test]
    fn the_index_names_each_document_with_its_hash() {
        let index = parsed(&v3_index());
        for path in documents().v3.keys() {
            let path = path.as_str();
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
            assert_eq!(url, format!("/openapi/v3/{path}?hash={}", v3(path).unwrap().hash));
        }
        assert!(v3("apis/batch/v1").is_none());
    }

    #[rstest]
    #[case("api/v1", "/api/v1/namespaces/{namespace}/services/{name}", "Service")]
    #[case("api/v1", "/api/v1/nodes/{name}", "Node")]
    #[case(
        "apis/discovery.k8s.io/v1",
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}",
        "EndpointSlice"
    )]
    #[case(
        "apis/networking.k8s.io/v1",
        "/apis/networking.k8s.io/v1/servicecidrs/{name}/status",
        "ServiceCIDR"
    )]
    fn writes_understand_field_validation(#[case] document: &str, #[case] path: &str, #[case] kind: &str) {
        let document = parsed(&v3(document).unwrap());
        let patch = &document["paths"][path]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], kind);
        let names: Vec<&str> =
            patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn lists_say_how_they_are_merged() {
        let document = parsed(&v3("api/v1").unwrap());
        let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.ServiceSpec"]["properties"];
        assert_eq!(spec["ports"]["x-kubernetes-list-type"], "map");
        assert_eq!(spec["ports"]["x-kubernetes-list-map-keys"], json!(["port", "protocol"]));
        assert_eq!(spec["ports"]["x-kubernetes-patch-merge-key"], "port");
        assert_eq!(spec["ports"]["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(spec["selector"]["x-kubernetes-map-type"], "atomic");
        assert_eq!(spec["externalIPs"]["x-kubernetes-list-type"], "atomic");
        let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(pod["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
        let service = &document["components"]["schemas"]["io.k8s.api.core.v1.Service"];
        assert_eq!(
            service["x-kubernetes-group-version-kind"],
            json!([{"group": "", "version": "v1", "kind": "Service"}])
        );
        assert!(service["description"].as_str().unwrap().starts_with("Service is a named abstraction"));
    }

    #[test]
    fn the_head_for_old_clients_is_a_message() {
        let document = v2_protobuf();
        assert_eq!(&document.body[..], b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2".as_slice());
    }

    #[rstest]
    #[case(true)]
    #[case(false)]
    fn every_reference_leads_somewhere(#[case] third: bool) {
        fn references<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
            match value {
                Value::Object(map) => {
                    out.extend(map.get("$ref").and_then(Value::as_str));
                    map.values().for_each(|v| references(v, out));
                }
                Value::Array(items) => items.iter().for_each(|v| references(v, out)),
                _ => {}
            }
        }
        let documents: Vec<Value> =
            if third { documents().v3.values().map(parsed).collect() } else { vec![parsed(&v2())] };
        for document in documents {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }
}
