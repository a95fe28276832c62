//! The paths of the documents: what can be done with each resource, and with which parameters.

use serde_json::{Map, Value, json};

use super::definitions::{Dialect, group_version_kind, list_id};
use crate::registry::resource_info::{ResourceInfo, Scope, Verb};
use crate::schema::{self, KindSchema};

/// The paths of the resources of `entries` that belong to a group.
pub(super) fn paths(group: &str, entries: &[ResourceInfo], dialect: Dialect) -> Map<String, Value> {
    let mut paths = Map::new();
    for info in entries.iter().filter(|info| info.group == group) {
        let Some(kind) = schema::find(group, info.version, info.kind) else { continue };
        let root = match group {
            "" => format!("/api/{}", info.version),
            _ => format!("/apis/{group}/{}", info.version),
        };
        let resource = info.resource;
        let namespaced = info.scope == Scope::Namespaced;
        let mut base = format!("{root}/{resource}");
        if namespaced {
            paths.insert(base, item(kind, kind, &[Verb::List], &COLLECTION, &[], dialect));
            base = format!("{root}/namespaces/{{namespace}}/{resource}");
        }
        let place: &[&str] = if namespaced { &["namespace"] } else { &[] };
        let named: &[&str] = if namespaced { &["name", "namespace"] } else { &["name"] };
        paths.insert(base.clone(), item(kind, kind, info.verbs, &COLLECTION, place, dialect));
        paths.insert(format!("{base}/{{name}}"), item(kind, kind, info.verbs, &OBJECT, named, dialect));
        for sub in info.subresources {
            let body = match sub.kind {
                None => Some(kind),
                Some((group, version, kind)) => schema::find(group, version, kind),
            };
            if let Some(body) = body {
                let path = format!("{base}/{{name}}/{}", sub.name);
                paths.insert(path, item(kind, body, sub.verbs, &SUBRESOURCE, named, dialect));
            }
        }
    }
    paths
}

/// A verb, the HTTP method it has on a path, and its name in the extension.
type Method = (Verb, &'static str, &'static str);

const COLLECTION: [Method; 3] = [
    (Verb::List, "get", "list"),
    (Verb::Create, "post", "post"),
    (Verb::DeleteCollection, "delete", "deletecollection"),
];
const OBJECT: [Method; 4] = [
    (Verb::Get, "get", "get"),
    (Verb::Update, "put", "put"),
    (Verb::Patch, "patch", "patch"),
    (Verb::Delete, "delete", "delete"),
];
const SUBRESOURCE: [Method; 4] = [
    (Verb::Get, "get", "get"),
    (Verb::Update, "put", "put"),
    (Verb::Patch, "patch", "patch"),
    (Verb::Create, "post", "post"),
];

/// The operations that `verbs` allow on one path. `body` is the kind that travels where it is not the resource's own.
fn item(
    kind: &'static KindSchema,
    body: &'static KindSchema,
    verbs: &[Verb],
    methods: &[Method],
    place: &[&str],
    dialect: Dialect,
) -> Value {
    let mut out = json!({"parameters": path_parameters(place, dialect)});
    for (verb, method, action) in methods.iter().filter(|(verb, ..)| verbs.contains(verb)) {
        out[*method] = operation(kind, body, *verb, action, dialect);
    }
    out
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS_ID: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH_ID: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// A query parameter: name, type, what it does.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = ("dryRun", "string", "With `All` nothing is stored; everything else happens.");
const FIELD_MANAGER: Parameter =
    ("fieldManager", "string", "The name of who makes the change, for `managedFields`.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What becomes of unknown and duplicate fields: `Ignore`, `Warn` or `Strict`.",
);
const FORCE: Parameter = ("force", "boolean", "An apply takes over fields that others own.");

const CREATE: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const DELETE: [Parameter; 3] = [
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "Seconds until the object is deleted; 0 deletes at once."),
    ("propagationPolicy", "string", "What becomes of dependents: `Orphan`, `Background` or `Foreground`."),
];
const LIST: [Parameter; 10] = [
    ("allowWatchBookmarks", "boolean", "The watch may send bookmarks."),
    ("continue", "string", "The token of the previous page."),
    ("fieldSelector", "string", "Only objects whose fields fit."),
    ("labelSelector", "string", "Only objects whose labels fit."),
    ("limit", "integer", "At most this many objects a page."),
    ("resourceVersion", "string", "How old the answer may be."),
    ("resourceVersionMatch", "string", "How `resourceVersion` is meant."),
    ("sendInitialEvents", "boolean", "The watch begins with the objects that are there."),
    ("timeoutSeconds", "integer", "How long a list or watch may take."),
    ("watch", "boolean", "Stream changes instead of listing."),
];

fn operation(
    kind: &'static KindSchema,
    body_kind: &'static KindSchema,
    verb: Verb,
    action: &str,
    dialect: Dialect,
) -> Value {
    let (own, list) = (body_kind.root().id, list_id(kind));
    let (parameters, body, answer): (&[Parameter], Option<&str>, &str) = match verb {
        Verb::List | Verb::Watch => (&LIST, None, &list),
        Verb::Create | Verb::Update => (&CREATE, Some(own), own),
        Verb::Patch => (&PATCH, Some(PATCH_ID), own),
        Verb::Delete => (&DELETE, Some(DELETE_OPTIONS), STATUS_ID),
        Verb::DeleteCollection => (&LIST, Some(DELETE_OPTIONS), STATUS_ID),
        Verb::Get => (&[], None, own),
    };
    let mut listed: Vec<Value> = parameters.iter().map(|p| query(p, dialect)).collect();
    let media = if action == "patch" {
        [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ]
        .as_slice()
    } else {
        &["*/*"]
    };
    let mut out = json!({
        "description": format!("{action} {}", kind.kind),
        "tags": [tag(kind)],
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(body_kind, body_kind.kind),
    });
    match dialect {
        Dialect::V2 => {
            if let Some(id) = body {
                listed.push(
                    json!({"name": "body", "in": "body", "required": true, "schema": dialect.reference(id)}),
                );
                out["consumes"] = json!(media);
            }
            out["produces"] = json!(["application/json", "application/yaml"]);
            out["responses"] = json!({"200": {"description": "OK", "schema": dialect.reference(answer)}});
        }
        Dialect::V3 => {
            if let Some(id) = body {
                let content: Map<String, Value> = media
                    .iter()
                    .map(|m| ((*m).to_owned(), json!({"schema": dialect.reference(id)})))
                    .collect();
                out["requestBody"] = json!({"content": content});
            }
            let answer = json!({"schema": dialect.reference(answer)});
            out["responses"] = json!({"200": {
                "description": "OK", "content": {"application/json": answer, "application/yaml": answer}
            }});
        }
    }
    if !listed.is_empty() {
        out["parameters"] = listed.into();
    }
    out
}

fn tag(kind: &KindSchema) -> String {
    let group = kind.group.split('.').next().unwrap_or_default();
    format!("{}_{}", if group.is_empty() { "core" } else { group }, kind.version)
}

fn query((name, ty, description): &Parameter, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V2 => {
            json!({"name": name, "in": "query", "description": description, "type": ty, "uniqueItems": true})
        }
        Dialect::V3 => json!({
            "name": name, "in": "query", "description": description, "schema": {"type": ty, "uniqueItems": true}
        }),
    }
}

fn path_parameters(names: &[&str], dialect: Dialect) -> Value {
    let all = names.iter().map(|name| {
        let description = format!("The {name} of the object.");
        match dialect {
            Dialect::V2 => {
                json!({"name": name, "in": "path", "required": true, "description": description, "type": "string"})
            }
            Dialect::V3 => json!({
                "name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"}
            }),
        }
    });
    all.chain([query(&("pretty", "string", "Indent the answer."), dialect)]).collect()
}
