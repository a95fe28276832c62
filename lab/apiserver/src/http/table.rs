//! `Table` answers: rows computed by the kind's printer, wrapped as kubectl expects them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use service_api::errors;

use crate::registry::error::ApiError;
use crate::registry::resource_info::ResourceInfo;
use crate::registry::table::Table;

use super::encode::partial;

/// What of the object stands in a row (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Reads the parameter; 400 for another value.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let fault = errors::invalid("includeObject", other, why);
                Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {fault}")))
            }
        }
    }
}

/// The columns of a kind.
pub(crate) fn columns(table: &Table) -> Value {
    json!((table.columns)())
}

/// A table with these rows. `headers`: with the columns (they are left out of all but the first event of a watch).
pub(crate) fn table(
    info: &ResourceInfo,
    metadata: &Value,
    rows: &[Value],
    headers: bool,
    version: &str,
) -> Value {
    let columns = if headers { columns(info.table) } else { json!([]) };
    json!({
        "kind": "Table", "apiVersion": version, "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

/// The row of an object.
pub(crate) fn row(table: &Table, object: Value, now: Timestamp, include: Include, version: &str) -> Value {
    let printed = (table.row)(&object, now);
    let mut out = Map::new();
    out.insert("cells".to_owned(), Value::Array(printed.cells));
    if !printed.conditions.is_empty() {
        out.insert("conditions".to_owned(), Value::Array(printed.conditions));
    }
    let shown = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(&object, version),
        Include::Object => object,
    };
    out.insert("object".to_owned(), shown);
    Value::Object(out)
}

/// The table of one object, under its own resource version.
pub(crate) fn single(
    info: &ResourceInfo,
    object: Value,
    now: Timestamp,
    include: Include,
    headers: bool,
    meta_version: &str,
) -> Value {
    let version = object.get("metadata").and_then(|m| m.get("resourceVersion")).cloned();
    let metadata = version.map_or_else(|| json!({}), |version| json!({ "resourceVersion": version }));
    let rows = [row(info.table, object, now, include, meta_version)];
    table(info, &metadata, &rows, headers, meta_version)
}
