//! From the fields of a message to the JSON that the API has for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::schema::{self, Field, Message, Type};
use super::time;
use super::wire::{Reader, Token};

/// Messages are not nested deeper than this; those of the API go about fifteen deep.
const DEEPEST: usize = 64;

/// Text, or the fault.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::Text)
}

/// Reads a message into the fields of an object. What is there already is merged with: a message may come in parts.
pub(super) fn message(
    message: &Message,
    bytes: &[u8],
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), Fault> {
    if depth > DEEPEST {
        return Err(Fault::Depth);
    }
    for token in Reader::new(message.name, bytes) {
        let (number, token) = token?;
        if let Some(field) = message.field(number) {
            read_field(field, &token, depth, out)?;
        }
    }
    Ok(())
}

fn read_field(
    field: &Field,
    token: &Token<'_>,
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), Fault> {
    if field.inline {
        if let (Type::Message(name), Token::Bytes(bytes)) = (field.ty, token)
            && let Some(inner) = schema::named(name)
        {
            return message(inner, bytes, depth + 1, out);
        }
        return Err(wrong(field, token));
    }
    if field.map {
        let (key, value) = entry(field, token, depth)?;
        if let Value::Object(map) = out.entry(field.name).or_insert_with(|| json!({})) {
            map.insert(key, value);
        }
    } else if field.repeated {
        if let Value::Array(list) = out.entry(field.name).or_insert_with(|| json!([])) {
            items(field, token, depth, list)?;
        }
    } else {
        let before = out.remove(field.name);
        let value = value(field, token, depth, before)?;
        out.insert(field.name.to_owned(), value);
    }
    Ok(())
}

fn wrong(field: &Field, token: &Token<'_>) -> Fault {
    // Go embeds the metadata and spells exported names with a capital.
    let mut letters = field.name.chars();
    let spelt = match letters.next() {
        _ if field.name == "metadata" => "ObjectMeta".to_owned(),
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    };
    Fault::Type { shape: token.shape(), field: spelt }
}

/// One item of a list, or all of them: numbers may stand in a row.
fn items(field: &Field, token: &Token<'_>, depth: usize, list: &mut Vec<Value>) -> Result<(), Fault> {
    match (field.ty, token) {
        (Type::Integer | Type::Bool, Token::Bytes(bytes)) => {
            let mut numbers = Reader::new("", bytes);
            while !numbers.is_done() {
                list.push(value(field, &Token::Varint(numbers.varint()?), depth, None)?);
            }
        }
        _ => list.push(value(field, token, depth, None)?),
    }
    Ok(())
}

/// One entry of a map: a message of key and value.
fn entry(field: &Field, token: &Token<'_>, depth: usize) -> Result<(String, Value), Fault> {
    let Token::Bytes(bytes) = token else { return Err(wrong(field, token)) };
    let (mut key, mut found) = (String::new(), None);
    for token in Reader::new("Entry", bytes) {
        match token? {
            (1, Token::Bytes(text)) => utf8(text)?.clone_into(&mut key),
            (2, token) => found = Some(value(field, &token, depth, None)?),
            _ => {}
        }
    }
    let found = found.unwrap_or_else(|| match field.ty {
        Type::Message(_) => json!({}),
        Type::Texts => json!([]),
        Type::Quantity => json!("0"),
        _ => json!(""),
    });
    Ok((key, found))
}

/// One value. `before` is what an earlier part of the same field gave.
fn value(field: &Field, token: &Token<'_>, depth: usize, before: Option<Value>) -> Result<Value, Fault> {
    Ok(match (field.ty, token) {
        (Type::Text, Token::Bytes(bytes)) => json!(utf8(bytes)?),
        (Type::Bytes, Token::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        // Negative numbers are sign-extended to 64 bits, whatever the field's width.
        (Type::Integer, Token::Varint(number)) => json!(number.cast_signed()),
        (Type::Bool, Token::Varint(number)) => json!(*number != 0),
        (Type::Time { micros }, Token::Bytes(bytes)) => time::read(bytes, micros)?,
        (Type::IntOrString, Token::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Quantity, Token::Bytes(bytes)) => quantity(bytes)?,
        (Type::Json, Token::Bytes(bytes)) => raw_json(bytes)?,
        (Type::Texts, Token::Bytes(bytes)) => texts(bytes)?,
        (Type::Message(name), Token::Bytes(bytes)) => {
            let mut object = match before {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            };
            if let Some(inner) = schema::named(name) {
                message(inner, bytes, depth + 1, &mut object)?;
            }
            Value::Object(object)
        }
        _ => return Err(wrong(field, token)),
    })
}

/// A number or a text: type, number, text.
fn int_or_string(bytes: &[u8]) -> Result<Value, Fault> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for token in Reader::new("IntOrString", bytes) {
        match token? {
            (1, Token::Varint(kind)) => is_text = kind == 1,
            (2, Token::Varint(given)) => number = given.cast_signed(),
            (3, Token::Bytes(given)) => text = utf8(given)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// A quantity as text; without one it is zero.
fn quantity(bytes: &[u8]) -> Result<Value, Fault> {
    let mut text = "";
    for token in Reader::new("Quantity", bytes) {
        if let (1, Token::Bytes(given)) = token? {
            text = utf8(given)?;
        }
    }
    Ok(json!(if text.is_empty() { "0" } else { text }))
}

/// A list of texts in a message of its own.
fn texts(bytes: &[u8]) -> Result<Value, Fault> {
    let mut list = Vec::new();
    for token in Reader::new("ExtraValue", bytes) {
        if let (1, Token::Bytes(text)) = token? {
            list.push(json!(utf8(text)?));
        }
    }
    Ok(Value::Array(list))
}

/// JSON inside a field (`FieldsV1`).
fn raw_json(bytes: &[u8]) -> Result<Value, Fault> {
    let mut raw: &[u8] = b"null";
    for token in Reader::new("FieldsV1", bytes) {
        if let (1, Token::Bytes(given)) = token? {
            raw = given;
        }
    }
    serde_json::from_slice(raw).map_err(|_| Fault::Json)
}
