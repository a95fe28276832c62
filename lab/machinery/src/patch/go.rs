//! JSON values as Go prints them in messages.

use serde_json::Value;

/// A value as `%v` prints it: `map[a:1 b:[x y]]`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => s.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            format!(
                "map[{}]",
                map.iter().map(|(k, v)| format!("{k}:{}", text(v))).collect::<Vec<_>>().join(" ")
            )
        }
    }
}
