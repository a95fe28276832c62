//! The OpenAPI documents (v3 per group, v2 as a whole) of the served kinds, built on first use.

use bytes::Bytes;

/// A document with the hash that names its version.
#[derive(Clone, Debug)]
pub struct Document {
    /// The JSON text.
    pub body: Bytes,
    /// Hash of the text, for the `ETag` header and the `?hash=` of the index.
    pub hash: String,
}

/// The index at `/openapi/v3`.
pub fn v3_index() -> Document {
    Document { body: Bytes::from_static(b"{\"paths\":{}}"), hash: String::new() }
}

/// The document at `/openapi/v3/{path}`, where `path` is such as `api/v1` or `apis/apps/v1`.
pub fn v3(path: &str) -> Option<Document> {
    let _ = path;
    None
}

/// The document at `/openapi/v2` as JSON.
pub fn v2() -> Document {
    Document { body: Bytes::from_static(b"{\"swagger\":\"2.0\"}"), hash: String::new() }
}
