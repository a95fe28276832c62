//! Protobuf request bodies: what kubectl's typed commands (`create service`, `create namespace`, ...) send.
//!
//! A body becomes the JSON it stands for and goes the same way as any other from there. Answers are never written in
//! protobuf; every client that sends it takes JSON too. Which number is which field stands in `messages.txt`, one message
//! a line; `hack/protobuf-messages` writes it.

mod fault;
mod read;
mod schema;
mod time;
mod wire;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use fault::{Fault, Unreadable};

use wire::{Reader, Token};

/// What each protobuf body of the API starts with.
const MAGIC: &[u8] = b"k8s\0";

/// What surrounds an object in a body.
#[derive(Debug, Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Fault> {
        if body.is_empty() {
            return Err(Fault::NoData);
        }
        let body = body.strip_prefix(MAGIC).ok_or(Fault::NoPrefix)?;
        if body.is_empty() {
            return Err(Fault::NoBody);
        }
        let mut out = Self::default();
        for field in Reader::new("Unknown", body) {
            match field? {
                (1, Token::Bytes(meta)) => out.read_meta(meta)?,
                (2, Token::Bytes(bytes)) => out.raw = bytes,
                _ => {}
            }
        }
        Ok(out)
    }

    fn read_meta(&mut self, meta: &[u8]) -> Result<(), Fault> {
        for field in Reader::new("TypeMeta", meta) {
            match field? {
                (1, Token::Bytes(text)) => read::utf8(text)?.clone_into(&mut self.api_version),
                (2, Token::Bytes(text)) => read::utf8(text)?.clone_into(&mut self.kind),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The JSON of a protobuf body. Where it does not say what it is, it is of the expected `apiVersion` and `kind`. Of a kind
/// that has no protobuf here, there is only what it says it is.
///
/// # Errors
/// When it is damaged.
pub fn to_json(body: &[u8], api_version: &str, kind: &str) -> Result<Value, Unreadable> {
    let mut envelope = Envelope::read(body).map_err(Unreadable::Envelope)?;
    if envelope.api_version.is_empty() {
        api_version.clone_into(&mut envelope.api_version);
    }
    if envelope.kind.is_empty() {
        kind.clone_into(&mut envelope.kind);
    }
    let Envelope { api_version, kind, raw } = envelope;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut object = Map::new();
    if let Some(message) = schema::of_kind(group, &kind)
        && let Err(fault) = read::message(message, raw, 0, &mut object)
    {
        return Err(Unreadable::Object { api_version, kind, fault });
    }
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}
