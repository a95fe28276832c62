//! What is written to the API server: bodies and preconditions, one shape for each kind.
//!
//! Owns the form on the wire; never what is to be written.

pub(crate) mod endpoints;
pub mod slices;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::cache::Owner;
use crate::text::{Labels, Text, Uid};

/// The metadata of an object that is written. With uid and version it must hit what was read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generate_name: Option<&'a str>,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a Uid>,
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    annotations: &'a Labels,
    #[serde(skip_serializing_if = "<[Owner]>::is_empty")]
    owner_references: &'a [Owner],
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    finalizers: &'a [Text],
}

/// The body of a deletion that must hit the object with this uid.
fn delete_body(uid: &Uid) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
    }))
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("OwnerReference", 6)?;
        out.serialize_field("apiVersion", &*self.api_version)?;
        out.serialize_field("kind", &*self.kind)?;
        out.serialize_field("name", &*self.name)?;
        out.serialize_field("uid", &self.uid)?;
        if let Some(controller) = self.controller {
            out.serialize_field("controller", &controller)?;
        }
        if let Some(block) = self.block {
            out.serialize_field("blockOwnerDeletion", &block)?;
        }
        out.end()
    }
}
