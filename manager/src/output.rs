//! What commands print for people and for programs.
//!
//! Owns the two forms for programs; the text is each command's own.

use serde::Serialize;

use crate::args::ExplainFormat;

/// What was found in the form that is asked for.
pub(crate) fn printed<T: Serialize>(
    format: ExplainFormat,
    found: &T,
    text: impl FnOnce() -> String,
) -> String {
    match format {
        ExplainFormat::Text => text(),
        ExplainFormat::Json => {
            serde_json::to_string_pretty(found).map(|text| text + "\n").unwrap_or_default()
        }
        ExplainFormat::Yaml => {
            let value = serde_json::to_value(found).unwrap_or_default();
            serde_saphyr::to_string(&value).unwrap_or_default()
        }
    }
}
