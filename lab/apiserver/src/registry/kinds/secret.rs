//! Secret: its keys, its size, what each type must hold, and that an immutable one stays as it is.
//!
//! Values are base64 of bytes; `stringData` is a way to write them as text and is never shown. Source: the API reference
//! of Secret v1.

use serde_json::{Map, Value, json};
use service_api::errors::{self, FieldErrors, Path};
use service_api::meta::Naming;
use service_api::names::config_map_key;

use super::fields::text;
use super::meta;
use crate::decode::scan;
use crate::registry::strategy::{Strategy, Subresource};

/// Most bytes of all values together.
const MAX_SIZE: usize = 1 << 20;
const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
const REDACTED: &str = "<secret contents redacted>";

/// The rules of Secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct Secret;

impl Strategy for Secret {
    fn default(&self, obj: &mut Value) {
        take_string_data(obj);
        if text(obj, "/type").is_empty() {
            obj["type"] = json!("Opaque");
        }
    }

    fn validate_create(&self, obj: &Value) -> FieldErrors {
        let mut faults = meta::faults(obj, Naming::SUBDOMAIN);
        faults.extend(data_faults(obj));
        faults.extend(type_faults(obj));
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, _sub: Subresource) -> Vec<String> {
        tls_warning(new).into_iter().collect()
    }

    fn validate_update(&self, new: &Value, old: &Value, _sub: Subresource) -> FieldErrors {
        let mut faults = meta::update_faults(new, old);
        if text(new, "/type") != text(old, "/type") {
            faults.push(errors::invalid("type", text(new, "/type"), "field is immutable"));
        }
        if is_immutable(old) {
            let why = "field is immutable when `immutable` is set";
            if !is_immutable(new) {
                faults.push(errors::forbidden("immutable", why));
            }
            if !data(new).eq(data(old)) {
                faults.push(errors::forbidden("data", why));
            }
        }
        faults.extend(self.validate_create(new));
        faults
    }
}

/// Writes `stringData` into `data`, over what is there.
fn take_string_data(obj: &mut Value) {
    let Some(Value::Object(texts)) = obj.as_object_mut().and_then(|obj| obj.remove("stringData")) else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if !obj["data"].is_object() {
        obj["data"] = Value::Object(Map::new());
    }
    for (key, value) in texts {
        obj["data"][key] = json!(base64(value.as_str().unwrap_or_default().as_bytes()));
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn bytes(encoded: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default()
}

fn is_immutable(obj: &Value) -> bool {
    obj.get("immutable").and_then(Value::as_bool).unwrap_or_default()
}

fn data(obj: &Value) -> impl Iterator<Item = (&String, &str)> {
    let data = obj.get("data").and_then(Value::as_object);
    data.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

fn value<'a>(obj: &'a Value, key: &str) -> Option<&'a str> {
    data(obj).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn data_faults(obj: &Value) -> FieldErrors {
    let path = Path::root("data");
    let mut faults = FieldErrors::new();
    let mut size = 0;
    for (key, value) in data(obj) {
        let wrong = config_map_key(key).into_iter();
        faults.extend(wrong.map(|why| errors::invalid(path.key(key), key.as_str(), why)));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        faults.push(errors::too_long(&path, MAX_SIZE));
    }
    faults
}

/// How many bytes base64 stands for.
fn decoded_length(encoded: &str) -> usize {
    let padding = encoded.bytes().rev().take_while(|byte| *byte == b'=').count();
    (encoded.len() / 4 * 3).saturating_sub(padding)
}

/// What a type must hold and does not.
fn type_faults(obj: &Value) -> FieldErrors {
    let path = Path::root("data");
    let missing = |key: &str| errors::required(path.key(key), "");
    let has = |key: &str| value(obj, key).is_some();
    match text(obj, "/type") {
        "kubernetes.io/service-account-token" => {
            let annotations = obj.pointer("/metadata/annotations");
            let account = annotations.and_then(|all| all.get(ACCOUNT_ANNOTATION)).and_then(Value::as_str);
            let path = Path::root("metadata").child("annotations").key(ACCOUNT_ANNOTATION);
            match account.unwrap_or_default() {
                "" => errors::required(path, "").into(),
                _ => FieldErrors::new(),
            }
        }
        "kubernetes.io/dockercfg" => json_faults(obj, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_faults(obj, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            [missing("username"), missing("password")].into()
        }
        "kubernetes.io/ssh-auth" if value(obj, "ssh-privatekey").unwrap_or_default().is_empty() => {
            missing("ssh-privatekey").into()
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(missing).collect()
        }
        _ => FieldErrors::new(),
    }
}

/// The value must be there and be a JSON object.
fn json_faults(obj: &Value, key: &str) -> FieldErrors {
    let path = Path::root("data").key(key);
    let Some(encoded) = value(obj, key) else { return errors::required(path, "").into() };
    let text = bytes(encoded);
    let fault = match scan::check(&text) {
        Err(error) => Some(error.to_string()),
        Ok(()) => match serde_json::from_slice::<Value>(&text) {
            Ok(Value::Object(_) | Value::Null) => None,
            Ok(other) => {
                let kind = match other {
                    Value::Array(_) => "array",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
            }
            Err(error) => Some(error.to_string()),
        },
    };
    fault.into_iter().map(|why| errors::invalid(&path, REDACTED, why)).collect()
}

/// A certificate or key that is no PEM; it is stored all the same.
fn tls_warning(obj: &Value) -> Option<String> {
    if text(obj, "/type") != "kubernetes.io/tls" {
        return None;
    }
    let is_pem = |key: &str| {
        let text = bytes(value(obj, key).unwrap_or_default());
        String::from_utf8_lossy(&text).contains("-----BEGIN ")
    };
    let place = [("tls.crt", "certificate"), ("tls.key", "key")].into_iter().find(|(key, _)| !is_pem(key));
    place.map(|(_, what)| format!("tls: failed to find any PEM data in {what} input"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn messages(faults: &FieldErrors) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn texts_become_bytes() {
        let mut secret = json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"b": "new", "c": ""}});
        Secret.default(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "eA==", "b": "bmV3", "c": ""}}));
    }

    #[rstest]
    #[case::free(json!({"type": "helm.sh/release.v1", "data": {"release": "eA=="}}), &[])]
    #[case::key(json!({"data": {"a/b": "eA=="}}), &["data[a/b]: Invalid value"])]
    #[case::large(json!({"data": {"a": base64(&vec![0; MAX_SIZE + 1])}}), &["data: Too long"])]
    #[case::largest(json!({"data": {"a": base64(&vec![0; MAX_SIZE])}}), &[])]
    #[case::token(json!({"type": "kubernetes.io/service-account-token"}),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"])]
    #[case::basic(json!({"type": "kubernetes.io/basic-auth"}),
        &["data[username]: Required value", "data[password]: Required value"])]
    #[case::half(json!({"type": "kubernetes.io/basic-auth", "data": {"username": ""}}), &[])]
    #[case::ssh(json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}),
        &["data[ssh-privatekey]: Required value"])]
    #[case::tls(json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}), &["data[tls.key]: Required value"])]
    #[case::docker(json!({"type": "kubernetes.io/dockerconfigjson"}), &["data[.dockerconfigjson]: Required value"])]
    #[case::broken(json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64(b"{")}}),
        &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"])]
    fn faults(#[case] secret: Value, #[case] expected: &[&str]) {
        let mut found = data_faults(&secret);
        found.extend(type_faults(&secret));
        let found = messages(&found);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn an_immutable_one_and_its_type_stay() {
        let meta = json!({"name": "s", "namespace": "default", "resourceVersion": "1"});
        let old = json!({"metadata": meta, "type": "Opaque", "immutable": true, "data": {"a": "eA=="}});
        assert_eq!(Secret.validate_update(&old, &old, Subresource::None), []);
        let new = json!({"metadata": meta, "type": "example.com/x", "data": {"a": "eQ=="}});
        let why = "field is immutable when `immutable` is set";
        assert_eq!(
            messages(&Secret.validate_update(&new, &old, Subresource::None)),
            [
                "type: Invalid value: \"example.com/x\": field is immutable".to_owned(),
                format!("immutable: Forbidden: {why}"),
                format!("data: Forbidden: {why}"),
            ]
        );
    }

    #[test]
    fn what_is_no_certificate_is_told() {
        let pem = base64(b"-----BEGIN CERTIFICATE-----");
        let secret = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": pem, "tls.key": "eA=="}});
        assert_eq!(tls_warning(&secret).unwrap(), "tls: failed to find any PEM data in key input");
    }
}
