//! Protobuf request bodies: what kubectl's typed commands (`create service`, `create namespace`, ...) send.
//!
//! A body becomes the JSON it stands for and goes the same way as any other from there. Answers are never written in
//! protobuf; every client that sends it takes JSON too. Which number is which field stands in `messages.txt`, one message
//! a line; the numbers are those of the API's published `.proto` files.

mod schema;
mod time;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use schema::{Field, Message, Type};
use wire::{Reader, Token};

/// What each protobuf body of the API starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages are not nested deeper than this.
const DEEPEST: usize = 64;

/// A body that is no protobuf object of this API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not start as it must.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// It breaks off, or its parts are not what they must be.
    #[error("the protobuf body is damaged: {0}")]
    Damaged(&'static str),
    /// It is of a kind that is not known here.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The body's `apiVersion`.
        api_version: String,
        /// The body's `kind`.
        kind: String,
    },
}

/// The JSON of a protobuf body.
///
/// # Errors
/// When it is none, or of a kind this server does not know.
pub fn to_json(body: &[u8]) -> Result<Value, ProtobufError> {
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &body[..0]);
    for field in Reader::new(body) {
        match field? {
            (1, Token::Bytes(meta)) => {
                for field in Reader::new(meta) {
                    match field? {
                        (1, Token::Bytes(text)) => utf8(text)?.clone_into(&mut api_version),
                        (2, Token::Bytes(text)) => utf8(text)?.clone_into(&mut kind),
                        _ => {}
                    }
                }
            }
            (2, Token::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let Some(message) = schema::of_kind(group, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = read(message, raw, 0)?;
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Damaged("a text is no UTF-8"))
}

fn read(message: &Message, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
    if depth > DEEPEST {
        return Err(ProtobufError::Damaged("it is nested too deeply"));
    }
    let mut out = Map::new();
    for token in Reader::new(bytes) {
        let (number, token) = token?;
        let Some(field) = message.field(number) else { continue };
        if field.map {
            let (key, value) = entry(field, &token, depth)?;
            if let Value::Object(map) = out.entry(field.name).or_insert_with(|| json!({})) {
                map.insert(key, value);
            }
            continue;
        }
        let value = value(&field.ty, &token, depth)?;
        if field.inline {
            if let Value::Object(inner) = value {
                out.extend(inner);
            }
        } else if field.repeated {
            if let Value::Array(list) = out.entry(field.name).or_insert_with(|| json!([])) {
                list.push(value);
            }
        } else {
            out.insert(field.name.to_owned(), value);
        }
    }
    Ok(out)
}

/// One entry of a map: a message of key and value.
fn entry(field: &Field, token: &Token<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Token::Bytes(bytes) = token else { return Err(ProtobufError::Damaged("a map entry is no message")) };
    let (mut key, mut found) = (String::new(), None);
    for token in Reader::new(bytes) {
        match token? {
            (1, Token::Bytes(text)) => utf8(text)?.clone_into(&mut key),
            (2, token) => found = Some(value(&field.ty, &token, depth)?),
            _ => {}
        }
    }
    Ok((key, found.unwrap_or_else(|| json!(""))))
}

fn value(ty: &Type, token: &Token<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match (ty, token) {
        (Type::Text, Token::Bytes(bytes)) => json!(utf8(bytes)?),
        (Type::Bytes, Token::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        // Negative numbers are sign-extended to 64 bits, whatever the field's width.
        (Type::Integer, Token::Varint(number)) => json!(number.cast_signed()),
        (Type::Bool, Token::Varint(number)) => json!(*number != 0),
        (Type::Time { micros }, Token::Bytes(bytes)) => time::read(bytes, *micros)?,
        (Type::IntOrString, Token::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Quantity, Token::Bytes(bytes)) => first_text(bytes)?,
        (Type::Json, Token::Bytes(bytes)) => raw_json(bytes)?,
        (Type::Message(name), Token::Bytes(bytes)) => match schema::named(name) {
            Some(message) => Value::Object(read(message, bytes, depth + 1)?),
            None => Value::Null,
        },
        _ => return Err(ProtobufError::Damaged("a field has another type than it must have")),
    })
}

/// A number or a text: type, number, text.
fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for token in Reader::new(bytes) {
        match token? {
            (1, Token::Varint(kind)) => is_text = kind == 1,
            (2, Token::Varint(given)) => number = given.cast_signed(),
            (3, Token::Bytes(given)) => text = utf8(given)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn first_text(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for token in Reader::new(bytes) {
        if let (1, Token::Bytes(text)) = token? {
            return Ok(json!(utf8(text)?));
        }
    }
    Ok(json!(""))
}

/// JSON inside a field (`FieldsV1`).
fn raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    for token in Reader::new(bytes) {
        if let (1, Token::Bytes(raw)) = token? {
            return serde_json::from_slice(raw).map_err(|_| ProtobufError::Damaged("a field holds no JSON"));
        }
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
    }

    #[test]
    fn a_service_is_read() {
        let port = [field(1, b"80-8080"), field(2, b"TCP"), vec![3 << 3, 80]].concat();
        let target = [vec![1 << 3, 1], field(3, b"http")].concat();
        let port = [port, field(4, &target), vec![5 << 3, 0]].concat();
        let selector = [field(1, b"app"), field(2, b"a")].concat();
        let spec = [field(1, &port), field(2, &selector), field(4, b"NodePort")].concat();
        let metadata = [field(1, b"a"), field(8, b"")].concat();
        let service = [field(1, &metadata), field(2, &spec)].concat();
        assert_eq!(
            to_json(&body("Service", &service)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "a", "creationTimestamp": null},
                "spec": {
                    "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 0}],
                    "selector": {"app": "a"},
                    "type": "NodePort",
                },
            })
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(to_json(b"{}"), Err(ProtobufError::NoMagic));
        assert!(matches!(to_json(&body("Nothing", b"")), Err(ProtobufError::UnknownKind { .. })));
        let whole = body("Service", &field(1, &field(1, b"abc")));
        for end in 5..whole.len() {
            // Every cut is an error or a shorter object, never a panic.
            let _ = to_json(&whole[..end]);
        }
        assert!(to_json(&body("Service", &[0x0a, 0x05, 0x01])).is_err());
    }
}
