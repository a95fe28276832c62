//! Column definitions; a column that shows a field describes itself by that field's OpenAPI description.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Serialize;

/// One entry of `columnDefinitions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// OpenAPI type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the primary identifier.
    pub format: &'static str,
    /// What it shows.
    pub description: String,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// A text column with its own description.
    pub(super) fn text(name: &'static str, description: &str) -> Self {
        Self { name, kind: "string", format: "", description: description.to_owned(), priority: 0 }
    }

    /// A text column that shows field `field` of `T`.
    pub(super) fn field<T: JsonSchema>(name: &'static str, field: &str) -> Self {
        Self::text(name, &description::<T>(field))
    }

    /// The same where the description names the field as v1.36 did: by its Go name, which is the heading.
    pub(super) fn field_of_v136<T: JsonSchema>(name: &'static str, field: &str) -> Self {
        let text = description::<T>(field);
        match text.strip_prefix(field) {
            Some(rest) => Self::text(name, &format!("{name}{rest}")),
            None => Self::text(name, &text),
        }
    }

    pub(super) fn name() -> Self {
        Self { format: "name", ..Self::field::<ObjectMeta>("Name", "name") }
    }

    pub(super) fn age() -> Self {
        Self::field::<ObjectMeta>("Age", "creationTimestamp")
    }

    pub(super) fn integer(self) -> Self {
        Self { kind: "integer", ..self }
    }

    pub(super) fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

fn description<T: JsonSchema>(field: &str) -> String {
    schemars::schema_for!(T)
        .get("properties")
        .and_then(|fields| fields.get(field))
        .and_then(|field| field.get("description"))
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
