//! What an endpoint stands for: read, kept and written.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::Interners;
use crate::objects::RefWire;
use crate::text::{Text, Uid};

/// What an endpoint stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A pod in the slice's own namespace.
    Pod {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Uid,
    },
    /// The same, and a version of the pod.
    PodAt(Box<PodAt>),
    /// Anything else, as it was written.
    Other(Box<RefWire>),
}

/// A pod in the slice's own namespace at one of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodAt {
    /// Its name.
    pub name: Text,
    /// Its uid.
    pub uid: Uid,
    /// Version of the pod.
    pub version: Text,
}

impl Target {
    /// Reads a reference found in an object of `namespace`.
    pub(crate) fn read(wire: RefWire, namespace: &str, shared: &mut Interners) -> Self {
        match &wire {
            RefWire {
                kind: Some(kind),
                namespace: Some(ns),
                name: Some(name),
                uid,
                api_version: None,
                resource_version,
                field_path: None,
            } if kind == "Pod" && ns == namespace => {
                let (name, uid) = (shared.texts.text(name), uid.as_deref().unwrap_or_default().into());
                match resource_version {
                    None => Self::Pod { name, uid },
                    Some(version) => {
                        Self::PodAt(Box::new(PodAt { name, uid, version: version.as_str().into() }))
                    }
                }
            }
            _ => Self::Other(Box::new(wire)),
        }
    }

    /// The same object, whatever its version: that says nothing about an endpoint.
    #[must_use]
    pub fn unversioned(&self) -> Cow<'_, Self> {
        match self {
            Self::PodAt(pod) => Cow::Owned(Self::Pod { name: Arc::clone(&pod.name), uid: pod.uid.clone() }),
            Self::Other(other) if other.resource_version.is_some() => {
                Cow::Owned(Self::Other(Box::new(RefWire { resource_version: None, ..RefWire::clone(other) })))
            }
            Self::Pod { .. } | Self::Other(_) => Cow::Borrowed(self),
        }
    }

    /// The uid of the object.
    #[must_use]
    pub fn uid(&self) -> Uid {
        match self {
            Self::Pod { uid, .. } => uid.clone(),
            Self::PodAt(pod) => pod.uid.clone(),
            Self::Other(other) => other.uid.as_deref().unwrap_or_default().into(),
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
