//! ConfigMap: its keys, its size, and that an immutable one stays as it is.

use serde_json::{Map, Value};
use service_api::errors::{self, FieldErrors, Path};
use service_api::meta::Naming;
use service_api::names::config_map_key;

use super::meta;
use crate::registry::strategy::{Strategy, Subresource};

/// Most bytes of all values together.
const MAX_SIZE: usize = 1 << 20;

/// The rules of ConfigMap.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(data_faults(obj));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        if is_immutable(old) {
            if !is_immutable(new) {
                faults.push(errors::forbidden("immutable", "field is immutable when `immutable` is set"));
            }
            for field in ["data", "binaryData"] {
                if entries(new, field) != entries(old, field) {
                    faults.push(errors::forbidden(field, "field is immutable when `immutable` is set"));
                }
            }
        }
        faults.extend(data_faults(new));
        faults
    }
}

fn is_immutable(obj: &Value) -> bool {
    obj.get("immutable").and_then(Value::as_bool).unwrap_or_default()
}

fn entries<'a>(obj: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    obj.get(field).and_then(Value::as_object).filter(|entries| !entries.is_empty())
}

fn data_faults(obj: &Value) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let binary = entries(obj, "binaryData");
    let mut size = 0;
    for field in ["data", "binaryData"] {
        let path = Path::root(field);
        for (key, value) in entries(obj, field).into_iter().flatten() {
            let path = path.key(key);
            faults
                .extend(config_map_key(key).into_iter().map(|why| errors::invalid(&path, key.as_str(), why)));
            if field == "data" && binary.is_some_and(|binary| binary.contains_key(key)) {
                let why = "duplicate of key present in binaryData";
                faults.push(errors::invalid(&path, key.as_str(), why));
            }
            let length = value.as_str().map_or(0, str::len);
            size += if field == "data" { length } else { length / 4 * 3 };
        }
    }
    if size > MAX_SIZE {
        faults.push(errors::too_long("", MAX_SIZE));
    }
    faults
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::good(json!({"data": {"a.b-c_1": "x"}}), 0)]
    #[case::key(json!({"data": {"a/b": "x"}}), 1)]
    #[case::twice(json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}), 1)]
    #[case::large(json!({"data": {"a": "x".repeat(MAX_SIZE + 1)}}), 1)]
    fn data(#[case] object: Value, #[case] faults: usize) {
        assert_eq!(data_faults(&object).len(), faults);
    }

    #[test]
    fn an_immutable_one_stays() {
        let meta = json!({"name": "c", "namespace": "default", "resourceVersion": "1"});
        let old = json!({"metadata": meta, "immutable": true, "data": {"a": "1"}});
        let same = old.clone();
        assert_eq!(ConfigMap.validate_update(&same, &old, Subresource::None), []);
        let other = json!({"metadata": meta, "data": {"a": "2"}});
        let fields: Vec<String> = ConfigMap
            .validate_update(&other, &old, Subresource::None)
            .into_iter()
            .map(|fault| fault.field)
            .collect();
        assert_eq!(fields, ["immutable", "data"]);
    }
}
