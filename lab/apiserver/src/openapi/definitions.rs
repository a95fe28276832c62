//! The schemas of the documents: those of `k8s-openapi` with the marks that its schemas lack.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::schema::{self, Field, KindSchema, ListKind, Omit, Scalar, StructType, Type};

/// The two forms of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    fn prefix(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }

    /// A reference to a schema.
    pub(super) fn reference(self, id: &str) -> Value {
        json!({"$ref": format!("{}{id}", self.prefix())})
    }
}

/// The kinds that have a list of their own.
fn has_list(kind: &KindSchema) -> bool {
    !matches!(kind.kind, "Binding" | "Status" | "DeleteOptions" | "Scale")
}

/// The OpenAPI name of a kind's list.
pub(super) fn list_id(kind: &'static KindSchema) -> String {
    format!("{}List", kind.root().id)
}

/// All schemas by name.
pub(super) fn all(dialect: Dialect) -> Map<String, Value> {
    let mut all = schema::definitions();
    for definition in all.values_mut() {
        rewrite(definition, dialect);
    }
    for kind in schema::kinds() {
        if has_list(kind) {
            all.insert(list_id(kind), list_schema(kind, dialect));
        }
        if let Some(definition) = all.get_mut(kind.root().id) {
            definition["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind, kind.kind)]);
        }
    }
    let patch = json!({
        "description": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.",
        "type": "object",
    });
    all.insert("io.k8s.apimachinery.pkg.apis.meta.v1.Patch".to_owned(), patch);
    let mut seen = BTreeSet::new();
    for kind in schema::kinds() {
        mark(kind.root(), &mut all, &mut seen, dialect);
    }
    all
}

/// Those of `schemas` that `value` refers to, directly or not.
pub(super) fn reachable(value: &Value, schemas: &Map<String, Value>) -> Map<String, Value> {
    fn visit(value: &Value, schemas: &Map<String, Value>, out: &mut Map<String, Value>) {
        match value {
            Value::Object(map) => {
                if let Some(id) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next())
                    && !out.contains_key(id)
                    && let Some(schema) = schemas.get(id)
                {
                    out.insert(id.to_owned(), schema.clone());
                    visit(schema, schemas, out);
                }
                map.values().for_each(|value| visit(value, schemas, out));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(value, schemas, out)),
            _ => {}
        }
    }
    let mut out = Map::new();
    visit(value, schemas, &mut out);
    out
}

/// Group, version and kind as the extension has them.
pub(super) fn group_version_kind(kind: &KindSchema, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}

/// Points references into the document; in v3 a reference with siblings is wrapped, as 3.0 has no siblings.
fn rewrite(value: &mut Value, dialect: Dialect) {
    match value {
        Value::Object(map) => {
            if let Some(id) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
                let reference = dialect.reference(id);
                if dialect == Dialect::V3 && map.len() > 1 {
                    map.remove("$ref");
                    map.insert("allOf".to_owned(), json!([reference]));
                } else {
                    map.insert("$ref".to_owned(), reference["$ref"].clone());
                }
                return;
            }
            map.values_mut().for_each(|value| rewrite(value, dialect));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rewrite(value, dialect)),
        _ => {}
    }
}

fn list_schema(kind: &'static KindSchema, dialect: Dialect) -> Value {
    let text = |description: &str| json!({"description": description, "type": "string"});
    let mut metadata = json!({"description": "Standard list metadata."});
    let reference = dialect.reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta");
    match dialect {
        Dialect::V2 => metadata["$ref"] = reference["$ref"].clone(),
        Dialect::V3 => metadata["allOf"] = json!([reference]),
    }
    json!({
        "description": format!("{0}List is a list of {0} objects.", kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text("APIVersion defines the versioned schema of this representation of an object."),
            "items": {
                "description": "The objects.", "type": "array", "items": dialect.reference(kind.root().id)
            },
            "kind": text("Kind is a string value representing the REST resource this object represents."),
            "metadata": metadata,
        },
        "x-kubernetes-group-version-kind": [group_version_kind(kind, &format!("{}List", kind.kind))],
    })
}

/// Adds the extensions to a struct and all that it holds.
fn mark(
    strukt: &'static StructType,
    all: &mut Map<String, Value>,
    seen: &mut BTreeSet<&'static str>,
    dialect: Dialect,
) {
    if !seen.insert(strukt.id) {
        return;
    }
    if let Some(definition) = all.get_mut(strukt.id) {
        if strukt.atomic {
            definition["x-kubernetes-map-type"] = "atomic".into();
        }
        for field in &strukt.fields {
            if let Some(property) = definition["properties"].get_mut(field.name) {
                mark_field(field, property, dialect);
            }
        }
    }
    for field in &strukt.fields {
        if let Some(inner) = innermost(&field.ty) {
            mark(inner, all, seen, dialect);
        }
    }
}

fn innermost(ty: &'static Type) -> Option<&'static StructType> {
    match ty {
        Type::Struct(_) => ty.as_struct(),
        Type::List(list) => innermost(&list.item),
        Type::Map(map) => innermost(&map.value),
        Type::Scalar(..) => None,
    }
}

fn mark_field(field: &Field, property: &mut Value, dialect: Dialect) {
    match &field.ty {
        Type::List(list) => {
            let kind = match &list.kind {
                ListKind::Atomic => "atomic",
                ListKind::Set => "set",
                ListKind::Map(keys) => {
                    property["x-kubernetes-list-map-keys"] = json!(keys);
                    "map"
                }
            };
            property["x-kubernetes-list-type"] = kind.into();
        }
        Type::Map(map) if map.atomic => property["x-kubernetes-map-type"] = "atomic".into(),
        _ => {}
    }
    let mut strategy = Vec::new();
    if let Some(key) = field.merge.key {
        strategy.push("merge");
        if !key.is_empty() {
            property["x-kubernetes-patch-merge-key"] = key.into();
        }
    }
    if field.merge.retain_keys {
        strategy.push("retainKeys");
    }
    if !strategy.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategy.join(",").into();
    }
    if let Some(default) = default_of(field, dialect) {
        property["default"] = default;
    }
}

/// The default that a document names: that of a list key, and in v3 what is printed for a missing field.
fn default_of(field: &Field, dialect: Dialect) -> Option<Value> {
    if let Some(text) = field.key_default {
        return Some(text.into());
    }
    if dialect == Dialect::V2 || field.omit != Omit::Never || field.pointer {
        return None;
    }
    match &field.ty {
        Type::Struct(_) => Some(json!({})),
        Type::Scalar(Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double, _) => {
            field.ty.as_scalar().map(Scalar::zero)
        }
        _ => None,
    }
}
