//! The API machinery of the lab: what an object looks like, how a body becomes one, and how patches change it.
//!
//! Owns schemas, decoding (JSON, YAML, protobuf), field ownership and the four kinds of patch. All of it is pure: the
//! caller says who asks and what time it is. It knows no store, no HTTP and no rule of a single kind (defaults and
//! validation are the API server's).
//!
//! ```text
//! patch -> managed_fields -> decode -> protobuf -> schema
//! ```

pub mod decode;
pub mod managed_fields;
pub mod patch;
pub mod protobuf;
pub mod schema;
