//! Writes of slices: what is done, and the request for it.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{Meta, delete_body};
use crate::api::{Resource, Verb, Write};
use crate::cache::{AddressType, Endpoint, Hints, Ports, RefBody, Slice};
use crate::text::{Address, Text};

/// A write of a slice.
#[derive(Clone, Debug)]
pub enum SliceWrite {
    /// Make this slice; the server chooses its name.
    Create(Slice),
    /// Replace `old` by `new`.
    Update {
        /// The slice as it is.
        old: Arc<Slice>,
        /// The slice as it should be.
        new: Slice,
    },
    /// Delete this slice.
    Delete(Arc<Slice>),
}

/// The request for a write in `namespace`.
///
/// # Errors
/// If the slice cannot be written as JSON, which does not happen to one that was read from it.
pub fn request(namespace: &Text, write: &SliceWrite) -> Result<Write, serde_json::Error> {
    let (verb, name, body) = match write {
        SliceWrite::Create(slice) => (Verb::Create, None, body(namespace, slice, false)?),
        SliceWrite::Update { new, .. } => (Verb::Update, Some(&new.name), body(namespace, new, true)?),
        SliceWrite::Delete(old) => (Verb::Delete, Some(&old.name), delete_body(&old.uid)?),
    };
    Ok(Write {
        verb,
        resource: Resource::Slices,
        namespace: Some(namespace.clone()),
        name: name.cloned(),
        status: false,
        body: body.into(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Meta<'a>,
    address_type: AddressType,
    endpoints: EndpointList<'a>,
    ports: &'a Ports,
}

fn body(namespace: &str, slice: &Slice, exists: bool) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(512 + slice.endpoints.len() * 256);
    serde_json::to_writer(
        &mut out,
        &Body {
            api_version: "discovery.k8s.io/v1",
            kind: "EndpointSlice",
            metadata: Meta {
                name: &slice.name,
                generate_name: slice.generate_name.as_deref(),
                namespace,
                resource_version: exists.then(|| slice.version.to_string()),
                uid: exists.then_some(&slice.uid),
                labels: &slice.labels,
                annotations: &slice.annotations,
                owner_references: &slice.owners,
                finalizers: &slice.finalizers,
            },
            address_type: slice.family,
            endpoints: EndpointList { namespace, endpoints: &slice.endpoints },
            ports: &slice.ports,
        },
    )?;
    Ok(out)
}

struct EndpointList<'a> {
    namespace: &'a str,
    endpoints: &'a [Endpoint],
}

impl Serialize for EndpointList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.endpoints.iter().map(|e| EndpointBody::new(e, self.namespace)))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointBody<'a> {
    addresses: &'a [Address],
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<RefBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<HintsBody<'a>>,
}

#[derive(Serialize)]
struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating: Option<bool>,
}

impl<'a> EndpointBody<'a> {
    fn new(endpoint: &'a Endpoint, namespace: &'a str) -> Self {
        Self {
            addresses: &endpoint.addresses,
            conditions: Conditions {
                ready: endpoint.ready,
                serving: endpoint.serving,
                terminating: endpoint.terminating,
            },
            hostname: endpoint.hostname.as_deref(),
            target_ref: endpoint.target.as_ref().map(|t| RefBody::new(t, namespace)),
            node_name: endpoint.node.as_deref(),
            zone: endpoint.zone.as_deref(),
            hints: endpoint.hints.as_ref().map(HintsBody::new),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HintsBody<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    for_zones: Vec<Named<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    for_nodes: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

impl<'a> HintsBody<'a> {
    fn new(hints: &'a Arc<Hints>) -> Self {
        Self {
            for_zones: hints.zones.iter().map(|name| Named { name }).collect(),
            for_nodes: hints.nodes.iter().map(|name| Named { name }).collect(),
        }
    }
}
