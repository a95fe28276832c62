//! What can be wrong with a protobuf body, in the words of upstream's generated readers.

/// Why bytes are not the message that they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing at all.
    #[error("empty data")]
    NoData,
    /// It does not start with the four bytes that each body starts with.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// Nothing behind these bytes.
    #[error("empty body")]
    NoBody,
    /// It breaks off.
    #[error("unexpected EOF")]
    BreaksOff,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length of more than 63 bits.
    #[error("proto: negative length found during unmarshaling")]
    Length,
    /// A shape that no field has.
    #[error("proto: illegal wireType {0}")]
    Shape(u64),
    /// A field with the number zero.
    #[error("proto: {message}: illegal tag 0 (wire type {shape})")]
    Number {
        /// The message it is in.
        message: &'static str,
        /// The shape it has.
        shape: u64,
    },
    /// The end of a group that did not begin.
    #[error("proto: {0}: wiretype end group for non-group")]
    GroupEnd(&'static str),
    /// A field of another shape than its type has.
    #[error("proto: wrong wireType = {shape} for field {field}")]
    Type {
        /// The shape it has.
        shape: u64,
        /// The field, as Go spells it.
        field: String,
    },
    /// Text that is none.
    #[error("string field contains invalid UTF-8")]
    Text,
    /// A time beyond the year 9999.
    #[error("the time is out of range")]
    Time,
    /// `fieldsV1` without JSON in it.
    #[error("fieldsV1 holds no JSON")]
    Json,
    /// Messages in messages in messages.
    #[error("proto: exceeded max depth")]
    Depth,
}

/// A body that is no object, and how far it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It does not even say what it is.
    Envelope(Fault),
    /// It says what it is, and is not.
    Object {
        /// The `apiVersion` it gives itself, or the expected one.
        api_version: String,
        /// The `kind` it gives itself, or the expected one.
        kind: String,
        /// What is wrong.
        fault: Fault,
    },
}
