//! Request bodies to typed objects: JSON, YAML and protobuf, unknown and duplicate fields, type errors, Go's round trip.
//!
//! Pure. It knows the schema of a kind, never its validation or defaulting rules.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;
use service_api::cut::cut_to;
use service_api::status::MAX_MESSAGE;

use crate::protobuf::{self, Unreadable};
use crate::schema::KindSchema;

mod cursor;
mod foreign;
mod quantity;
pub mod scan;
pub(crate) mod time;
pub(crate) mod typed;
mod yaml;

pub(crate) use foreign::is_version_of;
pub use typed::base64_fault;
pub use yaml::to_json as yaml_to_json;
pub(crate) use yaml::warning as yaml_warning;

/// The syntax of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The query parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are dropped in silence.
    Ignore,
    /// They are dropped and named in `Warning` headers.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

/// A decoded object and what its author should hear.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object as a Go typed round trip prints it, `apiVersion` and `kind` filled in.
    pub value: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Decodes a body into an object of `kind`.
///
/// `apiVersion` and `kind` may be left out of the body; they are those of `kind` in the result.
///
/// # Errors
/// The `Status` (400) that the API server answers to a body that is not of this kind.
pub fn decode(
    kind: &'static KindSchema,
    body: &[u8],
    media: Media,
    validation: FieldValidation,
) -> Result<Decoded, Box<Status>> {
    let unrecognized = |error: &dyn std::fmt::Display| unrecognized(kind, body, error);
    let (text, mut strict) = as_json(kind, body, media)?;
    let text = &*text;
    let no_meta = |e: &dyn std::fmt::Display| {
        unrecognized(&format_args!("couldn't get version/kind; json parse error: {e}"))
    };
    scan::check(text).map_err(|e| no_meta(&e))?;
    let (api_version, sent_kind) = typed::type_meta(text).map_err(|e| no_meta(&e))?;
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(&format_args!("unexpected GroupVersion string: {api_version}")));
    }
    let named = foreign::named(kind, &api_version, &sent_kind);
    let cannot = |error: &dyn std::fmt::Display| cannot(&named, kind, error);
    foreign::check(kind, &named).map_err(|e| match e {
        // A body of another kind is first read as what it says it is.
        foreign::Foreign::Kind(message) => {
            match named.schema().map(|other| typed::read(other.root(), text)) {
                Some(Err(fault)) => cannot(&fault),
                _ => cannot(&message),
            }
        }
        foreign::Foreign::Version(message) => bad_request(message),
    })?;
    let (map, findings) = typed::read(kind.root(), text).map_err(|e| cannot(&e))?;
    strict.extend(findings.strict);
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(cannot(&format_args!("strict decoding error: {}", strict.join(", "))));
    }
    if validation == FieldValidation::Ignore {
        strict.clear();
    }
    let warnings = strict.into_iter().map(yaml_warning).collect();
    Ok(Decoded { value: with_type_meta(kind, map), warnings })
}

/// A body that does not say what it is.
fn unrecognized(kind: &KindSchema, body: &[u8], error: &dyn std::fmt::Display) -> Box<Status> {
    bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        kind.kind,
        summary(body)
    ))
}

/// A body that says what it is, and is not, or not for this resource.
fn cannot(named: &foreign::Named, kind: &KindSchema, error: &dyn std::fmt::Display) -> Box<Status> {
    bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {error}",
        named.kind, named.version, kind.kind
    ))
}

/// JSON text, and the strict findings of what it was made from.
type Text<'a> = (Cow<'a, [u8]>, Vec<String>);

/// A body as JSON text, and what strict validation has to say about how it was written before.
fn as_json<'a>(kind: &KindSchema, body: &'a [u8], media: Media) -> Result<Text<'a>, Box<Status>> {
    match media {
        Media::Json => Ok((Cow::Borrowed(body), Vec::new())),
        Media::Yaml => {
            let (json, duplicates) = yaml::to_json(body).map_err(|e| unrecognized(kind, body, &e))?;
            Ok((Cow::Owned(json), duplicates))
        }
        Media::Protobuf => {
            let value = protobuf::to_json(body, kind.api_version, kind.kind).map_err(|e| match e {
                Unreadable::Envelope(fault) => unrecognized(kind, body, &fault),
                Unreadable::Object { api_version, kind: sent, fault } => {
                    cannot(&foreign::named(kind, &api_version, &sent), kind, &fault)
                }
            })?;
            Ok((Cow::Owned(value.to_string().into_bytes()), Vec::new()))
        }
    }
}

/// Brings an object that something else than a request body made into the printed form of its kind.
///
/// # Errors
/// Go's words for the first value that does not fit its type.
pub fn normalise(kind: &'static KindSchema, object: &Value) -> Result<Value, String> {
    let text = serde_json::to_vec(object).map_err(|e| e.to_string())?;
    let (map, _) = typed::read(kind.root(), &text).map_err(|e| e.to_string())?;
    Ok(with_type_meta(kind, map))
}

/// How deep a patch may be nested, so that reading it needs no more than a part of a thread's stack.
const MAX_VALUE_DEPTH: usize = 127;

/// Reads a JSON value of any form; what is no UTF-8 in it is replaced, as Go does.
///
/// # Errors
/// What is wrong with it, in Go's words where Go would refuse it as well.
pub(crate) fn value(text: &[u8]) -> Result<Value, String> {
    scan::check(text).map_err(|e| e.to_string())?;
    serde_json::from_str(&String::from_utf8_lossy(text)).map_err(|error| {
        let words = error.to_string();
        if words.starts_with("recursion limit exceeded") {
            return format!("exceeded max depth of {MAX_VALUE_DEPTH}");
        }
        words
    })
}

/// Makes integers of numbers that are written with a fraction of zero, as Go does when it fills a struct from a map.
pub(crate) fn integral(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(integral),
        Value::Object(map) => map.values_mut().for_each(integral),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0) {
                // Beyond this, a float does not hold every integer.
                if let Ok(integer) = format!("{whole:.0}").parse::<i64>() {
                    *value = integer.into();
                }
            }
        }
        _ => {}
    }
}

/// Sets `apiVersion` and `kind`.
pub fn with_type_meta(kind: &'static KindSchema, mut map: serde_json::Map<String, Value>) -> Value {
    map.insert("apiVersion".to_owned(), kind.api_version.into());
    map.insert("kind".to_owned(), kind.kind.into());
    Value::Object(map)
}

/// The `Status` of a 400.
pub(crate) fn bad_request(message: impl Into<String>) -> Box<Status> {
    failure(400, "BadRequest", message)
}

/// A failure with a code, a reason (may be empty) and a message.
///
/// A message that repeats too much of what was sent is cut.
pub(crate) fn failure(code: i32, reason: &str, message: impl Into<String>) -> Box<Status> {
    let message = message.into();
    Box::new(Status {
        status: Some("Failure".to_owned()),
        code: Some(code),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: Some(cut_to(&message, MAX_MESSAGE).into_owned()),
        ..Status::default()
    })
}

/// How upstream quotes a body that it cannot read: the first 30 bytes, as text if they are an object, else in hex.
fn summary(body: &[u8]) -> String {
    const MAX: usize = 30;
    let head = body.get(..MAX).unwrap_or(body);
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => hex(head),
    };
    if body.len() > MAX { format!("{shown} ...") } else { shown }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).collect()
}

#[cfg(test)]
mod tests;
