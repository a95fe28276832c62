//! Valid JSON to the object that a Go typed round trip prints: fields by schema, zero values left out, types checked.

use std::borrow::Cow;

use base64::Engine;
use serde_json::{Map, Value};
use service_api::cut::cut_to;

use super::cursor::Cursor;
use super::{quantity, time};
use crate::schema::{Field, ListType, MapType, Omit, Scalar, StructType, Type};

/// Go keeps at most this many strict errors.
const MAX_STRICT_ERRORS: usize = 100;
/// Of a longer path a finding has the beginning: there may be as many findings as the body has members.
const MAX_PATH: usize = 512;
/// How deep untyped values (`fieldsV1`) may nest; the typed part is as deep as the schema.
const MAX_UNTYPED_DEPTH: usize = 200;

/// A value that does not fit its Go type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypeError {
    /// A JSON value of another type.
    #[error("json: cannot unmarshal {value} into Go {} of type {go}", place(.strukt, .path))]
    Mismatch {
        /// What was sent, in Go's words: `string`, `number 80.5`.
        value: String,
        /// The innermost Go struct, empty at the top.
        strukt: &'static str,
        /// JSON names of the fields down to the value, joined by dots.
        path: String,
        /// The Go type that was expected.
        go: String,
        /// Its kind in Go's reflection, such as `struct`, `slice` or `int32`; `json` for types that read themselves.
        kind: &'static str,
    },
    /// Text that its Go type cannot read.
    #[error("{0}")]
    Custom(String),
}

impl TypeError {
    /// The JSON names of the fields down to the value, joined by dots; empty when they are not known.
    pub(crate) fn path(&self) -> &str {
        match self {
            TypeError::Mismatch { path, .. } => path,
            TypeError::Custom(_) => "",
        }
    }

    /// What Go says when the value comes from a map (a strategic merge patch) and not from a text.
    pub(crate) fn of_map(&self) -> String {
        let TypeError::Mismatch { value, go, kind, .. } = self else { return self.to_string() };
        let (sent, number) =
            value.split_once(' ').map_or((value.as_str(), ""), |(sent, number)| (sent, number));
        let sent = match sent {
            "object" => "map",
            "array" => "slice",
            "number" if number.contains(['.', 'e', 'E']) => "float64",
            "number" => "int64",
            other => other,
        };
        match (*kind, sent) {
            ("json", _) => format!("json: cannot unmarshal {value} into Go value of type {go}"),
            ("struct", _) => format!("cannot restore struct from: {sent}"),
            ("slice" | "map", _) => format!("cannot restore {kind} from {sent}"),
            ("string", "int64") | ("int32" | "int64", "int64" | "float64") => {
                format!("cannot convert {sent} to {go}")
            }
            _ => format!("unrecognized type: {kind}"),
        }
    }
}

fn place(strukt: &str, path: &str) -> String {
    if path.is_empty() { "value".to_owned() } else { format!("struct field {strukt}.{path}") }
}

/// What the walk found besides the object.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Unknown and duplicate fields, in the order of the text.
    pub(crate) strict: Vec<String>,
}

/// Reads `text`, which must be valid JSON, as a `strukt`.
pub(crate) fn read(
    strukt: &'static StructType,
    text: &[u8],
) -> Result<(Map<String, Value>, Findings), TypeError> {
    let mut reader = Reader {
        cursor: Cursor::new(text),
        path: Vec::with_capacity(8),
        strukt: "",
        findings: Findings::default(),
    };
    let map = match reader.cursor.peek() {
        b'{' => reader.fields(strukt)?,
        b'n' => {
            reader.cursor.skip();
            strukt.always.clone()
        }
        _ => return Err(reader.mismatch(&Type::Scalar(Scalar::Any, strukt.name))),
    };
    Ok((map, reader.findings))
}

/// The top-level members `apiVersion` and `kind` of `text`, which must be valid JSON.
pub(crate) fn type_meta(text: &[u8]) -> Result<(String, String), TypeError> {
    let mut reader =
        Reader { cursor: Cursor::new(text), path: Vec::new(), strukt: "", findings: Findings::default() };
    let (mut api_version, mut kind) = (String::new(), String::new());
    match reader.cursor.peek() {
        b'{' => {}
        b'n' => return Ok((api_version, kind)),
        _ => {
            let go = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            return Err(reader.mismatch(&Type::Scalar(Scalar::Any, go)));
        }
    }
    reader.cursor.step();
    let mut ended = false;
    while let Some(name) = reader.cursor.next_member(&mut ended) {
        // Go's reader, which looks at these two alone, takes them in any case.
        let slot = if name.eq_ignore_ascii_case("apiVersion") {
            Some((&mut api_version, "apiVersion"))
        } else if name.eq_ignore_ascii_case("kind") {
            Some((&mut kind, "kind"))
        } else {
            None
        };
        match (slot, reader.cursor.peek()) {
            (Some((slot, _)), b'"') => *slot = reader.cursor.string().into_owned(),
            (Some((_, field)), c) if c != b'n' => {
                reader.path.push(Segment::Field(field));
                return Err(reader.mismatch(&Type::Scalar(Scalar::String, "string")));
            }
            _ => reader.cursor.skip(),
        }
    }
    Ok((api_version, kind))
}

/// Duplicate keys of `text`, which must be valid JSON, wherever they are: what Go says when it reads a patch strictly.
pub(crate) fn duplicates(text: &[u8]) -> Vec<String> {
    let mut reader =
        Reader { cursor: Cursor::new(text), path: Vec::new(), strukt: "", findings: Findings::default() };
    // Too deep for us is too deep to look for duplicates in.
    let _ = reader.any(0);
    reader.findings.strict
}

#[derive(Clone, Debug)]
enum Segment<'a> {
    Field(&'static str),
    Key(Cow<'a, str>),
    Index(usize),
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    path: Vec<Segment<'a>>,
    /// The innermost Go struct.
    strukt: &'static str,
    findings: Findings,
}

impl<'a> Reader<'a> {
    fn fields(&mut self, strukt: &'static StructType) -> Result<Map<String, Value>, TypeError> {
        let outer = std::mem::replace(&mut self.strukt, strukt.name);
        let mut map = Map::new();
        let mut seen = 0_u128;
        self.cursor.step();
        let mut ended = false;
        while let Some(name) = self.cursor.next_member(&mut ended) {
            let Some((at, field)) = strukt.field(&name) else {
                self.strict("unknown", Segment::Key(name));
                self.cursor.skip();
                continue;
            };
            let bit = 1_u128 << (at & 127);
            let again = seen & bit != 0;
            seen |= bit;
            if again {
                self.strict("duplicate", Segment::Field(field.name));
            }
            self.path.push(Segment::Field(field.name));
            let value = self.value(&field.ty)?;
            self.path.pop();
            put(&mut map, field, value, again);
        }
        for (name, zero) in &strukt.always {
            if !map.contains_key(name) {
                map.insert(name.clone(), zero.clone());
            }
        }
        self.strukt = outer;
        Ok(map)
    }

    /// `None` is null.
    fn value(&mut self, ty: &Type) -> Result<Option<Value>, TypeError> {
        let first = self.cursor.peek();
        if first == b'n' {
            self.cursor.skip();
            return Ok(None);
        }
        match (ty, first) {
            (Type::Struct(_), b'{') => {
                let strukt = ty.as_struct().ok_or_else(|| TypeError::Custom("no struct".to_owned()))?;
                Ok(Some(Value::Object(self.fields(strukt)?)))
            }
            (Type::List(list), b'[') => self.list(list).map(Some),
            (Type::Map(map), b'{') => self.map(map).map(Some),
            (Type::Scalar(scalar, _), _) => self.scalar(*scalar, ty, first).map(Some),
            _ => Err(self.mismatch(ty)),
        }
    }

    fn list(&mut self, list: &ListType) -> Result<Value, TypeError> {
        let mut items = Vec::new();
        self.cursor.step();
        while self.cursor.next_item() {
            self.path.push(Segment::Index(items.len()));
            let item = self.value(&list.item)?.unwrap_or_else(|| zero(&list.item));
            self.path.pop();
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, map: &MapType) -> Result<Value, TypeError> {
        let mut entries = Map::new();
        self.cursor.step();
        let mut ended = false;
        while let Some(key) = self.cursor.next_member(&mut ended) {
            let owned = key.clone().into_owned();
            if entries.contains_key(&owned) {
                self.strict("duplicate", Segment::Key(key.clone()));
            }
            self.path.push(Segment::Key(key));
            let value = self.value(&map.value)?.unwrap_or_else(|| zero(&map.value));
            self.path.pop();
            entries.insert(owned, value);
        }
        Ok(Value::Object(entries))
    }

    fn scalar(&mut self, scalar: Scalar, ty: &Type, first: u8) -> Result<Value, TypeError> {
        match (scalar, first) {
            (Scalar::Any, _) => self.any(0),
            (Scalar::String | Scalar::IntOrString, b'"') => {
                Ok(Value::String(self.cursor.string().into_owned()))
            }
            (Scalar::Bool, b't' | b'f') => {
                self.cursor.skip();
                Ok(Value::Bool(first == b't'))
            }
            (Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString, b'-' | b'0'..=b'9') => {
                let start = self.cursor.clone();
                let number = self.cursor.number();
                let parsed = number.parse::<i64>().ok();
                let fits = |n: &i64| scalar == Scalar::Int64 || i32::try_from(*n).is_ok();
                parsed.filter(fits).map(Value::from).ok_or_else(|| {
                    self.cursor = start;
                    self.mismatch(ty)
                })
            }
            (Scalar::Double, b'-' | b'0'..=b'9') => {
                let number = self.cursor.number();
                Ok(number.parse::<f64>().map_or(Value::Null, Value::from))
            }
            (Scalar::Time, b'"') => {
                let text = self.cursor.string();
                time::parse(&text).map(|t| Value::String(time::seconds(t))).map_err(TypeError::Custom)
            }
            (Scalar::MicroTime, b'"') => {
                let text = self.cursor.string();
                time::parse_micros(&text).map(|t| Value::String(time::micros(t))).map_err(TypeError::Custom)
            }
            (Scalar::Quantity, b'"') => {
                let text = self.cursor.string();
                quantity::canonical(&text).map(Value::String).map_err(|e| TypeError::Custom(e.to_owned()))
            }
            (Scalar::Quantity, b'-' | b'0'..=b'9') => {
                let text = self.cursor.number();
                quantity::canonical(text).map(Value::String).map_err(|e| TypeError::Custom(e.to_owned()))
            }
            (Scalar::Bytes, b'"') => {
                let text = self.cursor.string();
                bytes(&text).map(Value::String)
            }
            _ => Err(self.mismatch(ty)),
        }
    }

    /// A value without a schema, numbers kept as integers where they are.
    fn any(&mut self, depth: usize) -> Result<Value, TypeError> {
        if depth > MAX_UNTYPED_DEPTH {
            return Err(TypeError::Custom("exceeded max depth".to_owned()));
        }
        match self.cursor.peek() {
            b'{' => {
                let mut map = Map::new();
                self.cursor.step();
                let mut ended = false;
                while let Some(key) = self.cursor.next_member(&mut ended) {
                    let owned = key.clone().into_owned();
                    if map.contains_key(&owned) {
                        self.strict("duplicate", Segment::Key(key.clone()));
                    }
                    self.path.push(Segment::Key(key));
                    let value = self.any(depth + 1)?;
                    self.path.pop();
                    map.insert(owned, value);
                }
                Ok(Value::Object(map))
            }
            b'[' => {
                let mut items = Vec::new();
                self.cursor.step();
                while self.cursor.next_item() {
                    self.path.push(Segment::Index(items.len()));
                    let item = self.any(depth + 1)?;
                    self.path.pop();
                    items.push(item);
                }
                Ok(Value::Array(items))
            }
            b'"' => Ok(Value::String(self.cursor.string().into_owned())),
            c @ (b't' | b'f') => {
                self.cursor.skip();
                Ok(Value::Bool(c == b't'))
            }
            b'n' => {
                self.cursor.skip();
                Ok(Value::Null)
            }
            _ => {
                let number = self.cursor.number();
                Ok(number
                    .parse::<i64>()
                    .map(Value::from)
                    .or_else(|_| number.parse::<f64>().map(Value::from))
                    .unwrap_or(Value::Null))
            }
        }
    }

    fn strict(&mut self, what: &str, last: Segment<'a>) {
        if self.findings.strict.len() >= MAX_STRICT_ERRORS {
            return;
        }
        self.path.push(last);
        let mut path = String::new();
        for segment in &self.path {
            if path.len() > MAX_PATH {
                path.push_str("...");
                break;
            }
            match segment {
                Segment::Index(at) => {
                    path.push('[');
                    path.push_str(&at.to_string());
                    path.push(']');
                }
                Segment::Field(name) => dotted(&mut path, name),
                Segment::Key(name) => dotted(&mut path, &cut_to(name, MAX_PATH)),
            }
        }
        self.path.pop();
        let text = format!("{what} field {path:?}");
        if !self.findings.strict.contains(&text) {
            self.findings.strict.push(text);
        }
    }

    /// The error for the value that stands here.
    fn mismatch(&mut self, ty: &Type) -> TypeError {
        let numeric = matches!(
            ty,
            Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString, _)
        );
        let value = match self.cursor.peek() {
            b'{' => "object".to_owned(),
            b'[' => "array".to_owned(),
            b'"' => "string".to_owned(),
            b't' | b'f' => "bool".to_owned(),
            _ if numeric => format!("number {}", cut_to(self.cursor.number(), MAX_PATH)),
            _ => "number".to_owned(),
        };
        let mut path = String::new();
        for segment in &self.path {
            if let Segment::Field(name) = segment {
                dotted(&mut path, name);
            }
        }
        TypeError::Mismatch { value, strukt: self.strukt, path, go: ty.go_name(), kind: go_kind(ty) }
    }
}

fn go_kind(ty: &Type) -> &'static str {
    match ty {
        Type::Struct(_) => "struct",
        Type::List(_) | Type::Scalar(Scalar::Bytes, _) => "slice",
        Type::Map(_) => "map",
        Type::Scalar(Scalar::String, _) => "string",
        Type::Scalar(Scalar::Bool, _) => "bool",
        Type::Scalar(Scalar::Int32, _) => "int32",
        Type::Scalar(Scalar::Int64, _) => "int64",
        Type::Scalar(Scalar::Double, _) => "float64",
        Type::Scalar(_, _) => "json",
    }
}

fn dotted(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Puts a decoded field into the map of its struct, or leaves it out as Go would when printing.
fn put(map: &mut Map<String, Value>, field: &Field, value: Option<Value>, again: bool) {
    let Some(mut value) = value else {
        // Null leaves a plain value as it was and clears what has a nil.
        if again && (field.pointer || !matches!(field.ty, Type::Scalar(..) | Type::Struct(_))) {
            map.remove(field.name);
        }
        return;
    };
    if again
        && let (Some(Value::Object(old)), Value::Object(new)) = (map.get_mut(field.name), &mut value)
        && matches!(field.ty, Type::Struct(_) | Type::Map(_))
    {
        // Go decodes the second object into the first.
        merge(old, std::mem::take(new));
        return;
    }
    if field.omit == Omit::Zero && is_zero(&value) {
        map.remove(field.name);
    } else {
        map.insert(field.name.to_owned(), value);
    }
}

fn merge(old: &mut Map<String, Value>, new: Map<String, Value>) {
    for (name, value) in new {
        match (old.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                old.insert(name, value);
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// What a null item of a list or map becomes.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::Struct(_) => Value::Object(ty.as_struct().map(|s| s.always.clone()).unwrap_or_default()),
        Type::List(_) | Type::Map(_) => Value::Null,
        Type::Scalar(scalar, _) => scalar.zero(),
    }
}

/// What Go says of a text of that length that is no base64.
pub fn base64_fault(error: &base64::DecodeError, text: &str) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        // A text that ends too early is at fault where its last group of four begins.
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding
            if text.ends_with('=') =>
        {
            text.len()
        }
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
    };
    format!("illegal base64 data at input byte {at}")
}

fn bytes(text: &str) -> Result<String, TypeError> {
    use base64::engine::general_purpose::STANDARD;
    // Go's decoder overlooks line breaks.
    let clean: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match STANDARD.decode(&clean) {
        Ok(data) => Ok(STANDARD.encode(data)),
        Err(error) => Err(TypeError::Custom(base64_fault(&error, &clean))),
    }
}
