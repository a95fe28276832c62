//! The schemas of our own kinds, in the form of those of `k8s-openapi`.
//!
//! A CustomResourceDefinition has one schema a kind, with everything inside it; the tree is built from named ones. This
//! gives each object inside a name of its own and leaves what `k8s-openapi` has to it.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use schemars::{JsonSchema as _, SchemaGenerator};
use serde_json::{Map, Value, json};
use service_api::crds;

/// The name of a kind's schema.
pub(super) fn id(kind: &str) -> String {
    format!("io.service-control-plane.{}.{kind}", crds::VERSION)
}

/// Adds the schemas of all our kinds.
pub(super) fn add(definitions: &mut Map<String, Value>) {
    for definition in crds::definitions() {
        let kind = definition.spec.names.kind;
        for version in definition.spec.versions {
            let schema = version.schema.and_then(|s| s.open_api_v3_schema);
            let Some(Ok(schema)) = schema.map(serde_json::to_value) else { continue };
            hoist(schema, &kind, "", definitions);
            let root = definitions.entry(id(&kind)).or_insert(Value::Null);
            for (field, schema) in type_meta() {
                root["properties"][field] = schema;
            }
        }
    }
}

/// `apiVersion`, `kind` and `metadata`, described as those of every kind.
fn type_meta() -> Vec<(String, Value)> {
    let schema = ServiceCIDR::json_schema(&mut SchemaGenerator::default()).to_value();
    let of = |field: &str| Some((field.to_owned(), schema.get("properties")?.get(field)?.clone()));
    ["apiVersion", "kind", "metadata"].into_iter().filter_map(of).collect()
}

/// Puts an object's schema among the definitions and returns the reference to it; anything else stays where it is.
fn hoist(schema: Value, name: &str, field: &str, definitions: &mut Map<String, Value>) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    let described = |reference: Value, schema: &Map<String, Value>| {
        let mut reference = reference;
        if let Some(text) = schema.get("description") {
            reference["description"] = text.clone();
        }
        reference
    };
    if let Some(known) = known(field, &schema) {
        return described(reference(known), &schema);
    }
    if let Some(items) = schema.remove("items") {
        let singular = if field == "conditions" { "condition" } else { field };
        schema.insert("items".to_owned(), hoist(items, name, singular, definitions));
        return Value::Object(schema);
    }
    let Some(Value::Object(properties)) = schema.remove("properties") else { return Value::Object(schema) };
    let properties: Map<String, Value> = properties
        .into_iter()
        .map(|(field, schema)| {
            let inner = format!("{name}{}", capital(&field));
            let schema = hoist(schema, &inner, &field, definitions);
            (field, schema)
        })
        .collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.remove("x-kubernetes-validations");
    schema.remove("nullable");
    let out = described(reference(&id(name)), &schema);
    definitions.insert(id(name), Value::Object(schema));
    out
}

/// What `k8s-openapi` has a schema of, by the field's name.
fn known(field: &str, schema: &Map<String, Value>) -> Option<&'static str> {
    schema.get("properties")?;
    match field {
        "condition" => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Condition"),
        "namespaceSelector" | "serviceSelector" => Some("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"),
        _ => None,
    }
}

fn reference(id: &str) -> Value {
    json!({"$ref": format!("#/definitions/{id}")})
}

fn capital(field: &str) -> String {
    let mut letters = field.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

    #[test]
    fn every_reference_leads_somewhere() {
        let mut definitions = super::super::definitions();
        add(&mut definitions);
        let text = serde_json::to_string(&definitions).unwrap();
        for reference in text.split("\"$ref\":\"").skip(1) {
            let id = reference.split('"').next().unwrap().rsplit('/').next().unwrap();
            assert!(definitions.contains_key(id), "{id}");
        }
        let pool = &definitions[&id("ServicePool")];
        assert!(pool["properties"]["metadata"]["$ref"].as_str().unwrap().starts_with('#'));
        assert!(
            pool["properties"]["metadata"]["$ref"].as_str().unwrap().ends_with(&format!("{META}.ObjectMeta"))
        );
        let selector = &definitions[&id("ServicePoolSpec")]["properties"]["serviceSelector"];
        assert!(selector["$ref"].as_str().unwrap().ends_with("LabelSelector"));
    }
}
