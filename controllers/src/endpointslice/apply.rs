//! From planned slices to requests: bodies and preconditions.

use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::plan::Change;
use crate::api::{Resource, Verb, Write};
use crate::text::{Address, Labels, Text, Uid};
use crate::watch::cache::{AddressType, Endpoint, Hints, Owner, Ports, Slice, Target};
use crate::watch::objects::RefWire;

/// The request for a change in `namespace`.
///
/// # Errors
/// If the slice cannot be written as JSON, which does not happen to one that was read from it.
pub fn request(namespace: &Text, change: &Change) -> Result<Write, serde_json::Error> {
    let (verb, name, body) = match change {
        Change::Create(slice) => (Verb::Create, None, body(namespace, slice, false)?),
        Change::Update { new, .. } => (Verb::Update, Some(&new.name), body(namespace, new, true)?),
        Change::Delete(old) => (Verb::Delete, Some(&old.name), delete_body(&old.uid)?),
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

/// The body of a deletion that must hit the object with this uid.
pub(crate) fn delete_body(uid: &Uid) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
    }))
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

/// A reference in the form it has on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<UidText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_path: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum UidText<'a> {
    Uid(&'a Uid),
    Text(&'a str),
}

impl<'a> RefBody<'a> {
    pub(crate) fn new(target: &'a Target, namespace: &'a str) -> Self {
        match target {
            Target::Pod { name, uid } => Self::pod(name, uid, None, namespace),
            Target::PodAt(pod) => Self::pod(&pod.name, &pod.uid, Some(&pod.version), namespace),
            Target::Other(other) => Self::wire(other),
        }
    }

    fn pod(name: &'a str, uid: &'a Uid, version: Option<&'a str>, namespace: &'a str) -> Self {
        Self {
            kind: Some("Pod"),
            namespace: Some(namespace),
            name: Some(name),
            uid: (*uid != Uid::Absent).then_some(UidText::Uid(uid)),
            api_version: None,
            resource_version: version,
            field_path: None,
        }
    }

    fn wire(wire: &'a RefWire) -> Self {
        Self {
            kind: wire.kind.as_deref(),
            namespace: wire.namespace.as_deref(),
            name: wire.name.as_deref(),
            uid: wire.uid.as_deref().map(UidText::Text),
            api_version: wire.api_version.as_deref(),
            resource_version: wire.resource_version.as_deref(),
            field_path: wire.field_path.as_deref(),
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
