//! Which number is which field of which message, read from `messages.txt` on first use.
//!
//! A line is `Message: name=number:type …`. A type is `string`, `bytes`, `int`, `bool`, a special one, or a message;
//! `*` stands before a repeated one, `{}` before the values of a map, `^` before the name of a field whose own fields
//! stand in the JSON in its place.

use std::collections::HashMap;
use std::sync::LazyLock;

static TEXT: &str = include_str!("messages.txt");

static MESSAGES: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| TEXT.lines().filter_map(Message::parse).collect());

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bytes,
    Integer,
    Bool,
    Time {
        micros: bool,
    },
    IntOrString,
    Quantity,
    Json,
    /// A message around a list of texts; in JSON it is the list.
    Texts,
    Message(&'static str),
}

impl Type {
    fn parse(text: &'static str) -> Self {
        match text {
            "string" => Self::Text,
            "bytes" => Self::Bytes,
            "int" => Self::Integer,
            "bool" => Self::Bool,
            "Time" => Self::Time { micros: false },
            "MicroTime" => Self::Time { micros: true },
            "IntOrString" => Self::IntOrString,
            "Quantity" => Self::Quantity,
            "FieldsV1" => Self::Json,
            "texts" => Self::Texts,
            message => Self::Message(message),
        }
    }
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) number: u64,
    pub(super) ty: Type,
    pub(super) repeated: bool,
    pub(super) map: bool,
    pub(super) inline: bool,
}

impl Field {
    fn parse(text: &'static str) -> Option<Self> {
        let (name, rest) = text.split_once('=')?;
        let (number, ty) = rest.split_once(':')?;
        let bare = ty.trim_start_matches(['*', '{', '}']);
        Some(Self {
            name: name.trim_start_matches('^'),
            number: number.parse().ok()?,
            ty: Type::parse(bare),
            repeated: ty.starts_with('*'),
            map: ty.starts_with('{'),
            inline: name.starts_with('^'),
        })
    }
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    /// Its name in Go.
    pub(super) name: &'static str,
    /// Its fields, by number.
    pub(super) fields: Vec<Field>,
}

impl Message {
    fn parse(line: &'static str) -> Option<(&'static str, Self)> {
        let (name, fields) = line.split_once(": ")?;
        let fields = fields.split(' ').filter_map(Field::parse).collect();
        Some((name, Self { name: name.rsplit('.').next().unwrap_or(name), fields }))
    }

    /// The field of that number; newer clients may send fields that are unknown here.
    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }
}

/// The message of that name.
pub(super) fn named(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message of a kind. Every group has the options of a delete, and they are the same everywhere.
pub(super) fn of_kind(group: &str, kind: &str) -> Option<&'static Message> {
    match group.split('.').next() {
        _ if kind == "DeleteOptions" => named(kind),
        None | Some("" | "meta") => named(kind),
        Some(group) => named(&format!("{group}.{kind}")),
    }
}

/// How many lines there are, and how many of them are messages.
#[cfg(test)]
pub(super) fn size() -> (usize, usize) {
    (TEXT.lines().count(), MESSAGES.len())
}
