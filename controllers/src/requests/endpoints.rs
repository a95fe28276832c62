//! Writes of `Endpoints` objects.

use serde::Serialize;

use super::{Meta, delete_body};
use crate::api::{Resource, Verb, Write};
use crate::index::endpoints::EndpointsObject;
use crate::subsets::{Subset, SubsetsBody};
use crate::text::{Labels, Text};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Meta<'a>,
    subsets: SubsetsBody<'a>,
}

fn request(verb: Verb, namespace: &Text, name: Option<&Text>, body: Vec<u8>) -> Write {
    Write {
        verb,
        resource: Resource::Endpoints,
        namespace: Some(namespace.clone()),
        name: name.cloned(),
        status: false,
        body: body.into(),
    }
}

/// The request that puts these labels, annotations and addresses into the object `known`, or into a new one.
///
/// # Errors
/// If they cannot be written as JSON, which does not happen to what was read from it.
pub(crate) fn put(
    namespace: &Text,
    name: &Text,
    known: Option<&EndpointsObject>,
    labels: &Labels,
    annotations: &Labels,
    subsets: &[Subset],
) -> Result<Write, serde_json::Error> {
    let metadata = Meta {
        name,
        generate_name: None,
        namespace,
        uid: known.map(|k| &k.uid),
        resource_version: known.map(|k| k.version.to_string()),
        labels,
        annotations,
        owner_references: known.map_or(&[], |k| &k.owners),
        finalizers: known.map_or(&[], |k| &k.finalizers),
    };
    let subsets_body = SubsetsBody { namespace, subsets };
    let addresses: usize = subsets.iter().map(Subset::len).sum();
    let mut json = Vec::with_capacity(512 + addresses * 224);
    let body = Body { api_version: "v1", kind: "Endpoints", metadata, subsets: subsets_body };
    serde_json::to_writer(&mut json, &body)?;
    let verb = if known.is_some() { Verb::Update } else { Verb::Create };
    Ok(request(verb, namespace, known.map(|_| name), json))
}

/// The request that deletes the object.
///
/// # Errors
/// As for [`put`].
pub(crate) fn delete(
    namespace: &Text,
    name: &Text,
    known: &EndpointsObject,
) -> Result<Write, serde_json::Error> {
    Ok(request(Verb::Delete, namespace, Some(name), delete_body(&known.uid)?))
}
